package import Records

/// The index marks that a query asks of its record type's schema, as `QueryCheck` demands them: what advice about indexes is
/// counted by.
package enum QueryNeeds {
    /// One mark on one field.
    package struct Mark: Hashable, Sendable {
        package var field: String
        package var index: Indexes

        package init(_ field: String, _ index: Indexes) {
            self.field = field
            self.index = index
        }
    }

    /// What this query needs of a type, whether or not the type has it.
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

    /// Whether the type has what a mark asks for.
    package static func has(_ mark: Mark, _ type: RecordType) -> Bool {
        if let system = Query.SystemField(rawValue: mark.field) {
            return type.indexes(of: .system(system)).contains(mark.index)
        }
        return type.indexes(of: .own(mark.field)).contains(mark.index)
    }

    /// As the schema language writes it.
    private static func name(of field: Query.Field) -> String {
        if case .system(let system) = field { system.rawValue } else { field.name }
    }
}
