package import Records
import Wire

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A record type of one version of a schema, made ready for fields to be held against it: those come by the million.
package final class KnownType: Sendable {
    struct Field: Sendable {
        let declared: RecordType.Field
        /// The name in UTF-8.
        let name: [UInt8]
        /// All that stands before its value.
        let key: [UInt8]
    }

    package let name: String
    /// `nil`: the schema has no such type.
    package let definition: RecordType?
    /// What its fields were that have been taken out.
    let retired: [String: RecordType.Field]
    let fields: [Field]

    package init(_ name: String, in schema: Schema) {
        self.name = name
        // Shares may have fields of the program's own everywhere; no schema speaks of them.
        let definition = name == Share.recordType ? .share : schema.types[name]
        self.definition = definition
        retired = schema.retired[name] ?? [:]
        fields = (definition?.fields ?? [:]).map { name, field in
            Field(declared: field, name: Array(name.utf8), key: FieldsWriter.key(name))
        }
    }

    /// Where the field of this name stands among `fields`; `nil` where there is none, or where there are so many that to look
    /// through them is slower than to ask `definition`.
    ///
    /// Looks first at `place`, which then is the one after it: records of a type mostly have their fields in one order.
    func index(of name: UnsafeBufferPointer<UInt8>, from place: inout Int) -> Int? {
        guard fields.count <= 64 else { return nil }
        for step in 0..<fields.count {
            let index = place + step < fields.count ? place + step : place + step - fields.count
            guard fields[index].name.count == name.count, Self.isSame(fields[index].name, name) else { continue }
            place = index + 1 < fields.count ? index + 1 : 0
            return index
        }
        return nil
    }

    /// Of two that are equally long.
    private static func isSame(_ a: [UInt8], _ b: UnsafeBufferPointer<UInt8>) -> Bool {
        a.withUnsafeBytes { a in
            guard let first = a.baseAddress, let second = b.baseAddress else { return true }
            return memcmp(first, second, b.count) == 0
        }
    }
}

/// A record type that learns fields by their being saved.
struct GrowingType {
    private let known: KnownType
    /// With what was learnt; `nil` where nobody has asked yet.
    private var definition: RecordType?

    init(_ known: KnownType) { self.known = known }

    /// The definition with the new fields, where it has to change: all that a save can do to a type is to add some.
    var growth: RecordType? {
        guard let definition else { return known.definition == nil ? RecordType() : nil }
        return definition.fields.count == known.definition?.fields.count ? nil : definition
    }

    /// How a field is declared, declaring it on the way where it is new and that is allowed.
    mutating func declare(
        _ field: FieldInput,
        of record: borrowing RecordInput,
        mayGrow: Bool
    ) throws(RelayError) -> RecordType.Field {
        let name = record.name(of: field)
        if let declared = (definition ?? known.definition)?.fields[name] { return declared }
        guard mayGrow else {
            throw .badRequest(
                "Field '\(name.prefix(64))' does not exist in record type '\(known.name)' in this environment; "
                    + SchemaRules.whyNotGrown
            )
        }
        guard NameRules.isIdentifier(name) else {
            throw .badRequest(
                "'\(name.prefix(64))' is not a field name: use letters, digits and underscores, a letter first."
            )
        }
        guard let fieldType = field.tag ?? record.value(of: field).flatMap(FieldCodec.inferredType) else {
            throw .badRequest("The value of field '\(name)' is of no type that a field can have.")
        }
        guard !field.isEncrypted || fieldType.isEncryptable else {
            throw .badRequest("Field '\(name)' is a \(fieldType.tag): references and assets cannot be encrypted.")
        }
        let declared = RecordType.Field(fieldType, isEncrypted: field.isEncrypted)
        if let retired = known.retired[name], retired.type != fieldType || retired.isEncrypted != field.isEncrypted {
            throw .badRequest(
                "Field '\(name)' of record type '\(known.name)' was \(FieldForm(retired).text) before it was taken out "
                    + "of the schema, and records may still hold that. It can be another only after 'zonecast schema reset'."
            )
        }
        // In its place: a record may bring thousands of fields.
        if definition == nil { definition = known.definition ?? RecordType() }
        definition?.fields[name] = declared
        return declared
    }
}
