import Records
import RelayCore

/// The first records in a query's order among those offered: as many as a page holds, and one more.
///
/// A page of large records holds fewer: it is full when its records exceed the byte limit.
struct PageOfQuery {
    struct Entry {
        var position: Query.Position
        var zone: Zone
        var record: StoredRecord
    }

    private let order: QueryOrder
    private var limit: Int
    /// The remaining bytes.
    private var room: Int
    private(set) var entries: [Entry] = []

    /// `limit` is the number of records in the page; one more is kept in memory.
    init(_ order: QueryOrder, limit: Int, bytes: Int) {
        self.order = order
        self.limit = limit
        room = bytes
    }

    var isFull: Bool { entries.count > limit }

    /// Returns whether a record at this position would be kept.
    func takes(_ position: Query.Position) -> Bool {
        guard isFull, let last = entries.last else { return true }
        return order.areInOrder(position, last.position)
    }

    mutating func insert(_ entry: Entry) {
        guard takes(entry.position) else { return }
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if order.areInOrder(entries[middle].position, entry.position) { low = middle + 1 } else { high = middle }
        }
        entries.insert(entry, at: low)
        room -= entry.record.fields.count
        if entries.count > limit + 1 { removeLast() }
        // Removed records do not come back, so the page keeps this limit.
        while room < 0, entries.count > 2 {
            removeLast()
            limit = entries.count - 1
        }
    }

    private mutating func removeLast() { room += entries.removeLast().record.fields.count }

    /// The records of the page; an additional record means that there is a next page.
    var page: QueryPage {
        QueryPage(
            records: entries.prefix(limit).map { ($0.zone.id, $0.record) },
            next: isFull ? entries.prefix(limit).last?.position : nil
        )
    }
}
