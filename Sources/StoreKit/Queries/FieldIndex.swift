package import Records
package import RelayCore

/// What an index contains.
package enum IndexTarget: Hashable, Sendable {
    /// The field's value, or each member of a list.
    case value(Query.Field)
    /// The words of one SEARCHABLE field.
    case words(String)
    /// The words of all SEARCHABLE fields of the type.
    case allWords

    /// The form stored in the file; field names contain neither spaces nor asterisks.
    package var text: String {
        switch self {
        case .value(let field): field.name
        case .words(let name): name + " words"
        case .allWords: Self.allWordsText
        }
    }

    package init(text: String) {
        if text == Self.allWordsText {
            self = .allWords
        } else if text.hasSuffix(" words") {
            self = .words(String(text.dropLast(6)))
        } else if let system = Query.SystemField(rawValue: text) {
            self = .value(.system(system))
        } else {
            self = .value(.own(text))
        }
    }

    private static let allWordsText = "* words"

    /// The index for a filter.
    init(_ filter: Query.Filter) {
        switch filter.field {
        case .anySearchable: self = .allWords
        case .own(let name) where filter.comparator.looksForTokens: self = .words(name)
        default: self = .value(filter.field)
        }
    }

    /// Returns the type's own fields that the index covers.
    package func fieldNames(in type: RecordType) -> [String] {
        switch self {
        case .value(.own(let name)), .words(let name): [name]
        case .value: []
        case .allWords: type.searchableFields
        }
    }

    /// The name of the field in error messages.
    package var fieldName: String {
        switch self {
        case .value(let field): field.name
        case .words(let name): name
        case .allWords: "self"
        }
    }

    /// Returns the keys of a live record.
    ///
    /// A scalar field always has one, `absent` if necessary, so that its index contains every record of the type.
    package func keys(of values: QueryValues, in type: RecordType) -> Set<QueryKey> {
        switch self {
        case .value(.own(let name)):
            if case .list? = type.fields[name]?.type { return values.memberKeys(of: name) }
            return [values.key(of: .own(name))]
        case .value(let field): return [values.key(of: field)]
        case .words, .allWords: return Set(values.tokens(of: fieldNames(in: type)).map { .text($0) })
        }
    }
}

/// A place in the order in which the building of an index reads records: by their zones, and then by their changes.
package struct IndexProgress: Hashable, Comparable, Sendable {
    /// The zone's number; 0 in all places of a store that reads by changes alone.
    package var zone: Int64
    package var change: UInt64

    package init(zone: Int64 = 0, change: UInt64) { (self.zone, self.change) = (zone, change) }

    /// The place before all records.
    package static let start = IndexProgress(change: 0)

    package static func < (a: Self, b: Self) -> Bool { (a.zone, a.change) < (b.zone, b.change) }
}

/// An index as the store has it.
package struct FieldIndex: Hashable, Sendable {
    package var number: Int64
    /// The record type's number.
    package var type: Int64
    package var target: IndexTarget
    /// Records up to this place have been entered.
    package var builtTo: IndexProgress
    /// Records after this place are entered as they are written.
    package var goal: IndexProgress

    package init(number: Int64, type: Int64, target: IndexTarget, builtTo: IndexProgress, goal: IndexProgress) {
        (self.number, self.type, self.target, self.builtTo, self.goal) = (number, type, target, builtTo, goal)
    }

    /// Whether the index contains every record of its type.
    package var isReady: Bool { builtTo >= goal }
}

/// An index that a query needs.
package struct WantedIndex: Hashable, Sendable {
    package var recordType: String
    package var target: IndexTarget

    package init(recordType: String, target: IndexTarget) {
        self.recordType = recordType
        self.target = target
    }
}

extension IndexTarget {
    /// Returns whether the index means the same in the type's new definition.
    package func survives(from old: RecordType?, to new: RecordType?) -> Bool {
        guard let old, let new else { return false }
        switch self {
        case .value(.own(let name)), .words(let name):
            guard let before = old.fields[name], let after = new.fields[name] else { return false }
            let needed: Indexes = if case .words = self { .searchable } else { [.queryable, .sortable] }
            return before.type == after.type && !after.indexes.isDisjoint(with: needed)
        case .allWords: return old.searchableFields == new.searchableFields
        // Read permissions may need such an index, even if the schema does not ask for it.
        case .value: return true
        }
    }
}

extension [FieldIndex] {
    /// Finds the entries of `record`, and of `replaced` before it, that a write removes and enters.
    ///
    /// These are the indexes of `type`, the record's. Leaves those alone that are not needed in the record's zone.
    package func update(
        for record: StoredRecord,
        over replaced: StoredRecord?,
        of type: RecordType,
        where isNeeded: (IndexTarget) -> Bool,
        remove: (FieldIndex, QueryKey) throws -> Void,
        enter: (FieldIndex, QueryKey) throws -> Void
    ) throws {
        let names = Set(flatMap { $0.target.fieldNames(in: type) })
        let before = try replaced.flatMap { $0.isDeleted ? nil : try QueryValues($0, fields: names) }
        let after = record.isDeleted ? nil : try QueryValues(record, fields: names)
        for index in self where isNeeded(index.target) {
            let old = before.map { index.target.keys(of: $0, in: type) } ?? []
            let new = after.map { index.target.keys(of: $0, in: type) } ?? []
            for key in old where !new.contains(key) { try remove(index, key) }
            // An index being built reads changes up to its goal, and this record is now beyond it: its values are
            // entered here.
            for key in new where !index.isReady || !old.contains(key) { try enter(index, key) }
        }
    }
}
