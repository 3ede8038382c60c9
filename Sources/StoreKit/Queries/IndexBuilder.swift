package import Records
package import RelayCore

/// What building indexes needs of a transaction.
package protocol IndexBuilder: IndexReader {
    /// Returns the number and the definition of a record type; `nil` if none of its records can be queried.
    func queryableType(_ name: String) throws -> (number: Int64, definition: RecordType)?

    /// Inserts an index without entries, whose goal is the latest change.
    func makeIndex(_ target: IndexTarget, ofType type: Int64) throws -> FieldIndex

    /// Visits the live records of a type, with their zones, among the next `limit` changes after `change` and up to
    /// `goal`, in the order of the changes.
    ///
    /// Returns the last of these changes, or `goal` if there are no more.
    func records(
        ofType type: Int64,
        after change: UInt64,
        upTo goal: UInt64,
        limit: Int,
        _ visit: (StoredRecord, Int64) throws -> Void
    ) throws -> UInt64

    /// Enters a key for the record with this name, unless the index has it.
    func enter(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws

    /// Notes that an index has the records up to a change.
    func setBuilt(_ index: FieldIndex, to change: UInt64) throws
}

extension IndexBuilder {
    /// Builds these indexes one step further; returns whether all are complete.
    ///
    /// A step reads at most `limit` records of each type, so that other writes do not wait long.
    package func build(_ wanted: Set<WantedIndex>, limit: Int) throws -> Bool {
        var isComplete = true
        for (name, wanted) in Dictionary(grouping: wanted, by: \.recordType) {
            guard let (type, definition) = try queryableType(name) else { continue }
            let known = try indexes(ofType: type)
            let unready = try wanted.map { try known[$0.target] ?? makeIndex($0.target, ofType: type) }
                .filter { !$0.isReady }
            // Indexes that have come equally far are built in one step.
            guard let least = unready.map(\.builtTo).min() else { continue }
            let next = unready.filter { $0.builtTo == least }
            let reached = try enterRecords(after: least, ofType: type, definition, into: next, limit: limit)
            for index in next { try setBuilt(index, to: reached) }
            isComplete = isComplete && unready.allSatisfy { $0.builtTo == least && reached >= $0.goal }
        }
        return isComplete
    }

    /// Enters the records of the next `limit` changes, and returns the change up to which the indexes have them.
    private func enterRecords(
        after change: UInt64,
        ofType type: Int64,
        _ definition: RecordType,
        into indexes: [FieldIndex],
        limit: Int
    ) throws -> UInt64 {
        let goal = indexes.map(\.goal).max() ?? change
        let fields = Set(indexes.flatMap { $0.target.fieldNames(in: definition) })
        return try records(ofType: type, after: change, upTo: goal, limit: limit) { record, zone in
            let values = try QueryValues(record, fields: fields)
            for index in indexes where !isServedByRecords(index.target, in: zone) {
                for key in index.target.keys(of: values, in: definition) {
                    try enter(key, of: record.name, index: index.number, in: zone)
                }
            }
        }
    }
}
