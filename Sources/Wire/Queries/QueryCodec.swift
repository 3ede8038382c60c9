package import Records

/// Queries from JSON, and the continuation markers of their pages.
///
/// Wire reference 7.
package enum QueryCodec {
    /// Reads the `query` object.
    ///
    /// Throws `JSONError` for a wrong shape and `RelayError` for what no index serves.
    package static func read(_ json: JSONValue) throws -> Query {
        var query = Query(recordType: try json.required("recordType").string())
        for filter in try json["filterBy"]?.elements() ?? [] { query.filters.append(try readFilter(filter)) }
        for sort in try json["sortBy"]?.elements() ?? [] {
            let name = try sort.required("fieldName").string()
            guard let field = Query.SystemField(anyName: name) else {
                throw RelayError.badRequest("Field '\(name.prefix(64))' is not marked sortable")
            }
            query.sorts.append(.init(field, ascending: try sort["ascending"]?.bool() ?? true))
        }
        return query
    }

    private static func readFilter(_ json: JSONValue) throws -> Query.Filter {
        let name = try json.required("fieldName").string()
        let word = try json.required("comparator").string()
        guard let field = Query.SystemField(anyName: name) else {
            throw RelayError.badRequest("Field '\(name.prefix(64))' is not marked queryable")
        }
        guard let comparator = Query.Comparator(rawValue: word) else {
            throw RelayError.badRequest("Comparator '\(word.prefix(64))' does not apply to field '\(name)'.")
        }
        let value = try json.required("fieldValue")
        let tag = try value["type"]?.string()
        guard comparator == .in || comparator == .notIn else {
            return .init(field, comparator, [try readValue(value.required("value"), for: field)])
        }
        // Lists without their tag are what the live service calls unexpected.
        guard let tag, tag.hasSuffix("_LIST") else {
            throw RelayError.badRequest("BadRequestException: Unexpected input")
        }
        let elements = try value.required("value").elements()
        guard (1...250).contains(elements.count) else {
            throw RelayError.badRequest("A list in a filter has 1 to 250 elements.")
        }
        return .init(field, comparator, try elements.map { try readValue($0, for: field) })
    }

    /// Names and tags as text, moments as milliseconds; a reference stands for the name it holds.
    private static func readValue(_ json: JSONValue, for field: Query.SystemField) throws -> FieldValue {
        switch field {
        case .created, .modified:
            guard let value = try? FieldCodec.read(json, as: .scalar(.timestamp)) else {
                throw RelayError.badRequest("Invalid value, expected type TIMESTAMP. Field '\(field.rawValue)'.")
            }
            return value
        case .recordName, .createdBy, .modifiedBy:
            return .string(json.isObject ? try json.required("recordName").string() : try json.string())
        case .changeTag:
            return .string(try json.string())
        }
    }

    // MARK: Markers

    /// Where a page ended, in base64, with a mark of the query that it belongs to.
    package static func marker(values: [FieldValue], recordName: String, query: Query) -> String {
        var writer = JSONWriter()
        writer.object { marker in
            marker.member("q", fingerprint(of: query))
            marker.member("n", recordName)
            marker.key("v")
            marker.array(values) { FieldCodec.write($1, to: &$0) }
        }
        return Base64.encode(writer.bytes)
    }

    /// Reads a marker of this query back.
    ///
    /// Throws `badRequest` for one of another query or of none.
    package static func readMarker(_ text: String, query: Query) throws(RelayError) -> (
        [FieldValue], recordName: String
    ) {
        do {
            guard let bytes = Base64.decode(text) else { throw RelayError.wrongMarker }
            let json = try JSONDocument(parsing: bytes).root
            guard try json.required("q").string() == fingerprint(of: query) else { throw RelayError.wrongMarker }
            let values = try json.required("v").elements().map { element in
                guard let type = FieldType(tag: try element.required("type").string()) else {
                    throw RelayError.wrongMarker
                }
                return try FieldCodec.read(element.required("value"), as: type)
            }
            guard values.count == query.sorts.count else { throw RelayError.wrongMarker }
            return (values, try json.required("n").string())
        } catch {
            throw .wrongMarker
        }
    }

    /// The same for the same query in every process: FNV-1a over its text.
    private static func fingerprint(of query: Query) -> String {
        var text = query.recordType
        for filter in query.filters {
            text += "|\(filter.field.rawValue) \(filter.comparator.rawValue)"
            for value in filter.values {
                var writer = JSONWriter()
                FieldCodec.writeBare(value, to: &writer)
                text += " " + String(decoding: writer.bytes, as: UTF8.self)
            }
        }
        for sort in query.sorts { text += "|\(sort.field.rawValue) \(sort.isAscending)" }
        return String(
            text.utf8.reduce(UInt64(0xCBF2_9CE4_8422_2325)) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 },
            radix: 36
        )
    }
}

extension RelayError {
    static let wrongMarker = RelayError.badRequest("The continuationMarker does not belong to this query.")
}
