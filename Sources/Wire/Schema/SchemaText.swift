package import Records

/// A parsed schema text with its issues.
///
/// See SchemaLanguage.md, "Grammar", "System fields and roles" and "Indexes".
package struct SchemaText: Sendable {
    /// If there are issues, only the parts that could be parsed.
    package var schema: Schema
    /// All issues, in the order of the text.
    package var issues: [SchemaIssue]
    /// The position of each element's declaration; for a field, of its name.
    package var positions: [SchemaElement: TextPosition]

    /// Whether the text has no errors; warnings are allowed.
    package var isValid: Bool { issues.allSatisfy(\.isWarning) }

    package init(parsing text: String) {
        var parser = SchemaParser(text)
        parser.run()
        schema = parser.schema
        positions = parser.positions
        issues = parser.issues.sorted { $0.position < $1.position }
    }
}

/// A position in a text: lines and columns counted from 1, columns in Unicode scalars.
package struct TextPosition: Hashable, Sendable, Comparable {
    package var line: Int
    package var column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    package static func < (a: TextPosition, b: TextPosition) -> Bool { (a.line, a.column) < (b.line, b.column) }
}

/// A problem in a schema's text.
package struct SchemaIssue: Hashable, Sendable {
    package var position: TextPosition
    /// Whether the text is accepted nevertheless; other tools for the language may reject it.
    package var isWarning: Bool
    /// A sentence without its final period.
    package var message: String

    package init(at position: TextPosition, isWarning: Bool = false, _ message: String) {
        self.position = position
        self.isWarning = isWarning
        self.message = message
    }

    /// `file:line:column: message`.
    package func line(inFile file: String) -> String {
        "\(file):\(position.line):\(position.column): \(isWarning ? "warning: " : "")\(message)"
    }
}
