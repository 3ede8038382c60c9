import Records
import RelayCore

/// The first records of an order among those offered, as many as a page holds and one more.
///
/// A page of large records holds fewer: as soon as those that are here are too many bytes together, it is full.
struct PageOfQuery {
    struct Entry {
        var position: Query.Position
        var zone: Zone
        var record: StoredRecord
    }

    private let order: QueryOrder
    private var limit: Int
    /// What more fits.
    private var room: Int
    private(set) var entries: [Entry] = []

    /// `limit` is how many records the page holds; memory holds one more.
    init(_ order: QueryOrder, limit: Int, bytes: Int) {
        self.order = order
        self.limit = limit
        room = bytes
    }

    var isFull: Bool { entries.count > limit }

    /// Whether a record here would be kept.
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
        // What is let go of does not come back, so the page stays as small.
        while room < 0, entries.count > 2 {
            removeLast()
            limit = entries.count - 1
        }
    }

    private mutating func removeLast() { room += entries.removeLast().record.fields.count }

    /// What the page holds; the one record more tells that there is a next.
    var page: QueryPage {
        QueryPage(
            records: entries.prefix(limit).map { ($0.zone.id, $0.record) },
            next: isFull ? entries.prefix(limit).last?.position : nil
        )
    }
}
