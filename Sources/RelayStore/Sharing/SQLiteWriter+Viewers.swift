import GRDB
import Records
import RelayCore
import Wire

/// The hierarchy that contained a record before a change, and the one that does after it; `nil` means none.
struct HierarchyChange {
    var before: Int64?
    var after: Int64?
}

/// Finds the participants who see a changed record, for query subscriptions.
///
/// Costs one statement for each zone with hierarchies in which a commit changed records of watched types; nothing for
/// zones that are shared as a whole and for all others.
extension SQLiteWriter {
    /// Returns a record for the commit's notices, without its fields if those of all records would take too much
    /// memory.
    ///
    /// One deletion may remove gigabytes. Subscriptions that need fields then miss some of it; notices are hints.
    func recordForNotices(_ record: StoredRecord) -> StoredRecord {
        noticeBytes += record.fields.count
        guard noticeBytes > Self.noticeBytesLimit else { return record }
        var record = record
        record.fields = FieldsJSON.empty
        return record
    }

    private static let noticeBytesLimit = 64 << 20

    func noteMove(of record: StoredRecord, _ hierarchyChange: HierarchyChange, in zone: Zone) {
        let record = recordForNotices(record)
        var moved = CommittedRecord(zone: zone.id, before: record, after: record, device: "")
        moved.isOnlyMoved = true
        movedRecords.append((moved, hierarchyChange))
    }

    /// Adds the viewers to the changed records of the commit.
    func noteViewers() throws {
        var people: [ZoneID: [SharedWith]] = [:]
        // One list for all records of a zone that is shared as a whole.
        var everybody: [ZoneID: [CommittedRecord.Viewer]] = [:]
        // Most commits change one zone that is not shared: this is checked once, not for each record.
        var unshared: ZoneID?
        for index in changedRecords.indices where changedRecords[index].zone != unshared {
            let change = changedRecords[index]
            guard let zone = cache.zones[change.zone], zone.sharing != .nothing else {
                unshared = change.zone
                continue
            }
            if zone.sharing == .everything {
                let known =
                    try everybody[zone.id]
                    ?? listeners(of: zone).map { .init(user: $0.user, couldSee: true, canSee: true) }
                everybody[zone.id] = known
                changedRecords[index].viewers = known
            } else if let hierarchyChange = hierarchyChanges[change.after.change],
                hierarchyChange.before != nil || hierarchyChange.after != nil
            {
                changedRecords[index].viewers = try viewers(hierarchyChange, in: zone, &people)
            }
        }
        for (record, hierarchyChange) in movedRecords {
            guard let zone = cache.zones[record.zone] else { continue }
            var moved = record
            moved.viewers = try viewers(hierarchyChange, in: zone, &people)
            if !moved.viewers.isEmpty { changedRecords.append(moved) }
        }
    }

    /// A user who has joined hierarchies of a zone.
    private struct SharedWith {
        var user: UserID
        var shares: Set<Int64>
        var aliases = RecordAliases()
    }

    private func viewers(
        _ hierarchyChange: HierarchyChange,
        in zone: Zone,
        _ people: inout [ZoneID: [SharedWith]]
    ) throws -> [CommittedRecord.Viewer] {
        let known = try people[zone.id] ?? sharedWith(zone)
        people[zone.id] = known
        return known.compactMap { person in
            let couldSee = hierarchyChange.before.map(person.shares.contains) ?? false
            let canSee = hierarchyChange.after.map(person.shares.contains) ?? false
            guard couldSee || canSee else { return nil }
            return .init(user: person.user, couldSee: couldSee, canSee: canSee, aliases: person.aliases)
        }
    }

    private func sharedWith(_ zone: Zone) throws -> [SharedWith] {
        let statement = try SQL(
            """
            SELECT p.user, s.id, s.has_aliases FROM share s JOIN participant p ON p.share = s.id
            WHERE s.zone = ? AND s.root IS NOT NULL AND p.accepted = 1 AND p.permission > 1 AND p.user IS NOT NULL
            ORDER BY p.user
            """,
            in: database
        )
        statement.bind(1, zone.number)
        var rows: [(user: Int64, share: Int64, hasAliases: Bool)] = []
        while try statement.step() { rows.append((statement.int(0), statement.int(1), statement.bool(2))) }
        statement.reset()
        var found: [SharedWith] = []
        var renamed: Set<UserID> = []
        for row in rows {
            let user = try user(row.user)
            if row.hasAliases { renamed.insert(user) }
            if found.last?.user == user {
                found[found.count - 1].shares.insert(row.share)
            } else {
                found.append(SharedWith(user: user, shares: [row.share]))
            }
        }
        for index in found.indices where renamed.contains(found[index].user) {
            found[index].aliases = try super.zone(zone.id, sharedWith: found[index].user)?.aliases ?? RecordAliases()
        }
        return found
    }
}
