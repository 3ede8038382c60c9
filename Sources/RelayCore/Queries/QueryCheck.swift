package import Records

/// Validates a query: its fields exist, its comparators fit their types, and the schema has the required indexes.
///
/// See Wire.md, "Comparators", and SchemaLanguage.md, "Indexes".
package struct QueryCheck {
    private let query: Query
    private let type: RecordType

    /// The maximum number of words in one search.
    package static let tokenLimit = 100

    package init(_ query: Query, of type: RecordType) {
        self.query = query
        self.type = type
    }

    /// Throws `badRequest` with the first problem found.
    package func check() throws(RelayError) {
        try checkFilters()
        // Listing all records of a type requires an index on the record name.
        if query.filters.isEmpty { try demand(.queryable, of: .system(.recordName), called: "recordName") }
        for sort in query.sorts { try check(sort) }
    }

    /// Validates the query of a subscription, which lists nothing and therefore may have no filters without an index.
    package func checkFilters() throws(RelayError) {
        for filter in query.filters { try check(filter) }
    }

    private func check(_ filter: Query.Filter) throws(RelayError) {
        let comparator = filter.comparator
        switch filter.field {
        case .anySearchable:
            guard !type.searchableFields.isEmpty else {
                throw .badRequest("Record type '\(query.recordType)' has no field that is marked searchable")
            }
        case .system(let system):
            guard comparator.valueType(for: system) != nil else { throw unfit(filter, "REFERENCE") }
        case .own(let name):
            let field = try declared(name)
            guard !field.isEncrypted else { throw unfit(filter, "ENCRYPTED_\(field.type.tag)") }
            guard let expected = comparator.valueType(for: field.type) else { throw unfit(filter, field.type.tag) }
            guard filter.values.allSatisfy({ $0.type == .scalar(expected) }) else {
                throw .badRequest("Invalid value, expected type \(expected.rawValue). Field '\(name)'.")
            }
        }
        try checkIndex(for: filter)
        try checkValues(filter)
    }

    private func checkIndex(for filter: Query.Filter) throws(RelayError) {
        guard filter.field != .anySearchable else { return }
        if filter.comparator.looksForTokens {
            try demand(.searchable, of: filter.field)
        } else if !(filter.comparator.isRange && type.indexes(of: filter.field).contains(.sortable)) {
            // A sortable index also serves range comparisons.
            try demand(.queryable, of: filter.field)
        }
    }

    private func checkValues(_ filter: Query.Filter) throws(RelayError) {
        switch filter.comparator {
        case .containsAllTokens, .containsAnyTokens:
            guard (1...Self.tokenLimit).contains(filter.tokens.count) else {
                throw .badRequest("A search looks for 1 to \(Self.tokenLimit) words; field '\(filter.field.name)'.")
            }
        case .beginsWith, .notBeginsWith, .listMemberBeginsWith, .notListMemberBeginsWith:
            guard case .string(let prefix)? = filter.values.first, prefix.utf8.count <= QueryKey.longest else {
                throw .badRequest("A prefix has at most \(QueryKey.longest) bytes; field '\(filter.field.name)'.")
            }
        case .near:
            guard case .location(let center)? = filter.values.first, filter.distance.map({ $0 >= 0 }) ?? false else {
                throw .badRequest("NEAR needs a distance in metres; field '\(filter.field.name)'.")
            }
            try check(center, filter.field)
        default: break
        }
    }

    private func check(_ sort: Query.Sort) throws(RelayError) {
        let name = sort.field.name
        if case .own(let own) = sort.field {
            let field = try declared(own)
            if case .list = field.type { throw .badRequest("Field '\(name)' is a list and cannot be sorted by") }
            guard !field.isEncrypted, !field.type.isAsset else {
                throw .unmarked(name, "sortable")
            }
            guard (field.type == .scalar(.location)) == (sort.relativeLocation != nil) else {
                throw .badRequest(
                    sort.relativeLocation == nil
                        ? "Sorting by field '\(name)', a LOCATION, needs a relativeLocation"
                        : "Field '\(name)' is not a LOCATION: relativeLocation does not apply to it"
                )
            }
        } else if sort.relativeLocation != nil {
            throw .badRequest("Field '\(name)' is not a LOCATION: relativeLocation does not apply to it")
        }
        if let center = sort.relativeLocation { try check(center, sort.field) }
        try demand(.sortable, of: sort.field)
    }

    private func check(_ center: Location, _ field: Query.Field) throws(RelayError) {
        guard center.isOnEarth else { throw .notOnEarth(field.name) }
    }

    // MARK: Schema

    private func declared(_ name: String) throws(RelayError) -> RecordType.Field {
        guard let field = type.fields[name] else {
            throw .badRequest("Unknown field '\(name.prefix(64))': record type '\(query.recordType)' does not have it")
        }
        return field
    }

    private func demand(_ index: Indexes, of field: Query.Field, called name: String? = nil) throws(RelayError) {
        guard !type.indexes(of: field).contains(index) else { return }
        let name = name ?? (field == .system(.recordName) ? "recordName" : field.name)
        let word = index == .queryable ? "queryable" : index == .sortable ? "sortable" : "searchable"
        throw .unmarked(name, word)
    }

    private func unfit(_ filter: Query.Filter, _ type: String) -> RelayError {
        .badRequest(
            "Field '\(filter.field.name)' has a value type of \(type) and cannot be queried using filter type "
                + filter.comparator.rawValue
        )
    }
}

