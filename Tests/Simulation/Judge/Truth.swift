import Records
import RelayCore
import RelayStore
import Wire

/// What a zone is called, whoever speaks of it.
struct ZoneName: Hashable, Sendable, CustomStringConvertible {
    var owner: String
    var name: String

    var isPublic: Bool { owner == RelayCore.Zone.publicOwner.recordName }
    var isDefault: Bool { name == ZoneID.defaultName }

    var description: String { "\(name) of \(owner.prefix(6))" }
}

/// A record's one version.
struct Version: Hashable, Sendable {
    var change: UInt64
    /// Texts as they are, of assets what their bytes are called; nothing else is looked at.
    var fields: [String: String]
    var parent: String?

    var tag: String { String(change, radix: 36) }
}

/// All that the relay's store holds at one moment, read row by row.
struct Truth: Hashable, Sendable {
    struct Zone: Hashable, Sendable {
        var number: Int64
        var identity: UInt64
        var lastChange: UInt64
        var records: [String: Version] = [:]
        var tombstones: [String: UInt64] = [:]
        var shareRecords: Set<String> = []
        var shares: [Int64: Shared] = [:]
    }

    /// A share and those who have joined it.
    struct Shared: Hashable, Sendable {
        /// `nil`: the whole zone.
        var root: String?
        /// What each may do: 2 read, 3 write.
        var members: [String: Int] = [:]
    }

    /// Who is told of every change of a database.
    struct Listener: Hashable, Sendable {
        var user: String
        var scope: Int
    }

    var zones: [ZoneName: Zone] = [:]
    var listeners: Set<Listener> = []
    var lastChange: UInt64 = 0

    init() {}

    /// Reads all of a store to which nobody is writing.
    init(_ store: SQLiteStore) throws {
        var isWhole = true
        try self.init(try store.content(), over: Truth(), &isWhole)
    }

    /// What became of this by a commit; only what is new is read, unless that does not make a whole.
    func after(_ store: SQLiteStore) throws -> Truth {
        var isWhole = true
        let found = try Truth(try store.content(after: lastChange), over: self, &isWhole)
        return isWhole ? found : try Truth(store)
    }

    /// `isWhole` says whether each zone has as many rows as it should.
    private init(_ content: StoreContent, over old: Truth, _ isWhole: inout Bool) throws {
        lastChange = content.lastChange
        listeners = Set(content.listeners.map { Listener(user: $0.user, scope: $0.scope) })
        var names: [Int64: ZoneName] = [:]
        for zone in content.zones {
            let name = ZoneName(owner: zone.owner, name: zone.name)
            names[zone.number] = name
            var known = Zone(number: zone.number, identity: zone.identity, lastChange: zone.lastChange)
            // The public database keeps no tombstones: its rows are all there every time.
            if let before = old.zones[name], before.number == zone.number, !name.isPublic { known = before }
            (known.identity, known.lastChange, known.shares) = (zone.identity, zone.lastChange, [:])
            zones[name] = known
        }
        for row in content.rows where row.type != RecordType.usersName {
            guard let name = names[row.zone] else { continue }
            try zones[name]?.take(row)
        }
        for member in content.members {
            guard let name = names[member.zone] else { continue }
            zones[name]?.shares[member.share, default: Shared(root: member.root)].root = member.root
            if let user = member.user { zones[name]?.shares[member.share]?.members[user] = member.permission }
        }
        for zone in content.zones where zone.number != 1 {
            guard let name = names[zone.number], zones[name]?.rowCount != zone.rowCount else { continue }
            isWhole = false
        }
    }

    subscript(zone: ZoneName) -> [String: Version] { zones[zone]?.records ?? [:] }

    /// The records of a zone that a user may see; `nil` where it is not theirs to know of.
    func visible(_ name: ZoneName, to user: String) -> [String: Version]? {
        guard let zone = zones[name] else { return nil }
        if name.owner == user || name.isPublic { return zone.records }
        let roots = zone.shares.values.filter { ($0.members[user] ?? 0) > 1 }.map(\.root)
        guard !roots.isEmpty else { return nil }
        guard !roots.contains(nil) else { return zone.records }
        return zone.records.filter { zone.ancestors(of: $0.key).contains { roots.contains($0) } }
    }

    /// Whether a user may change a record of a zone, as far as shares go.
    func lets(_ user: String, write record: String, in name: ZoneName) -> Bool {
        guard !name.isPublic, name.owner != user else { return true }
        // What is not there, or not theirs to see, is not changed by whoever takes it away: they are told that it is gone.
        guard let zone = zones[name], visible(name, to: user)?[record] != nil else { return true }
        let roots = zone.shares.values.filter { ($0.members[user] ?? 0) > 2 }.map(\.root)
        return roots.contains(nil) || zone.ancestors(of: record).contains { roots.contains($0) }
    }

    /// Whether a user may see a record of this name in some zone of this owner: what is shared may have been moved there.
    func shows(_ record: String, ofOwner owner: String, to user: String) -> Bool {
        zones.keys.contains { $0.owner == owner && visible($0, to: user)?[record] != nil }
    }

    /// The zones of a user's private database, or of the one that others share with them, as its feed has them.
    func zones(of user: String, shared: Bool) -> Set<ZoneName> {
        Set(
            zones.keys.filter { name in
                guard !name.isDefault, !name.isPublic else { return false }
                return shared ? name.owner != user && visible(name, to: user) != nil : name.owner == user
            }
        )
    }
}

extension Truth.Zone {
    var rowCount: Int { records.count + tombstones.count + shareRecords.count }

    fileprivate mutating func take(_ row: StoreContent.Row) throws {
        records[row.name] = nil
        tombstones[row.name] = nil
        shareRecords.remove(row.name)
        if row.isDeleted {
            tombstones[row.name] = row.change
        } else if row.type == Share.recordType {
            shareRecords.insert(row.name)
        } else {
            let fields = try Judge.texts(ofFields: try JSONDocument(parsing: row.fields).root)
            records[row.name] = Version(change: row.change, fields: fields, parent: row.parent)
        }
    }

    /// The record and those above it.
    func ancestors(of record: String) -> [String] {
        var line = [record]
        while line.count < 10, let last = line.last, let parent = records[last]?.parent { line.append(parent) }
        return line
    }
}
