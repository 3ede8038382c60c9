package import Records

/// What is changed here and not yet confirmed there: one entry per record, the last operation wins.
///
/// Every touch of an entry takes a new version. Whoever sends notes the versions **before** it reads the data, and
/// confirms with them: an edit made in between has a newer version, stays, and goes out with the next batch.
package struct Outbox: Sendable {
    package enum Operation: String, Hashable, Sendable, Codable { case save, delete }

    package struct Entry: Hashable, Sendable {
        package var id: RecordID
        package var operation: Operation
        /// Newer than every touch before it, of any record.
        package var version: UInt64
        /// Where it stands in the line; kept when the same operation is asked for again, so that a parent edited twice
        /// still goes before its child.
        var place: UInt64
    }

    private var entries: [RecordID: Entry] = [:]
    private var clock: UInt64 = 0

    package init() {}

    package var count: Int { entries.count }
    package var isEmpty: Bool { entries.isEmpty }

    package subscript(id: RecordID) -> Entry? { entries[id] }

    /// All entries, oldest first.
    package var pending: [Entry] { entries.values.sorted { $0.place < $1.place } }

    /// The version of every entry, to be noted before the data are read.
    package var versions: [RecordID: UInt64] { entries.mapValues(\.version) }

    package mutating func add(_ operation: Operation, _ id: RecordID) {
        clock += 1
        if let old = entries[id], old.operation == operation {
            entries[id]?.version = clock
            return
        }
        entries[id] = Entry(id: id, operation: operation, version: clock, place: clock)
    }

    /// The application takes back what it asked for; another operation on the record stays.
    package mutating func remove(_ operation: Operation, _ id: RecordID) {
        if entries[id]?.operation == operation { entries[id] = nil }
    }

    /// The relay has answered for good, by yes or by no, what was sent as `version`.
    package mutating func settled(_ id: RecordID, version: UInt64) {
        if let entry = entries[id], Self.settles(entry, version: version) { entries[id] = nil }
    }

    /// Forgets everything of a zone that is gone.
    package mutating func dropZone(_ zone: ZoneID) {
        entries = entries.filter { $0.key.zone != zone }
    }
}