extension RelayError {
    /// CloudKit's wording, which programs match, followed by where to create the index.
    fileprivate static func unmarked(_ field: String, _ index: String) -> RelayError {
        .badRequest(
            "Field '\(field)' is not marked \(index). "
                + "zonecast schema diff shows the missing index; console: Schema > Indexes."
        )
    }
}

extension RecordType {
    /// The fields with searchable words, in binary order.
    package var searchableFields: [String] {
        fields.filter { $0.value.indexes.contains(.searchable) && !$0.value.isEncrypted }.keys.sorted()
    }
}

/// The indexes that a query requires, as `QueryCheck` enforces them; used to recommend indexes.
package enum RequiredIndexes {
    /// An index on one field.
    package struct Entry: Hashable, Sendable {
        package var field: String
        package var index: Indexes

        package init(_ field: String, _ index: Indexes) {
            self.field = field
            self.index = index
        }
    }

    /// Returns the indexes that this query requires, whether or not the type has them.
    package static func list(of query: Query, type: RecordType) -> Set<Entry> {
        var list: Set<Entry> = []
        for filter in query.filters where filter.field != .anySearchable {
            let index: Indexes =
                if filter.comparator.looksForTokens {
                    .searchable
                } else if filter.comparator.isRange, type.indexes(of: filter.field).contains(.sortable) {
                    .sortable
                } else {
                    .queryable
                }
            list.insert(Entry(name(of: filter.field), index))
        }
        if query.filters.isEmpty { list.insert(Entry(name(of: .system(.recordName)), .queryable)) }
        for sort in query.sorts { list.insert(Entry(name(of: sort.field), .sortable)) }
        return list
    }

    /// Returns whether the type has the field, so that an index on it can be declared.
    package static func isDeclared(_ field: String, _ type: RecordType) -> Bool {
        Query.SystemField(rawValue: field) != nil || type.fields[field] != nil
    }

    /// Returns whether the type has an index.
    package static func has(_ entry: Entry, _ type: RecordType) -> Bool {
        if let system = Query.SystemField(rawValue: entry.field) {
            return type.indexes(of: .system(system)).contains(entry.index)
        }
        return type.indexes(of: .own(entry.field)).contains(entry.index)
    }

    /// The field's name in the schema language.
    private static func name(of field: Query.Field) -> String {
        if case .system(let system) = field { system.rawValue } else { field.name }
    }
}
