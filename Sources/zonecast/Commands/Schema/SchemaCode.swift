import Records

/// Generates Swift for a schema.
///
/// The same schema gives the same text, whatever order it was declared in.
struct SchemaCode {
    /// The kind of code to generate.
    enum Form: String, CaseIterable, Sendable {
        /// Structs that wrap `CKRecord`, for `ZoneKit` or Apple's CloudKit.
        case records
        /// Plain structs and their model, for `ZoneMirror`.
        case mirror
    }

    enum Access: String, CaseIterable, Sendable {
        case `internal`, package, `public`

        var keyword: String { self == .internal ? "" : "\(rawValue) " }
    }

    private let schema: Schema
    private let source: String
    private let access: Access
    /// The module to import; Apple's `CloudKit` has the same type names as `ZoneKit`.
    private let module: String

    /// - Parameters:
    ///   - schema: The schema.
    ///   - source: The schema's origin, for the first line of the text.
    ///   - access: The access level of all declarations.
    ///   - module: The module to import, for the form `records`.
    init(_ schema: Schema, from source: String, access: Access, module: String = "ZoneKit") {
        self.schema = schema
        self.source = source
        self.access = access
        self.module = module
    }

    func text(_ form: Form) -> String {
        var lines = [
            "// Made from \(source) by: zonecast schema codegen --form \(form.rawValue)",
            "// What is changed here is lost when it is made again: change the schema.",
            "",
        ]
        switch form {
        case .records: records(&lines)
        case .mirror: mirror(&lines)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: Around records

    private func records(_ lines: inout [String]) {
        let open = access.keyword
        lines += ["\(open)import Foundation", "\(open)import \(module)"]
        for (name, type) in named(withUsers: true) {
            lines += [
                "", "/// A record of type `\(name)`: the record itself stays within reach, for what is not a field.",
            ]
            lines += ["\(access.keyword)struct \(Self.typeName(name)) {"]
            lines += [
                "    /// The type's name on the relay.", "    \(access.keyword)static let recordType = \"\(name)\"",
            ]
            lines += ["    /// What is saved and fetched.", "    \(access.keyword)let record: CKRecord", ""]
            lines += ["    /// Looks at a record of this type.", "    \(access.keyword)init(_ record: CKRecord) {"]
            lines += ["        self.record = record", "    }", "", "    /// A new record."]
            lines += ["    \(access.keyword)init(id: CKRecord.ID = CKRecord.ID(recordName: UUID().uuidString)) {"]
            lines += ["        record = CKRecord(recordType: Self.recordType, recordID: id)", "    }"]
            for (field, form) in Self.sorted(type.fields) { lines += property(field, form) }
            lines.append("}")
        }
    }

    private func property(_ field: String, _ form: RecordType.Field) -> [String] {
        let place = form.isEncrypted ? "record.encryptedValues[\"\(field)\"]" : "record[\"\(field)\"]"
        let name = Self.propertyName(field, taken: ["record", "recordType"])
        return [
            "", "    /// `\(field)`, \(Self.words(form)).",
            "    \(access.keyword)var \(name): \(Self.recordValue(form.type))? {",
            "        get { \(place) }", "        nonmutating set { \(place) = newValue }", "    }",
        ]
    }

    private static func recordValue(_ type: FieldType) -> String {
        switch type {
        case .scalar(let scalar): recordValue(scalar)
        case .list(let scalar): "[\(recordValue(scalar))]"
        }
    }

    private static func recordValue(_ scalar: FieldType.Scalar) -> String {
        switch scalar {
        case .string: "String"
        case .int64: "Int64"
        case .double: "Double"
        case .timestamp: "Date"
        case .bytes: "Data"
        case .reference: "CKRecord.Reference"
        case .location: "CLLocation"
        case .asset: "CKAsset"
        }
    }

    // MARK: Mirrors

    private func mirror(_ lines: inout [String]) {
        let types = named(withUsers: false).filter { $0.0 != "CDMR" }
        // Record types that Core Data, or a mirror with default options, has created.
        let isPrefixed = !types.isEmpty && types.allSatisfy { $0.0.hasPrefix("CD_") }
        if !isPrefixed {
            lines += [
                "// Open the store with `usesPrefix = false` in its CloudOptions: these names are the relay's own.", "",
            ]
        }
        let open = access.keyword
        let needsFoundation = types.contains { $0.1.fields.values.contains { Self.isFoundation($0.type) } }
        lines += (needsFoundation ? ["\(open)import Foundation"] : []) + ["\(open)import ZoneMirror"]
        var names: [String] = []
        for (name, type) in types {
            let own = Self.typeName(isPrefixed ? String(name.dropFirst(3)) : name)
            names.append(own)
            lines += [
                "", "/// An object, on the relay a record of type `\(name)`.", "\(open)struct \(own): SyncedRecord {",
            ]
            lines += ["    /// The record's name.", "    \(open)var id = RecordName()"]
            let entityName = isPrefixed ? String(name.dropFirst(3)) : name
            var encrypted: [String] = []
            for (field, form) in Self.sorted(type.fields) {
                guard let column = Self.column(field, isPrefixed) else { continue }
                guard let value = Self.mirroredValue(form.type), Self.isPlain(column), column != "id" else {
                    lines.append("    // \(field), \(Self.words(form)): not for mirrors, read it with ZoneKit.")
                    continue
                }
                lines += [
                    "    /// `\(field)`, \(Self.words(form)).", "    \(open)var \(Self.escaped(column)): \(value)?",
                ]
                if form.isEncrypted { encrypted.append(column) }
            }
            lines += ["", "    /// An object that says nothing yet.", "    \(open)init() {}"]
            if own != entityName {
                lines += [
                    "", "    /// The record type's name.",
                    "    \(open)static var entityName: String { \"\(entityName)\" }",
                ]
            }
            if !encrypted.isEmpty {
                lines += [
                    "", "    /// What is encrypted.", "    \(open)static func describe(_ entity: inout Entity) {",
                ]
                lines += encrypted.map { "        entity.attribute(\"\($0)\") { $0.isEncrypted = true }" }
                lines.append("    }")
            }
            lines.append("}")
        }
        lines += ["", "extension MirrorModel {", "    /// Everything that the schema declares."]
        let list = names.map { "\($0).self" }.joined(separator: ", ")
        lines += ["    \(open)static var ofSchema: MirrorModel { MirrorModel(\(list)) }", "}"]
    }

    /// Returns the column of a field; `nil` for fields that mirrors write themselves.
    private static func column(_ field: String, _ isPrefixed: Bool) -> String? {
        let own = ["entityName", "moveReceipt", "editTimes"]
        let name = isPrefixed && field.hasPrefix("CD_") ? String(field.dropFirst(3)) : field
        return own.contains(name) || name.hasSuffix("_ckAsset") ? nil : name
    }

    private static func isFoundation(_ type: FieldType) -> Bool {
        type == .scalar(.timestamp) || type == .scalar(.bytes)
    }

    private static func mirroredValue(_ type: FieldType) -> String? {
        switch type {
        case .scalar(.string): "String"
        case .scalar(.int64): "Int"
        case .scalar(.double): "Double"
        case .scalar(.timestamp): "Date"
        case .scalar(.bytes): "Data"
        case .scalar, .list: nil
        }
    }

    // MARK: Names

    private func named(withUsers: Bool) -> [(String, RecordType)] {
        schema.types.filter { name, type in
            guard name == RecordType.usersName else { return !name.hasPrefix("cloudkit.") }
            return withUsers && type.fields.keys.contains { $0 != "roles" }
        }.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private static func sorted(_ fields: [String: RecordType.Field]) -> [(String, RecordType.Field)] {
        fields.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Returns a field's type as text, like `encrypted STRING` or `list of INT64`.
    private static func words(_ form: RecordType.Field) -> String {
        let kind =
            switch form.type {
            case .scalar(let scalar): scalar.rawValue
            case .list(let scalar): "list of \(scalar.rawValue)"
            }
        return form.isEncrypted ? "encrypted \(kind)" : kind
    }

    /// Returns a Swift type name: record types contain only letters, digits and underscores, so it only adjusts the
    /// first letter and avoids collisions.
    private static func typeName(_ name: String) -> String {
        let own = name.prefix(1).uppercased() + name.dropFirst()
        return ["Type", "Protocol", "Self", "Any"].contains(own) || foreign.contains(own) ? "\(own)Record" : own
    }

    /// Names that the generated text uses itself.
    private static let foreign: Set<String> = [
        "String", "Int", "Int64", "Double", "Date", "Data", "UUID", "CKRecord", "CKAsset", "CLLocation", "RecordName",
        "SyncedRecord", "Entity", "MirrorModel", "Attribute", "Relationship",
    ]

    private static func isPlain(_ name: String) -> Bool {
        guard let first = name.utf8.first, first == 0x5F || (first | 0x20) >= 0x61 else { return false }
        return name.utf8.allSatisfy { $0 == 0x5F || (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) }
    }

    private static func propertyName(_ field: String, taken: Set<String>) -> String {
        let plain = isPlain(field) ? field : "field_" + String(field.map { $0.isLetter || $0.isNumber ? $0 : "_" })
        return taken.contains(plain) ? plain + "Field" : escaped(plain)
    }

    private static func escaped(_ name: String) -> String { keywords.contains(name) ? "`\(name)`" : name }

    private static let keywords: Set<String> = [
        "associatedtype", "class", "deinit", "enum", "extension", "fileprivate", "func", "import", "init", "inout",
        "internal", "let", "open", "operator", "private", "precedencegroup", "protocol", "public", "rethrows", "static",
        "struct", "subscript", "typealias", "var", "break", "case", "catch", "continue", "default", "defer", "do",
        "else",
        "fallthrough", "for", "guard", "if", "in", "repeat", "return", "throw", "switch", "where", "while", "Any", "as",
        "await", "false", "is", "nil", "self", "Self", "super", "throws", "true", "try", "Type", "Protocol",
    ]
}
