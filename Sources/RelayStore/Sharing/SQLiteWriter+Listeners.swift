import GRDB
import Records
import RelayCore

/// Finds the participants to notify of a commit, besides the owners of the zones.
extension SQLiteWriter {
    /// A user with whom a zone is shared.
    struct Listener: Sendable {
        var user: UserID
        /// The identity of the zone in the user's view.
        var identity: UInt64
        /// The change with which the user got access.
        var change: UInt64
    }

    /// Returns the users with whom a zone is shared; cached, since each commit to a shared zone needs them.
    func listeners(of zone: Zone) throws -> [Listener] {
        if let known = cache.listeners[zone.number] { return known }
        let statement = try SQL(
            "SELECT user, identity, change FROM shared_zone WHERE zone = ? AND ended = 0 ORDER BY user",
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, zone.number)
        var found: [Listener] = []
        while try statement.step() {
            found.append(
                Listener(
                    user: try user(statement.int(0)),
                    identity: statement.unsigned(1),
                    change: statement.unsigned(2)
                )
            )
        }
        cache.listeners[zone.number] = found
        return found
    }

    /// Returns the participants whom a change of this zone concerns; reads nothing from the file if nothing is shared.
    func audience(of id: ZoneID) throws -> [CommittedChange.Participant] {
        let lost = recipients[id] ?? []
        guard let zone = cache.zones[id], zone.sharing != .nothing else { return lost }
        let present: [CommittedChange.Participant] =
            switch zone.sharing {
            case .nothing: []
            case .everything:
                try listeners(of: zone).map {
                    .init(user: $0.user, token: token($0.identity, at: max(zone.lastChange, $0.change)))
                }
            case .hierarchies: try audience(ofHierarchiesIn: zone)
            }
        let users = Set(present.map(\.user))
        return present + lost.filter { !users.contains($0.user) }
    }

    /// Returns the users who have joined a hierarchy that this transaction changed.
    private func audience(ofHierarchiesIn zone: Zone) throws -> [CommittedChange.Participant] {
        guard let touched = touchedShares[zone.id] else { return [] }
        let statement = try SQL(
            """
            SELECT a.user, a.identity, max(a.change, max(s.last_change)), json_group_array(s.id)
            FROM shared_zone a JOIN participant p ON p.user = a.user AND p.accepted = 1 AND p.permission > 1
            JOIN share s ON s.id = p.share AND s.zone = a.zone
            WHERE a.zone = ? AND a.ended = 0 GROUP BY a.user ORDER BY a.user
            """,
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, zone.number)
        var found: [CommittedChange.Participant] = []
        while try statement.step() {
            let shares = statement.text(3).split(whereSeparator: { !$0.isNumber }).compactMap { Int64($0) }
            guard shares.contains(where: touched.contains) else { continue }
            found.append(
                .init(user: try user(statement.int(0)), token: token(statement.unsigned(1), at: statement.unsigned(2)))
            )
        }
        return found
    }

    func token(_ identity: UInt64, at position: UInt64) -> ChangeToken {
        ChangeToken(kind: .zone, log: identity, epoch: epoch, position: position)
    }

    func addRecipient(_ participant: CommittedChange.Participant, of zone: ZoneID) {
        recipients[zone, default: []].removeAll { $0.user == participant.user }
        recipients[zone, default: []].append(participant)
    }
}
