import Records
import RelayCore
import SQLiteStore
import Wire

/// The name of a zone with its owner's record name, the same for all users.
struct ZoneName: Hashable, Sendable, CustomStringConvertible {
    var owner: String
    var name: String

    var isPublic: Bool { owner == RelayCore.Zone.publicOwner.recordName }
    var isDefault: Bool { name == ZoneID.defaultName }

    var description: String { "\(name) of \(owner.prefix(6))" }
}

/// One version of a record.
struct Version: Hashable, Sendable {
    var change: UInt64
    /// Strings, and the checksums of assets; other fields are ignored.
    var fields: [String: String]
    var parent: String?

    var tag: String { String(change, radix: 36) }
}

/// The complete content of the relay's store at one time.
struct StoreSnapshot: Hashable, Sendable {
    struct Zone: Hashable, Sendable {
        var number: Int64
        var identity: UInt64
        var lastChange: UInt64
        var records: [String: Version] = [:]
        var tombstones: [String: UInt64] = [:]
        var shareRecords: Set<String> = []
        var shares: [Int64: Shared] = [:]
    }

    /// A share and its participants.
    struct Shared: Hashable, Sendable {
        /// `nil` if the whole zone is shared.
        var root: String?
        /// Each participant's permission: 2 for read-only, 3 for read-write.
        var members: [String: Int] = [:]
    }

    /// A user with a subscription to all changes of a database.
    struct Listener: Hashable, Sendable {
        var user: String
        var scope: Int
    }

    var zones: [ZoneName: Zone] = [:]
    var listeners: Set<Listener> = []
    var lastChange: UInt64 = 0

    init() {}

    /// A store of a kind that cannot be read around its protocols.
    private struct UnknownStore: Error {}

    /// Returns the store as this file reads it: row by row, since the protocols are what is judged.
    private static func rows(of store: any Store) throws -> SQLiteStore {
        guard let store = store as? SQLiteStore else { throw UnknownStore() }
        return store
    }

    /// Returns what a check of the store's files found; `ok` if nothing.
    static func integrityReport(of store: any Store) throws -> String { try rows(of: store).integrityReport() }

    /// Reads a store completely.
    ///
    /// There must be no concurrent writes.
    init(_ store: any Store) throws {
        var isWhole = true
        try self.init(try Self.rows(of: store).content(), over: StoreSnapshot(), &isWhole)
    }

    /// Returns the state after a commit.
    ///
    /// Reads only the new rows, or the whole store if those do not yield a consistent state.
    func after(_ store: any Store) throws -> StoreSnapshot {
        var isWhole = true
        let found = try StoreSnapshot(try Self.rows(of: store).content(after: lastChange), over: self, &isWhole)
        return isWhole ? found : try StoreSnapshot(store)
    }

    /// Sets `isWhole` to `false` if a zone has a wrong number of rows.
    private init(_ content: StoreContent, over old: StoreSnapshot, _ isWhole: inout Bool) throws {
        lastChange = content.lastChange
        listeners = Set(content.listeners.map { Listener(user: $0.user, scope: $0.scope) })
        var names: [Int64: ZoneName] = [:]
        for zone in content.zones {
            let name = ZoneName(owner: zone.owner, name: zone.name)
            names[zone.number] = name
            var known = Zone(number: zone.number, identity: zone.identity, lastChange: zone.lastChange)
            // The public database has no tombstones, so all of its rows are read each time.
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

    /// The records of a zone that a user may see; `nil` if the user must not know of the zone.
    func visible(_ name: ZoneName, to user: String) -> [String: Version]? {
        guard let zone = zones[name] else { return nil }
        if name.owner == user || name.isPublic { return zone.records }
        let roots = zone.shares.values.filter { ($0.members[user] ?? 0) > 1 }.map(\.root)
        guard !roots.isEmpty else { return nil }
        guard !roots.contains(nil) else { return zone.records }
        return zone.records.filter { zone.ancestors(of: $0.key).contains { roots.contains($0) } }
    }

    /// Returns whether shares allow a user to change a record of a zone.
    func lets(_ user: String, write record: String, in name: ZoneName) -> Bool {
        guard !name.isPublic, name.owner != user else { return true }
        // Deleting a missing or invisible record changes nothing, and the relay reports success.
        guard let zone = zones[name], visible(name, to: user)?[record] != nil else { return true }
        let roots = zone.shares.values.filter { ($0.members[user] ?? 0) > 2 }.map(\.root)
        return roots.contains(nil) || zone.ancestors(of: record).contains { roots.contains($0) }
    }

    /// Returns whether a user may see a record of this name in any zone of this owner; records can move between zones.
    func shows(_ record: String, ofOwner owner: String, to user: String) -> Bool {
        zones.keys.contains { $0.owner == owner && visible($0, to: user)?[record] != nil }
    }

    /// The zones in the feed of a user's private or shared database.
    func zones(of user: String, shared: Bool) -> Set<ZoneName> {
        Set(
            zones.keys.filter { name in
                guard !name.isDefault, !name.isPublic else { return false }
                return shared ? name.owner != user && visible(name, to: user) != nil : name.owner == user
            }
        )
    }
}

extension StoreSnapshot.Zone {
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
            let fields = try Checker.texts(ofFields: try JSONDocument(parsing: row.fields).root)
            records[row.name] = Version(change: row.change, fields: fields, parent: row.parent)
        }
    }

    /// The record and its ancestors.
    func ancestors(of record: String) -> [String] {
        var line = [record]
        while line.count < 10, let last = line.last, let parent = records[last]?.parent { line.append(parent) }
        return line
    }
}
