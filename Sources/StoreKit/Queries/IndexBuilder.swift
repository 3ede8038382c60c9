package import Records
package import RelayCore

/// What building indexes needs of a transaction.
package protocol IndexBuilder: IndexReader {
    /// Returns the number and the definition of a record type; `nil` if none of its records can be queried.
    func queryableType(_ name: String) throws -> (number: Int64, definition: RecordType)?

    /// Inserts an index without entries, whose goal is behind all records.
    func makeIndex(_ target: IndexTarget, ofType type: Int64) throws -> FieldIndex

    /// Visits the live records of a type, with their zones, among the next `limit` records after `place` and up to `goal`.
    ///
    /// Returns the place of the last of these, or `goal` if there are no more.
    func records(
        ofType type: Int64,
        after place: IndexProgress,
        upTo goal: IndexProgress,
        limit: Int,
        _ visit: (StoredRecord, Int64) throws -> Void
    ) throws -> IndexProgress

    /// Enters a key for the record with this name, unless the index has it.
    func enter(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws

    /// Notes that an index has the records up to a place.
    func setBuilt(_ index: FieldIndex, to place: IndexProgress) throws
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

    /// Enters the next `limit` records, and returns the place up to which the indexes have them.
    private func enterRecords(
        after place: IndexProgress,
        ofType type: Int64,
        _ definition: RecordType,
        into indexes: [FieldIndex],
        limit: Int
    ) throws -> IndexProgress {
        let goal = indexes.map(\.goal).max() ?? place
        let fields = Set(indexes.flatMap { $0.target.fieldNames(in: definition) })
        return try records(ofType: type, after: place, upTo: goal, limit: limit) { record, zone in
            let values = try QueryValues(record, fields: fields)
            for index in indexes where !isServedByRecords(index.target, in: zone) {
                for key in index.target.keys(of: values, in: definition) {
                    try enter(key, of: record.name, index: index.number, in: zone)
                }
            }
        }
    }
}
