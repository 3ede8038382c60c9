package import Records

/// Queries from JSON.
///
/// See Wire.md, "Queries".
package enum QueryCodec {
    /// Elements that a list in a filter may have.
    static let listLimit = 250

    /// Reads the `query` object; values are read as the types that the schema declares.
    ///
    /// Whether the query may be asked is not decided here. Throws `JSONError` for a wrong shape and `RelayError` for a value
    /// that is not of its field's type.
    package static func read(_ json: JSONValue, schema: Schema) throws -> Query {
        let name = try json.required("recordType").string()
        let type = schema.types[name]
        var query = Query(recordType: name)
        for filter in try json["filterBy"]?.elements() ?? [] {
            query.filters.append(try FilterReader(filter, type: type).read())
        }
        for sort in try json["sortBy"]?.elements() ?? [] {
            // CloudKit JS has a name of its own for the fields that every record has.
            let field = try sort["fieldName"] ?? sort["systemFieldName"] ?? sort.required("fieldName")
            var read = Query.Sort(.init(named: try field.string(), in: type))
            // Sorting by what is encrypted is taken, and means nothing. See Wire.md, "Field values".
            if case .own(let own) = read.field, type?.fields[own]?.isEncrypted ?? false { continue }
            read.isAscending = try sort["ascending"]?.bool() ?? true
            if let place = sort["relativeLocation"] {
                // A field value by the page, a bare location from some clients.
                let value = try FieldCodec.read(place["value"] ?? place, as: .scalar(.location), of: read.field)
                if case .location(let location) = value { read.relativeLocation = location }
            }
            query.sorts.append(read)
        }
        return query
    }
}

/// One filter on its way from JSON.
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

    /// The circle's radius: beside the value, as the page has it, or of the filter's value.
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
        // Several tokens may come as a list of words; together they are one text.
        if comparator.looksForTokens, let words = try? json.elements() {
            return .string(try words.map { try $0.string() }.joined(separator: " "))
        }
        if case .list? = tag { throw RelayError.unexpectedInput }
        return try read(json, tag: tag.flatMap { if case .scalar(let scalar) = $0 { scalar } else { nil } })
    }

    private func list(_ json: JSONValue, tag: FieldType?) throws -> [FieldValue] {
        var element: FieldType.Scalar?
        if case .list(let scalar)? = tag { element = scalar }
        // A list without its tag is what the live service calls unexpected.
        guard element != nil || (tag == nil && comparator != .in && comparator != .notIn) else {
            throw RelayError.unexpectedInput
        }
        let elements = try json.elements()
        let bounds = "A list in a filter has 1 to \(QueryCodec.listLimit) elements."
        guard !elements.isEmpty else { throw RelayError.badRequest(bounds) }
        guard elements.count <= QueryCodec.listLimit else { throw RelayError.tooLarge(bounds) }
        return try elements.map { try read($0, tag: element) }
    }

    /// Reads one value as what the field's values are; by its tag or its looks where the comparator does not apply, so
    /// that this is what the client is told.
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

    /// Names and tags as text, moments as milliseconds; a reference stands for the name it holds, and where a record of one
    /// zone is meant for that zone too.
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
    /// Reads a filter's or a sort's value; what is wrong with it is said of the field.
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
