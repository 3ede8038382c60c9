package import Records

extension ClientRequest {
    /// `records/query` with a query encoded by `encode(_:)`; without `zone`, it covers all zones of the database.
    package static func query(
        _ query: [UInt8],
        in zone: ZoneID?,
        desiredKeys: [String]?,
        limit: Int?,
        marker: String?
    ) -> [UInt8] {
        body { object in
            if let zone { zoneID(zone, &object) } else { object.member("zoneWide", true) }
            if let limit { object.member("resultsLimit", limit) }
            if let marker { object.member("continuationMarker", marker) }
            keys(desiredKeys, &object)
            object.key("query")
            object.raw(query)
        }
    }

    /// Encodes the `query` object alone, which a cursor keeps because every page's request contains it.
    package static func encode(_ query: Query) -> [UInt8] {
        body { object in
            object.member("recordType", query.recordType)
            if !query.filters.isEmpty {
                object.key("filterBy")
                object.array(query.filters) { write($1, to: &$0) }
            }
            if !query.sorts.isEmpty {
                object.key("sortBy")
                object.array(query.sorts) { write($1, to: &$0) }
            }
        }
    }

    private static func write(_ sort: Query.Sort, to writer: inout JSONWriter) {
        writer.object { object in
            object.member("fieldName", sort.field.name)
            object.member("ascending", sort.isAscending)
            if let place = sort.relativeLocation {
                object.key("relativeLocation")
                FieldCodec.write(.location(place), to: &object)
            }
        }
    }

    private static func write(_ filter: Query.Filter, to writer: inout JSONWriter) {
        writer.object { object in
            object.member("comparator", filter.comparator.rawValue)
            if filter.field != .anySearchable { object.member("fieldName", filter.field.name) }
            object.key("fieldValue")
            let values = filter.values.map { operand($0, of: filter.field) }
            if let first = values.first, !filter.comparator.takesList {
                FieldCodec.write(first, to: &object)
            } else if case .scalar(let element)? = values.first?.type {
                FieldCodec.write(.list(element, values), to: &object)
            } else {
                FieldCodec.write(.list(.string, []), to: &object)
            }
            if let distance = filter.distance {
                object.key("distance")
                object.double(distance)
            }
        }
    }

    /// Returns the filter's value in its wire form: records and users are compared as references.
    private static func operand(_ value: FieldValue, of field: Query.Field) -> FieldValue {
        switch (field, value) {
        case (.system(.recordName), .string(let name)), (.system(.createdBy), .string(let name)),
            (.system(.modifiedBy), .string(let name)):
            .reference(Reference(recordName: name))
        default: value
        }
    }
}
