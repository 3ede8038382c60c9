package import Records

/// Prints a schema in the format of CloudKit's exports: sorted by name, types aligned in a column, grants last.
///
/// Parsing such a text and printing it again yields the same text. See SchemaLanguage.md, "Grammar".
package enum SchemaPrinter {
    /// Words that must be quoted as names, in lower case.
    package static let reservedWords: Set<String> = ["grant", "preferred", "queryable", "sortable", "searchable"]

    package static func text(of schema: Schema) -> String {
        var text = "DEFINE SCHEMA\n\n"
        let roles = schema.roles.map(\.name).sorted(by: inBinaryOrder)
        for role in roles { text += "    CREATE ROLE \(quoted(role));\n" }
        if !roles.isEmpty { text += "\n" }
        for (name, type) in schema.types.sorted(by: { inBinaryOrder($0.key, $1.key) }) {
            text += "    RECORD TYPE \(quoted(name)) (\n"
            text += items(of: type).map { "        " + $0 }.joined(separator: ",\n")
            text += "\n    );\n\n"
        }
        return text
    }

    /// Independent of the locale.
    private static func inBinaryOrder(_ a: String, _ b: String) -> Bool { a.precedesInUTF8(b) }

    private static func items(of type: RecordType) -> [String] {
        var fields: [(name: String, type: String, indexes: Indexes)] = type.fields.map {
            ($0.key, FieldDeclaration($0.value).text, $0.value.indexes)
        }
        fields += Query.SystemField.allCases.map {
            ($0.rawValue, FieldDeclaration($0.type).text, type.systemIndexes[$0] ?? [])
        }
        fields.sort { inBinaryOrder($0.name, $1.name) }
        let width = fields.map { quoted($0.name).utf8.count }.max() ?? 0
        let lines = fields.map { field in
            let name = quoted(field.name)
            let gap = String(repeating: " ", count: width - name.utf8.count + 1)
            return ([name + gap + field.type] + field.indexes.keywords).joined(separator: " ")
        }
        let grants = type.grants.filter { !$0.value.isEmpty }.sorted { inBinaryOrder($0.key.name, $1.key.name) }
        return lines
            + grants.map { "GRANT \($0.value.keywords.joined(separator: ", ")) TO \(quoted($0.key.name))" }
    }

    /// Returns a name in the syntax of the language: quoted if it is a system name or a reserved word.
    package static func quoted(_ name: String) -> String {
        NameRules.isIdentifier(name) && !reservedWords.contains(name.lowercased()) ? name : "\"\(name)\""
    }
}

extension Indexes {
    /// The keywords in the order of CloudKit's exports.
    package var keywords: [String] {
        let words: [(Indexes, String)] = [
            (.queryable, "QUERYABLE"), (.searchable, "SEARCHABLE"), (.sortable, "SORTABLE"),
        ]
        return words.filter { contains($0.0) }.map(\.1)
    }
}

extension Rights {
    /// The keywords in the language's order.
    package var keywords: [String] {
        let words: [(Rights, String)] = [(.read, "READ"), (.create, "CREATE"), (.write, "WRITE")]
        return words.filter { contains($0.0) }.map(\.1)
    }
}
