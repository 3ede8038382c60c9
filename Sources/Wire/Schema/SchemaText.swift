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
