/// A place in a text: lines and columns count from 1, columns in characters as an editor counts them.
package struct TextPosition: Hashable, Sendable, Comparable {
    package var line: Int
    package var column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    package static func < (a: TextPosition, b: TextPosition) -> Bool { (a.line, a.column) < (b.line, b.column) }
}

/// Something in a schema's text that a person should change.
package struct SchemaIssue: Hashable, Sendable {
    package var position: TextPosition
    /// Is it only a habit that other readers of the language may refuse? Then the text is taken all the same.
    package var isWarning: Bool
    /// A sentence without its full stop.
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
