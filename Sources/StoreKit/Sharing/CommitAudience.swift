package import Records
package import RelayCore

/// What one transaction has changed in shares, and the users to notify besides the owners of the zones.
///
/// Reads once for each zone with shared hierarchies in which something has changed, and nothing for zones in which
/// nothing is shared.
package struct CommitAudience {
    /// Participants to notify although they have lost access to the zone or have yet to join.
    private var recipients: [ZoneID: [CommittedChange.Participant]] = [:]
    /// The shared hierarchies in which something has changed, by zone.
    private var touched: [ZoneID: Set<Int64>] = [:]
    /// The hierarchies that contained each changed record before, and those that do now, by change number.
    private var changes: [UInt64: HierarchyChange] = [:]
    /// The records that only moved into or out of hierarchies because one above them did.
    private var moved: [(record: CommittedRecord, change: HierarchyChange)] = []

    package init() {}

    package var hasRecipients: Bool { !recipients.isEmpty }
    package var hasMovedRecords: Bool { !moved.isEmpty }

    package mutating func add(_ participants: [CommittedChange.Participant], of zone: ZoneID) {
        for participant in participants {
            recipients[zone, default: []].removeAll { $0.user == participant.user }
            recipients[zone, default: []].append(participant)
        }
    }

    package mutating func add(_ update: HierarchyUpdate, of zone: ZoneID) {
        guard !update.latest.isEmpty else { return }
        touched[zone, default: []].formUnion(update.latest.keys)
    }

    /// Adds a record of a watched type that was put.
    package mutating func add(_ change: HierarchyChange, of number: UInt64) { changes[number] = change }

    /// Adds a record of a watched type that moved with one above it.
    package mutating func add(_ change: HierarchyChange, of record: StoredRecord, in zone: ZoneID) {
        var committed = CommittedRecord(zone: zone, before: record, after: record, device: "")
        committed.isOnlyMoved = true
        moved.append((committed, change))
    }

    // MARK: Changes of zones

    /// Returns the participants whom the changes of these zones concern.
    package func participants(
        of zones: [Zone],
        rows: some SharingRows,
        token: (_ identity: UInt64, _ position: UInt64) -> ChangeToken
    ) throws -> [ZoneID: [CommittedChange.Participant]] {
        let shared = zones.filter { $0.sharing == .everything || $0.sharing == .hierarchies && touched[$0.id] != nil }
        let access =
            shared.isEmpty
            ? [:] : Dictionary(grouping: try rows.access(to: shared.map(\.number)), by: \.zone)
        var found = recipients
        for zone in shared {
            // The greatest change in the view of each user whom the changes concern.
            var positions: [UserID: UInt64] = [:]
            if zone.sharing == .hierarchies, let touched = touched[zone.id] {
                for membership in try rows.memberships(ofUsersIn: touched.sorted(), in: zone.number) {
                    positions[membership.user] = max(positions[membership.user] ?? 0, membership.lastChange)
                }
            }
            let present = (access[zone.number] ?? []).compactMap { access -> CommittedChange.Participant? in
                let last = zone.sharing == .everything ? zone.lastChange : positions[access.user]
                return last.map { .init(user: access.user, token: token(access.identity, max($0, access.change))) }
            }
            let users = Set(present.map(\.user))
            found[zone.id] = present + (recipients[zone.id] ?? []).filter { !users.contains($0.user) }
        }
        return found
    }

    // MARK: Changes of records

    /// A user who has joined hierarchies of a zone.
    private struct Viewer {
        var user: UserID
        var shares: Set<Int64> = []
        var hasAliases = false
        var aliases = RecordAliases()

        func view(of change: HierarchyChange) -> CommittedRecord.Viewer? {
            let couldSee = change.before.map(shares.contains) ?? false
            let canSee = change.after.map(shares.contains) ?? false
            guard couldSee || canSee else { return nil }
            return .init(user: user, couldSee: couldSee, canSee: canSee, aliases: aliases)
        }
    }

    /// Adds the viewers to changed records of watched types, and the records that only moved and have any.
    ///
    /// `records` are in the order of the changes. `zone` returns a zone as its owner sees it.
    package func addViewers(
        to records: inout [CommittedRecord],
        zone: (ZoneID) -> Zone?,
        rows: some SharingRows
    ) throws {
        var viewers: [ZoneID: [Viewer]] = [:]
        func readViewers(of zone: Zone) throws -> [Viewer] {
            if let known = viewers[zone.id] { return known }
            let read = try Self.viewers(of: zone, touched[zone.id] ?? [], rows)
            viewers[zone.id] = read
            return read
        }
        // One list for all records of a zone that is shared as a whole.
        var everybody: [ZoneID: [CommittedRecord.Viewer]] = [:]
        // Most commits change one zone that is not shared: this is checked once, not for each record.
        var unshared: ZoneID?
        for index in records.indices where records[index].zone != unshared {
            let record = records[index]
            guard let zone = zone(record.zone), zone.sharing != .nothing else {
                unshared = record.zone
                continue
            }
            if zone.sharing == .everything {
                let known =
                    try everybody[zone.id]
                    ?? rows.access(to: [zone.number]).map { .init(user: $0.user, couldSee: true, canSee: true) }
                everybody[zone.id] = known
                records[index].viewers = known
            } else if let change = changes[record.after.change], change.before != nil || change.after != nil {
                records[index].viewers = try readViewers(of: zone).compactMap { $0.view(of: change) }
            }
        }
        for (record, change) in moved {
            guard let zone = zone(record.zone) else { continue }
            var record = record
            record.viewers = try readViewers(of: zone).compactMap { $0.view(of: change) }
            if !record.viewers.isEmpty { records.append(record) }
        }
    }

    /// Returns the users who have joined one of these hierarchies, with all hierarchies of the zone that they have
    /// joined.
    private static func viewers(of zone: Zone, _ shares: Set<Int64>, _ rows: some SharingRows) throws -> [Viewer] {
        guard !shares.isEmpty else { return [] }
        var found: [Viewer] = []
        var places: [UserID: Int] = [:]
        for membership in try rows.memberships(ofUsersIn: shares.sorted(), in: zone.number) {
            let place = places[membership.user] ?? found.count
            if place == found.count {
                places[membership.user] = place
                found.append(Viewer(user: membership.user))
            }
            found[place].shares.insert(membership.share)
            if membership.hasAliases { found[place].hasAliases = true }
        }
        let renamed = found.filter(\.hasAliases).reduce(into: Set<Int64>()) { $0.formUnion($1.shares) }
        guard !renamed.isEmpty else { return found }
        let aliases = try rows.aliases(of: renamed.sorted(), in: zone.number)
        for place in found.indices where found[place].hasAliases {
            found[place].aliases = RecordAliases(of: aliases, joined: found[place].shares)
        }
        return found
    }
}
