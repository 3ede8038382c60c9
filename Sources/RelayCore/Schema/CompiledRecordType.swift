package import Records
import Wire

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A record type of one schema version, precomputed so that checking fields against it is fast.
package final class CompiledRecordType: Sendable {
    struct Field: Sendable {
        let declared: RecordType.Field
        /// The name in UTF-8.
        let name: [UInt8]
        /// The encoded JSON that precedes the field's value.
        let key: [UInt8]
    }

    package let name: String
    /// `nil` if the schema does not have the type.
    package let definition: RecordType?
    /// The former definitions of removed fields.
    let removedFields: [String: RecordType.Field]
    let fields: [Field]

    package init(_ name: String, in schema: Schema) {
        self.name = name
        // Shares can have custom fields, which are in no schema.
        let definition = name == Share.recordType ? .share : schema.types[name]
        self.definition = definition
        removedFields = schema.removedFields[name] ?? [:]
        fields = (definition?.fields ?? [:]).map { name, field in
            Field(declared: field, name: Array(name.utf8), key: FieldsWriter.key(name))
        }
    }

    /// Returns the index of a field in `fields`; `nil` if it does not exist, or if a linear search would be slower than
    /// a lookup in `definition`.
    ///
    /// Starts at `place` and sets it to the following index: records of a type usually have their fields in the same
    /// order.
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

    /// Compares two buffers of equal length.
    private static func isSame(_ a: [UInt8], _ b: UnsafeBufferPointer<UInt8>) -> Bool {
        a.withUnsafeBytes { a in
            guard let first = a.baseAddress, let second = b.baseAddress else { return true }
            return memcmp(first, second, b.count) == 0
        }
    }
}

/// A record type that gains fields through just-in-time growth.
struct GrowingType {
    private let known: CompiledRecordType
    /// The definition with the added fields; `nil` if no field was looked up.
    private var definition: RecordType?

    init(_ known: CompiledRecordType) { self.known = known }

    /// The definition with the added fields if it has changed; saving can only add fields.
    var growth: RecordType? {
        guard let definition else { return known.definition == nil ? RecordType() : nil }
        return definition.fields.count == known.definition?.fields.count ? nil : definition
    }

    /// Returns the definition of a field, adding it if it is new and growth is allowed.
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
                    + SchemaRules.growthRefusal
            )
        }
        guard NameRules.isIdentifier(name) else {
            throw .badRequest(
                "'\(name.prefix(64))' is not a field name: use letters, digits and underscores, a letter first."
            )
        }
        guard field.tag != nil || !record.isEmptyList(field) else {
            throw .badRequest(
                "cannot use an empty list to initialize a new field (field '\(name)' in record type '\(known.name)' should "
                    + "be more precise). Save it with an element first, or give its type, such as STRING_LIST."
            )
        }
        guard let fieldType = field.tag ?? record.value(of: field).flatMap(FieldCodec.inferredType) else {
            throw .badRequest("The value of field '\(name)' has no type that a field can have.")
        }
        guard !field.isEncrypted || fieldType.isEncryptable else {
            throw .badRequest("Field '\(name)' is a \(fieldType.tag): references and assets cannot be encrypted.")
        }
        let declared = RecordType.Field(fieldType, isEncrypted: field.isEncrypted)
        if let removed = known.removedFields[name],
            removed.type != fieldType || removed.isEncrypted != field.isEncrypted
        {
            throw .badRequest(
                "Field '\(name)' of record type '\(known.name)' was \(FieldDeclaration(removed).text) before it was removed "
                    + "from the schema, and records may still contain such values. Its type can change only after 'zonecast schema reset'."
            )
        }
        // Added in place, because a record may bring thousands of fields.
        if definition == nil { definition = known.definition ?? RecordType() }
        definition?.fields[name] = declared
        return declared
    }
}
