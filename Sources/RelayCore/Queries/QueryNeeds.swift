package import Records

/// The indexes that a query requires, as `QueryCheck` enforces them; used to recommend indexes.
package enum QueryNeeds {
    /// An index on one field.
    package struct Mark: Hashable, Sendable {
        package var field: String
        package var index: Indexes

        package init(_ field: String, _ index: Indexes) {
            self.field = field
            self.index = index
        }
    }

    /// Returns the indexes that this query requires, whether or not the type has them.
    package static func marks(of query: Query, type: RecordType) -> Set<Mark> {
        var marks: Set<Mark> = []
        for filter in query.filters where filter.field != .anySearchable {
            let index: Indexes =
                if filter.comparator.looksForTokens {
                    .searchable
                } else if filter.comparator.isRange, type.indexes(of: filter.field).contains(.sortable) {
                    .sortable
                } else {
                    .queryable
                }
            marks.insert(Mark(name(of: filter.field), index))
        }
        if query.filters.isEmpty { marks.insert(Mark(name(of: .system(.recordName)), .queryable)) }
        for sort in query.sorts { marks.insert(Mark(name(of: sort.field), .sortable)) }
        return marks
    }

    /// Returns whether the type has an index.
    package static func has(_ mark: Mark, _ type: RecordType) -> Bool {
        if let system = Query.SystemField(rawValue: mark.field) {
            return type.indexes(of: .system(system)).contains(mark.index)
        }
        return type.indexes(of: .own(mark.field)).contains(mark.index)
    }

    /// The field's name in the schema language.
    private static func name(of field: Query.Field) -> String {
        if case .system(let system) = field { system.rawValue } else { field.name }
    }
}
