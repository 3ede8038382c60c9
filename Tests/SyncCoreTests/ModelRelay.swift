import Records
import SyncCore

/// A relay that is small enough to be verified by reading.
///
/// In the end, the simulation's clients must equal it.
struct ModelRelay {
    struct Row: Hashable, Sendable {
        var id: RecordID
        var fields: [String: Int]
        /// `nil` for a deleted record, which is kept as a tombstone.
        var tag: Int?
        var change: Int
    }

    enum Write: Sendable {
        case save(RecordID, fields: [String: Int], tag: Int?)
        case delete(RecordID)
    }

    enum Answer: Sendable {
        case saved(tag: Int)
        case deleted
        case conflict(Row)
        case unknown
    }

    private(set) var rows: [RecordID: Row] = [:]
    /// Every value that any field ever had; the simulation uses no value twice.
    private(set) var everHeld: Set<Int> = []
    private var change = 0
    private var zoneChange: [ZoneID: Int] = [:]
    /// Incremented to expire all tokens issued before, as a restored backup does.
    private var epoch = 0

    var live: [RecordID: [String: Int]] { rows.filter { $0.value.tag != nil }.mapValues(\.fields) }

    mutating func expireAllTokens() { epoch += 1 }

    func token(of zone: ZoneID) -> SyncToken { SyncToken("\(epoch):z:\(zoneChange[zone] ?? 0)") }

    /// Performs writes and returns their answers and the changed zones.
    mutating func modify(_ writes: [Write]) -> (answers: [RecordID: Answer], changed: Set<ZoneID>) {
        var answers: [RecordID: Answer] = [:]
        var changed: Set<ZoneID> = []
        for write in writes {
            switch write {
            case .save(let id, let fields, let tag):
                let row = rows[id]
                if let row, let held = row.tag, held != tag {
                    answers[id] = .conflict(row)
                } else if tag != nil, row?.tag == nil {
                    answers[id] = .unknown
                } else {
                    answers[id] = .saved(tag: put(id, fields, isLive: true))
                    changed.insert(id.zone)
                }
            case .delete(let id):
                if rows[id]?.tag != nil {
                    _ = put(id, [:], isLive: false)
                    changed.insert(id.zone)
                }
                answers[id] = .deleted
            }
        }
        return (answers, changed)
    }

    private mutating func put(_ id: RecordID, _ fields: [String: Int], isLive: Bool) -> Int {
        change += 1
        zoneChange[id.zone] = change
        everHeld.formUnion(fields.values)
        rows[id] = Row(id: id, fields: fields, tag: isLive ? change : nil, change: change)
        return change
    }

    /// Returns one zone per page, so that clients have to page.
    func databaseChanges(since token: SyncToken?) throws(SyncFailure) -> (zones: [ZoneID], token: SyncToken, more: Bool)
    {
        let position = try position(in: token, kind: "d")
        let later = zoneChange.filter { $0.value > position }.sorted { $0.value < $1.value }
        guard let first = later.first else { return ([], SyncToken("\(epoch):d:\(position)"), false) }
        return ([first.key], SyncToken("\(epoch):d:\(first.value)"), later.count > 1)
    }

    /// Returns two records per page; without a token, only live ones.
    func zoneChanges(_ zone: ZoneID, since token: SyncToken?) throws(SyncFailure) -> (
        rows: [Row], token: SyncToken, more: Bool
    ) {
        let position = try position(in: token, kind: "z")
        let later = rows.values.filter { $0.id.zone == zone && $0.change > position && (token != nil || $0.tag != nil) }
            .sorted { $0.change < $1.change }
        let page = Array(later.prefix(2))
        let end = later.count > 2 ? page.last?.change ?? 0 : max(position, zoneChange[zone] ?? 0)
        return (page, SyncToken("\(epoch):z:\(end)"), later.count > 2)
    }

    private func position(in token: SyncToken?, kind: String) throws(SyncFailure) -> Int {
        guard let token else { return 0 }
        let parts = token.text.split(separator: ":")
        guard parts.count == 3, parts[0] == "\(epoch)", parts[1] == kind, let position = Int(parts[2]) else {
            throw SyncFailure(.tokenExpired)
        }
        return position
    }
}
