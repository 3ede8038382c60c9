package import Records

/// A schema as its text says it, with all that is wrong with the text.
///
/// See SchemaLanguage.md, "Grammar", "System fields and roles" and "Indexes".
package struct SchemaText: Sendable {
    /// Only what could be read where there are issues.
    package var schema: Schema
    /// In the order of the text; every offence, not only the first.
    package var issues: [SchemaIssue]
    /// Where each element is declared; of a field, its name.
    package var positions: [SchemaElement: TextPosition]

    /// Whether the text may be used: warnings do not stand in the way.
    package var isValid: Bool { issues.allSatisfy(\.isWarning) }

    package init(parsing text: String) {
        var parser = SchemaParser(text)
        parser.run()
        schema = parser.schema
        positions = parser.positions
        issues = parser.issues.sorted { $0.position < $1.position }
    }
}
