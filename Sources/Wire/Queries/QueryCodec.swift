package import Records

/// Decodes queries.
///
/// See Wire.md, "Queries".
package enum QueryCodec {
    /// The maximum number of elements in a filter's list.
    static let listLimit = 250

    /// Decodes a `query` object; values are decoded as the types that the schema declares.
    ///
    /// Does not check whether the query is allowed. Throws `JSONError` for invalid JSON structure and `RelayError` for
    /// a value that does not have its field's type.
    package static func read(_ json: JSONValue, schema: Schema) throws -> Query {
        let name = try json.required("recordType").string()
        let type = schema.types[name]
        var query = Query(recordType: name)
        for filter in try json["filterBy"]?.elements() ?? [] {
            query.filters.append(try FilterReader(filter, type: type).read())
        }
        for sort in try json["sortBy"]?.elements() ?? [] {
            // CloudKit JS has a separate member for system fields.
            let field = try sort["fieldName"] ?? sort["systemFieldName"] ?? sort.required("fieldName")
            var read = Query.Sort(.init(named: try field.string(), in: type))
            // Sorting by an encrypted field is accepted and ignored. See Wire.md, "Field values".
            if case .own(let own) = read.field, type?.fields[own]?.isEncrypted ?? false { continue }
            read.isAscending = try sort["ascending"]?.bool() ?? true
            if let place = sort["relativeLocation"] {
                // A field value according to Apple's documentation, a bare location in some clients.
                let value = try FieldCodec.read(place["value"] ?? place, as: .scalar(.location), of: read.field)
                if case .location(let location) = value { read.relativeLocation = location }
            }
            query.sorts.append(read)
        }
        return query
    }
}

/// Decodes one filter.
private struct FilterReader {
    let json: JSONValue
    let type: RecordType?
    let comparator: Query.Comparator
    let field: Query.Field

    init(_ json: JSONValue, type: RecordType?) throws {
        self.json = json
        self.type = type
        let word = try json.required("comparator").string()
        guard let comparator = Query.Comparator(rawValue: word) else {
            throw RelayError.badRequest("'\(word.prefix(64))' is not a comparator.")
        }
        self.comparator = comparator
        let name = try (json["fieldName"] ?? json["systemFieldName"])?.string()
        if let name, name != "self" || type?.fields[name] != nil {
            field = .init(named: name, in: type)
        } else if comparator.looksForTokens {
            field = .anySearchable
        } else {
            throw RelayError.badRequest("fieldName is required for \(word).")
        }
    }

    func read() throws -> Query.Filter {
        let value = try json.required("fieldValue")
        let content = try value.required("value")
        let tag = try value["type"].map { tag throws in
            guard let type = FieldType(tag: try tag.string()) else { throw tag.mismatch("the tag of a field type") }
            return type
        }
        let values = comparator.takesList ? try list(content, tag: tag) : [try scalar(content, tag: tag)]
        return .init(field, comparator, values, distance: try distance())
    }

    /// The radius: beside the value as in Apple's documentation, or inside the filter's value.
    private func distance() throws -> Double? {
        guard comparator == .near else { return nil }
        let metres = try json["distance"] ?? json.required("fieldValue")["distance"]
        guard let metres else { throw RelayError.badRequest("NEAR needs a distance in metres.") }
        guard let distance = try? metres.double(), distance >= 0 else {
            throw metres.mismatch("a distance in metres, zero or more")
        }
        return distance
    }

    private func scalar(_ json: JSONValue, tag: FieldType?) throws -> FieldValue {
        // Some clients send several tokens as a list of words, which is equivalent to one text.
        if comparator.looksForTokens, let words = try? json.elements() {
            return .string(try words.map { try $0.string() }.joined(separator: " "))
        }
        if case .list? = tag { throw RelayError.unexpectedInput }
        return try read(json, tag: tag.flatMap { if case .scalar(let scalar) = $0 { scalar } else { nil } })
    }

    private func list(_ json: JSONValue, tag: FieldType?) throws -> [FieldValue] {
        var element: FieldType.Scalar?
        if case .list(let scalar)? = tag { element = scalar }
        // CloudKit rejects a list without its type tag with this error.
        guard element != nil || (tag == nil && comparator != .in && comparator != .notIn) else {
            throw RelayError.unexpectedInput
        }
        let elements = try json.elements()
        let bounds = "A list in a filter has 1 to \(QueryCodec.listLimit) elements."
        guard !elements.isEmpty else { throw RelayError.badRequest(bounds) }
        guard elements.count <= QueryCodec.listLimit else { throw RelayError.tooLarge(bounds) }
        return try elements.map { try read($0, tag: element) }
    }

    /// Decodes a value as the field's type; if the comparator does not apply to the field, by its tag or its JSON form.
    ///
    /// The query is then rejected because of the comparator, not because of the value.
    private func read(_ json: JSONValue, tag: FieldType.Scalar?) throws -> FieldValue {
        switch field {
        case .system(let system):
            return try read(json, of: system, tag: tag)
        case .own(let name):
            guard let declared = type?.fields[name]?.type, let expected = comparator.valueType(for: declared) else {
                guard let type = tag.map(FieldType.scalar) ?? FieldCodec.inferredType(of: json) else {
                    throw json.mismatch("a value that a field can have")
                }
                return try FieldCodec.read(json, as: type, of: field)
            }
            guard tag == nil || tag == expected || (tag == .int64 && expected == .double) else {
                throw RelayError.badRequest(
                    "Field '\(name)' has a value type of \(declared.tag) and cannot be compared with a value of type "
                        + "\(tag?.rawValue ?? "")"
                )
            }
            return try FieldCodec.read(json, as: .scalar(expected), of: field)
        case .anySearchable:
            return try FieldCodec.read(json, as: .scalar(.string), of: field)
        }
    }

    /// Decodes a system field's value: names and tags as text, times as milliseconds.
    ///
    /// A reference stands for its record name; with a zone ID it is kept, because it matches only in that zone.
    private func read(_ json: JSONValue, of system: Query.SystemField, tag: FieldType.Scalar?) throws -> FieldValue {
        switch system {
        case .created, .modified:
            return try FieldCodec.read(json, as: .scalar(.timestamp), of: field)
        case .recordName where comparator.isEquality && json["zoneID"] != nil:
            return try FieldCodec.read(json, as: .scalar(.reference), of: field)
        case .recordName, .createdBy, .modifiedBy:
            return .string(json.isObject ? try json.required("recordName").string() : try json.string())
        case .changeTag:
            return .string(try json.string())
        }
    }
}

extension FieldCodec {
    /// Decodes the value of a filter or a sort descriptor; errors name the field.
    fileprivate static func read(
        _ json: JSONValue,
        as type: FieldType,
        of field: Query.Field
    ) throws(RelayError) -> FieldValue {
        do {
            return try read(json, as: type)
        } catch {
            throw .badRequest("Invalid value, expected type \(type.tag). Field '\(field.name.prefix(64))'.")
        }
    }
}

extension RelayError {
    fileprivate static let unexpectedInput = RelayError.badRequest("BadRequestException: Unexpected input")
}
