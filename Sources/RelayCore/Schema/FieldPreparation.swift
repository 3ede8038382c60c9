package import Records
package import Wire

/// Prepared fields behind one reference, which makes them cheap to pass on.
package final class PreparedFields: Sendable {
    package let fields: FieldPreparation

    package init(_ fields: consuming FieldPreparation) { self.fields = fields }
}

/// A record's fields as sent by a client, checked against the schema, with the additions that the schema needs.
///
/// Created outside the writer with the current schema; the writer creates it again if the schema has changed or must
/// grow.
package struct FieldPreparation: Sendable {
    /// The fields to set, encoded for storage.
    package var text: EncodedFields
    package var cleared: Set<String>
    /// Fields with assets or references, in order.
    package var links: [EncodedFields.DecodedField] = []
    /// Assets with a valid receipt, which must be stored when the record is saved.
    package var freshAssets: [AssetHash] = []
    /// Fields with assets without a receipt; the stored record must already contain them.
    package var unprovenAssets: [(field: String, asset: Asset)] = []
    /// References that affect other records: all except those with the action `NONE`.
    package var references: [(field: String, reference: Reference)] = []
    /// The type's definition with the added fields; `nil` if it does not change.
    package var growth: RecordType?

    /// Throws the record's error: a type or field that is unknown and may not be added, or an invalid value.
    package init(
        _ record: borrowing RecordInput,
        ofType known: CompiledRecordType,
        in zone: ZoneID,
        of database: DatabaseAddress,
        rules: SchemaRules
    ) throws(RelayError) {
        text = EncodedFields()
        cleared = []
        let isShare = known.name == Share.recordType
        let mayGrow = isShare || rules.mayGrow
        if known.definition == nil { try Self.checkUnknown(known.name, mayGrow: mayGrow, rules) }
        var growing = GrowingType(known)
        var writer = FieldsWriter(reserving: 512)
        var place = 0
        for field in record.fields {
            if field.clears {
                cleared.insert(record.name(of: field))
                continue
            }
            if field.isEncrypted, rules.scope == .public { throw .encryptedInPublic }
            let index = record.withName(of: field) { known.index(of: $0, from: &place) }
            let declared =
                if let index {
                    known.fields[index].declared
                } else {
                    try growing.declare(field, of: record, mayGrow: mayGrow)
                }
            try Self.check(field, of: record, against: declared)
            let key = index.map { known.fields[$0].key } ?? FieldsWriter.key(record.name(of: field))
            if let size = writer.add(key, field, of: record, ofType: declared.type, isEncrypted: declared.isEncrypted) {
                try Self.check(size, of: field, of: record, rules)
                continue
            }
            var entry = try Self.entry(field, of: record, declared: declared, rules: rules)
            if declared.type.isAsset { entry.value = try verifyAssets(entry.value, of: entry.name, rules) }
            if declared.type.isReference {
                entry.value = try resolveReferences(entry.value, of: entry.name, zone, database)
            }
            if declared.type.isAsset || declared.type.isReference { links.append((writer.count, entry)) }
            writer.add(entry)
        }
        text = writer.finish()
        growth = isShare ? nil : growing.growth
    }

    private static func checkUnknown(_ name: String, mayGrow: Bool, _ rules: SchemaRules) throws(RelayError) {
        guard mayGrow else {
            throw .unknownType(
                name,
                rules.types,
                else: "Record type '\(name.prefix(64))' does not exist in this environment; "
                    + SchemaRules.growthRefusal
            )
        }
        // A name that no schema can contain is reported like an unknown type, but a violated length limit as such.
        guard NameRules.isIdentifier(name) else {
            let isOfGoodLength = (1...255).contains(name.utf8.count)
            throw RelayError(
                isOfGoodLength ? .notFound : .badRequest,
                "'\(name.prefix(64))' is not a record type: use letters, digits and underscores, a letter first."
            )
        }
    }

    /// Changes the references, passing each with its field.
    mutating func mapReferences(_ change: (String, Reference) -> Reference) {
        for index in links.indices {
            let name = links[index].entry.name
            links[index].entry.value = links[index].entry.value.mappingReferences { change(name, $0) }
        }
        references = references.map { ($0.field, change($0.field, $0.reference)) }
        text = text.replacing(links)
    }

    /// Replaces assets by what their receipts prove, and drops values that are not stored.
    private mutating func verifyAssets(
        _ value: FieldValue,
        of field: String,
        _ rules: SchemaRules
    ) throws(RelayError) -> FieldValue {
        try value.mappingAssets { asset throws(RelayError) in
            switch rules.assets.receiptStatus(asset) {
            case .fresh(let hash, let size):
                guard hash.checksum == asset.fileChecksum else { throw .assetRefused(field) }
                freshAssets.append(hash)
                return Asset(fileChecksum: hash.checksum, size: size)
            case .unproven:
                unprovenAssets.append((field, asset))
                return Asset(fileChecksum: asset.fileChecksum, size: asset.size)
            case .refused: throw .assetRefused(field)
            }
        }
    }

    /// Fills in the owner of references that name a zone, which must be the record's own.
    private mutating func resolveReferences(
        _ value: FieldValue,
        of field: String,
        _ zone: ZoneID,
        _ database: DatabaseAddress
    ) throws(RelayError) -> FieldValue {
        try value.mappingReferences { reference throws(RelayError) in
            if let named = reference.zone, (try? database.zone(named)) != zone {
                throw .badRequest(
                    "The reference in field '\(field)' leads to another zone than the record's own; "
                        + "references stay within one zone."
                )
            }
            guard NameRules.isRecordName(reference.recordName) else {
                throw .badRequest("The recordName in field '\(field)' is not 1 to 255 ASCII characters.")
            }
            var reference = reference
            if reference.zone != nil { reference.zone = zone }
            if reference.action != .none { references.append((field, reference)) }
            return reference
        }
    }

    /// Checks the declared type and encryption of a field.
    private static func check(
        _ field: FieldInput,
        of record: borrowing RecordInput,
        against declared: RecordType.Field
    ) throws(RelayError) {
        // The usual case; the name is needed only for errors.
        if field.tag == declared.type, !field.isEncrypted, !declared.isEncrypted { return }
        let name = record.name(of: field)
        if declared.isEncrypted {
            guard field.tag != nil || field.isUntypedList, field.isEncrypted else {
                throw .badRequest(
                    "invalid attempt to set value type ENCRYPTED_BYTES for field '\(name)' defined to be: ENCRYPTED_\(declared.type.tag)"
                )
            }
        } else if field.isEncrypted {
            throw .badRequest("Attempt to save encrypted data in non encrypted field type, field '\(name)'")
        }
        if let tag = field.tag, tag != declared.type, !(declared.number == .unspecified && tag == .scalar(.int64)) {
            throw .badRequest(
                "invalid attempt to set value type \(tag.tag) for field '\(name)' defined to be: \(declared.type.tag)"
            )
        }
    }

    private static func check(
        _ size: Int,
        of field: FieldInput,
        of record: borrowing RecordInput,
        _ rules: SchemaRules
    ) throws(RelayError) {
        guard size > rules.limits.fieldBytes else { return }
        throw .tooLarge("Field '\(record.name(of: field))' is larger than \(rules.limits.fieldBytes) bytes.")
    }

    private static func entry(
        _ field: FieldInput,
        of record: borrowing RecordInput,
        declared: RecordType.Field,
        rules: SchemaRules
    ) throws(RelayError) -> FieldsJSON.Entry {
        let name = record.name(of: field)
        do {
            let json = try record.required(field)
            let value = FieldCodec.refine(
                try FieldCodec.read(json, as: declared.type),
                by: record.exactSeconds(of: field)
            )
            guard value.isOnEarth else { throw RelayError.notOnEarth(name) }
            try check(value.contentBytes, of: field, of: record, rules)
            return FieldsJSON.Entry(name: name, value: value, isEncrypted: declared.isEncrypted)
        } catch let error as RelayError {
            throw error
        } catch {
            throw .badRequest("Invalid value, expected type \(declared.type.tag). Field '\(name)'.")
        }
    }
}

extension RelayError {
    fileprivate static let encryptedInPublic = RelayError.badRequest(
        "encrypted fields are not supported in the public database"
    )

    static func notOnEarth(_ field: String) -> RelayError {
        .badRequest("A place has \(Location.bounds); field '\(field)'.")
    }

    static func assetRefused(_ field: String) -> RelayError {
        .badRequest(
            "The asset of field '\(field)' has no upload receipt of this relay that is still good. Upload it again."
        )
    }
}

extension FieldValue {
    /// The size in bytes of the largest string or bytes value.
    fileprivate var contentBytes: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .list(_, let elements): elements.map(\.contentBytes).max() ?? 0
        case .int64, .double, .timestamp, .reference, .location, .asset: 0
        }
    }
}
