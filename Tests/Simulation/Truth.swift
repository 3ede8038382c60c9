import Records
import RelayCore
import RelayStore
import Wire

/// What a zone is called, whoever speaks of it.
struct ZoneName: Hashable, Sendable, CustomStringConvertible {
    var owner: String
    var name: String

    var isPublic: Bool { owner == RelayCore.Zone.publicOwner.recordName }

    var description: String { "\(name) of \(owner.prefix(6))" }
}

/// A record's one version.
struct Version: Hashable, Sendable {
    var change: UInt64
    var fields: [String: String]

    var tag: String { String(change, radix: 36) }
}

/// All that the relay's store holds at one moment, read row by row.
struct Truth: Sendable {
    struct Zone: Sendable {
        var identity: UInt64
        var lastChange: UInt64
        var records: [String: Version] = [:]
        var tombstones: [String: UInt64] = [:]
    }

    var zones: [ZoneName: Zone] = [:]
    var lastChange: UInt64 = 0

    /// Reads a store to which nobody is writing.
    init(_ store: SQLiteStore) throws {
        let (rows, last) = try store.bareRows()
        lastChange = last
        for row in rows where row.type != RecordType.usersName {
            let name = ZoneName(owner: row.owner, name: row.zone)
            var zone = zones[name] ?? Zone(identity: row.identity, lastChange: row.lastChange)
            if let record = row.record {
                zone.take(row, named: record, row.isDeleted ? [:] : try Self.texts(row.fields))
            }
            zones[name] = zone
        }
    }

    init() {}

    /// The text fields of a record as it is stored.
    private static func texts(_ fields: [UInt8]) throws -> [String: String] {
        let root = try JSONDocument(parsing: fields).root
        var texts: [String: String] = [:]
        for (name, member) in try root.members() {
            if let text = try? member.required("value").string() { texts[name] = text }
        }
        return texts
    }

    subscript(zone: ZoneName) -> [String: Version] { zones[zone]?.records ?? [:] }
}

extension Truth.Zone {
    fileprivate mutating func take(_ row: SQLiteStore.BareRow, named record: String, _ texts: [String: String]) {
        if row.isDeleted {
            tombstones[record] = row.change
        } else if row.type != Share.recordType {
            records[record] = Version(change: row.change, fields: texts)
        }
    }
}
