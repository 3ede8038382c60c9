import GRDB
import Records
import RelayCore
import StoreKit

extension SQLiteReader {
    // MARK: Shares

    /// Returns what a share record shares; `nil` for a tombstone.
    func sharing(of record: StoredRecord) throws -> Share? {
        guard !record.isDeleted, let guid = record.shareReference?.shortGUID else { return nil }
        let statement = try SQL(
            "SELECT id, root, public_permission, allows_requests FROM share WHERE guid = ?",
            in: database
        )
        statement.bind(1, guid)
        guard try statement.step() else {
            statement.reset()
            return nil
        }
        let (number, root) = (statement.int(0), statement.optionalText(1))
        let permission = Share.Permission(rawValue: Int(statement.int(2))) ?? .none
        let allowsRequests = statement.bool(3)
        statement.reset()
        var share = Share(
            root: root,
            shortGUID: guid,
            publicPermission: permission,
            participants: try participants(of: number)
        )
        share.allowsAccessRequests = allowsRequests
        try readRequests(of: number, into: &share)
        return share
    }

    private func readRequests(of number: Int64, into share: inout Share) throws {
        let statement = try SQL(
            "SELECT user, blocked FROM share_request WHERE share = ? ORDER BY place",
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, number)
        while try statement.step() {
            let person = try user(statement.int(0))
            if statement.bool(1) { share.blocked.append(person) } else { share.requesters.append(person) }
        }
    }

    func participants(of share: Int64) throws -> [Share.Participant] {
        let statement = try SQL(
            """
            SELECT id, role, permission, accepted, user, email, phone, has_asked, added
            FROM participant WHERE share = ? ORDER BY place
            """,
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, share)
        var found: [Share.Participant] = []
        while try statement.step() {
            var participant = Share.Participant(
                id: statement.text(0),
                role: Share.Role(rawValue: Int(statement.int(1))) ?? .user,
                permission: Share.Permission(rawValue: Int(statement.int(2))) ?? .none,
                hasAccepted: statement.bool(3),
                user: statement.isNull(4) ? nil : try user(statement.int(4)),
                contact: statement.optionalText(5).map { .email($0) }
                    ?? statement.optionalText(6).map { .phone($0) }
            )
            participant.hasRequestedAccess = statement.bool(7)
            participant.added = statement.isNull(8) ? nil : Timestamp(milliseconds: statement.int(8))
            found.append(participant)
        }
        return found
    }

    func share(ofLink shortGUID: String) throws(RelayError) -> ShareLocation? {
        try attempt { try places("s.guid = ?", shortGUID).first }
    }

    func shares(inviting contacts: [Share.Contact]) throws(RelayError) -> [ShareLocation] {
        try attempt {
            var found: [ShareLocation] = []
            for contact in contacts {
                switch contact {
                case .email(let address): found += try places(Self.invited("email"), address)
                case .phone(let number): found += try places(Self.invited("phone"), number)
                }
            }
            return found
        }
    }

    private static func invited(_ column: String) -> String {
        "s.id IN (SELECT share FROM participant WHERE \(column) = ? AND user IS NULL)"
    }

    private func places(_ condition: String, _ text: String) throws -> [ShareLocation] {
        let statement = try SQL(
            """
            SELECT s.name, z.owner, z.name FROM share s JOIN zone z ON z.id = s.zone
            WHERE \(condition) AND z.deleted = 0 ORDER BY s.id
            """,
            in: database
        )
        statement.bind(1, text)
        var rows: [(name: String, owner: Int64, zone: String)] = []
        while try statement.step() { rows.append((statement.text(0), statement.int(1), statement.text(2))) }
        statement.reset()
        return try rows.compactMap { row in
            let id = ZoneID(row.zone, owner: try user(row.owner))
            return try zone(id).map { ShareLocation(zone: $0, record: row.name) }
        }
    }

    // MARK: Zones

    func sharedZone(_ id: ZoneID, with user: UserID) throws -> Zone? {
        guard let owner = try number(of: id.owner), let number = try number(of: user) else { return nil }
        let statement = try SQL(
            """
            SELECT z.id, a.identity, z.last_change, a.change, z.shared
            FROM zone z JOIN shared_zone a ON a.zone = z.id AND a.user = ?3 AND a.ended = 0
            WHERE z.owner = ?1 AND z.name = ?2 AND z.deleted = 0
            """,
            in: database
        )
        statement.bind(1, owner)
        statement.bind(2, id.zoneName)
        statement.bind(3, number)
        guard try statement.step() else {
            statement.reset()
            return nil
        }
        let zone = Zone(
            number: statement.int(0),
            id: id,
            identity: statement.unsigned(1),
            lastChange: statement.unsigned(3),
            sharing: Zone.Sharing(rawValue: statement.int(4)) ?? .nothing
        )
        let lastChanges = [zone.number: statement.unsigned(2)]
        statement.reset()
        var zones = [zone]
        try addViews(of: user, to: &zones, lastChanges: lastChanges, in: zone.number)
        return zones.first
    }

    func zones(sharedWith user: UserID) throws(RelayError) -> [Zone] {
        try attempt {
            guard let number = try number(of: user) else { return [] }
            let statement = try SQL(
                """
                SELECT z.id, z.owner, z.name, a.identity, a.change, a.ended, z.last_change, z.shared
                FROM shared_zone a JOIN zone z ON z.id = a.zone WHERE a.user = ?
                """,
                in: database
            )
            statement.bind(1, number)
            var rows: [(zone: Zone, owner: Int64, whole: UInt64)] = []
            while try statement.step() {
                let zone = Zone(
                    number: statement.int(0),
                    id: ZoneID(statement.text(2)),
                    identity: statement.unsigned(3),
                    lastChange: statement.unsigned(4),
                    isDeleted: statement.bool(5),
                    sharing: Zone.Sharing(rawValue: statement.int(7)) ?? .nothing
                )
                rows.append((zone, statement.int(1), statement.unsigned(6)))
            }
            statement.reset()
            var zones = try rows.map { row in
                var zone = row.zone
                zone.id.owner = try self.user(row.owner)
                return zone
            }
            let lastChanges = Dictionary(rows.map { ($0.zone.number, $0.whole) }) { $1 }
            try addViews(of: user, to: &zones, lastChanges: lastChanges)
            return zones.sorted { $0.lastChange < $1.lastChange }
        }
    }
}
