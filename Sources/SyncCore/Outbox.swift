package import Records

/// The local changes that the relay has not confirmed: one entry per record with its last operation.
///
/// Every change of an entry assigns a new version. A sender reads `version` **before** it reads the data, and confirms
/// with that version: an edit made in between has a newer version, stays in the outbox and is sent with the next batch.
package struct Outbox: Sendable {
    package enum Operation: String, Hashable, Sendable, Codable { case save, delete }

    package struct Entry: Hashable, Sendable {
        package var id: RecordID
        package var operation: Operation
        /// Greater than the version of every earlier change, of any record.
        package var version: UInt64
    }

    /// The entries, oldest first; `nil` where an entry was removed or moved to the end.
    ///
    /// An entry keeps its place if the same operation is added again, so that a parent edited twice is still sent
    /// before its child. Kept sorted, because sorting thousands of entries for each batch of a few hundred would take
    /// longer than sending.
    private var entries: [Entry?] = []
    private var positions: [RecordID: Int] = [:]
    private var latestVersion: UInt64 = 0

    package init() {}

    package var count: Int { positions.count }
    package var isEmpty: Bool { positions.isEmpty }

    package subscript(id: RecordID) -> Entry? { positions[id].flatMap { entries[$0] } }

    /// All entries, oldest first.
    package var pending: [Entry] { entries.compactMap { $0 } }

    /// The newest version assigned so far; read it before the data.
    package var version: UInt64 { latestVersion }

    package mutating func add(_ operation: Operation, _ id: RecordID) {
        latestVersion += 1
        if let place = positions[id] {
            guard entries[place]?.operation != operation else {
                entries[place]?.version = latestVersion
                return
            }
            entries[place] = nil
        }
        positions[id] = entries.count
        entries.append(Entry(id: id, operation: operation, version: latestVersion))
        compact()
    }

    /// Removes an entry if it still has this operation.
    package mutating func remove(_ operation: Operation, _ id: RecordID) {
        if self[id]?.operation == operation { drop(id) }
    }

    /// Removes an entry after the relay's final answer, unless it has changed since `version` was the newest.
    package mutating func confirmed(_ id: RecordID, version: UInt64) {
        if let entry = self[id], Self.confirms(entry, version: version) { drop(id) }
    }

    private mutating func drop(_ id: RecordID) {
        guard let place = positions.removeValue(forKey: id) else { return }
        entries[place] = nil
        compact()
    }

    /// Removes the gaps once they are more than half of the line.
    private mutating func compact() {
        guard entries.count > 2 * positions.count + 64 else { return }
        entries.removeAll { $0 == nil }
        for (place, entry) in entries.enumerated() { if let entry { positions[entry.id] = place } }
    }
}
