package import Records

/// What is changed here and not yet confirmed there: one entry per record, the last operation wins.
///
/// Every touch of an entry takes a new version. Whoever sends notes the newest **before** it reads the data, and confirms
/// with that: an edit made in between has a newer version, stays, and goes out with the next batch.
package struct Outbox: Sendable {
    package enum Operation: String, Hashable, Sendable, Codable { case save, delete }

    package struct Entry: Hashable, Sendable {
        package var id: RecordID
        package var operation: Operation
        /// Newer than every touch before it, of any record.
        package var version: UInt64
    }

    /// Oldest first; `nil` where one has gone, or has gone to the end.
    ///
    /// An entry keeps its place when the same operation is asked for again, so that a parent edited twice still goes before its
    /// child. Kept in order: sorting many thousands for each batch of a few hundred would take longer than to send it.
    private var line: [Entry?] = []
    private var places: [RecordID: Int] = [:]
    private var clock: UInt64 = 0

    package init() {}

    package var count: Int { places.count }
    package var isEmpty: Bool { places.isEmpty }

    package subscript(id: RecordID) -> Entry? { places[id].flatMap { line[$0] } }

    /// All entries, oldest first.
    package var pending: [Entry] { line.compactMap { $0 } }

    /// The newest version that any entry has, or had; to be noted before the data are read.
    package var version: UInt64 { clock }

    package mutating func add(_ operation: Operation, _ id: RecordID) {
        clock += 1
        if let place = places[id] {
            guard line[place]?.operation != operation else {
                line[place]?.version = clock
                return
            }
            line[place] = nil
        }
        places[id] = line.count
        line.append(Entry(id: id, operation: operation, version: clock))
        closeRanks()
    }

    /// The application takes back what it asked for; another operation on the record stays.
    package mutating func remove(_ operation: Operation, _ id: RecordID) {
        if self[id]?.operation == operation { drop(id) }
    }

    /// The relay has answered for good, by yes or by no, what was sent when `version` was the newest.
    package mutating func settled(_ id: RecordID, version: UInt64) {
        if let entry = self[id], Self.settles(entry, version: version) { drop(id) }
    }

    private mutating func drop(_ id: RecordID) {
        guard let place = places.removeValue(forKey: id) else { return }
        line[place] = nil
        closeRanks()
    }

    /// Fills the gaps once they are the greater part of the line.
    private mutating func closeRanks() {
        guard line.count > 2 * places.count + 64 else { return }
        line.removeAll { $0 == nil }
        for (place, entry) in line.enumerated() { if let entry { places[entry.id] = place } }
    }
}
