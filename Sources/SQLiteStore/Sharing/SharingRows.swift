import GRDB
import Records
import RelayCore
import StoreKit
import Wire

/// The tables of sharing as sets of rows.
///
/// A long list of names is one statement, which reads the list with `json_each`; a statement for each name costs less for
/// a few. Rows are written one by one: several in one statement take twice as long.
extension SQLiteReader: SharingReads {
    /// The greatest number of names for which a statement each costs less than one with a list.
    private static let few = 4

    func covers(of names: [String], in zone: Int64) throws -> [String: Int64] {
        var found: [String: Int64] = [:]
        guard names.count > Self.few else {
            let statement = try SQL(Self.coverOfOne, in: database)
            for name in names {
                statement.bind(1, name)
                statement.bind(2, zone)
                if try statement.step() { found[name] = statement.int(0) }
                statement.reset()
            }
            return found
        }
        let statement = try SQL(Self.coversOfMany, in: database)
        defer { statement.reset() }
        statement.bind(1, list: names)
        statement.bind(2, zone)
        while try statement.step() { found[statement.text(0)] = statement.int(1) }
        return found
    }

    private static let coverOfOne = "SELECT share FROM share_entry WHERE name = ? AND zone = ? AND gone = 0"
    private static let coversOfMany = """
        SELECT e.name, e.share FROM json_each(?1) n CROSS JOIN share_entry e
        ON e.name = n.value AND e.zone = ?2 AND e.gone = 0
        """

    fileprivate static let membershipColumns =
        "p.user, s.zone, s.id, s.root, p.permission, s.last_change, s.has_aliases"
    private static let membershipsOfUser = """
        SELECT \(membershipColumns) FROM participant p JOIN share s ON s.id = p.share
        WHERE p.user = ?1 AND p.accepted = 1 AND p.permission > 1 ORDER BY s.id
        """
    private static let membershipsOfUserInZone = """
        SELECT \(membershipColumns) FROM participant p JOIN share s ON s.id = p.share
        WHERE p.user = ?1 AND s.zone = ?2 AND p.accepted = 1 AND p.permission > 1 ORDER BY s.id
        """

    fileprivate func memberships(in statement: SQL) throws -> [ShareMembership] {
        defer { statement.reset() }
        var found: [ShareMembership] = []
        while try statement.step() {
            found.append(
                ShareMembership(
                    user: try user(statement.int(0)),
                    zone: statement.int(1),
                    share: statement.int(2),
                    root: statement.optionalText(3),
                    permission: Share.Permission(rawValue: Int(statement.int(4))) ?? .none,
                    lastChange: statement.unsigned(5),
                    hasAliases: statement.bool(6)
                )
            )
        }
        return found
    }

    func memberships(of users: [UserID], in zone: Int64?) throws -> [ShareMembership] {
        let sql = zone == nil ? Self.membershipsOfUser : Self.membershipsOfUserInZone
        let statement = try SQL(sql, in: database)
        var found: [ShareMembership] = []
        for user in users {
            guard let number = try number(of: user) else { continue }
            statement.bind(1, number)
            if let zone { statement.bind(2, zone) }
            found += try memberships(in: statement)
        }
        return found
    }

    func aliases(of shares: [Int64], in zone: Int64) throws -> [ShareAlias] {
        let statement = try SQL(
            """
            SELECT a.share, a.shown, a.kept, e.share FROM json_each(?1) k CROSS JOIN share_alias a ON a.share = k.value
            LEFT JOIN share_entry e ON e.name = a.shown AND e.zone = ?2 AND e.gone = 0
            """,
            in: database
        )
        statement.bind(1, list: shares)
        statement.bind(2, zone)
        return try aliases(in: statement)
    }

    fileprivate func aliases(in statement: SQL) throws -> [ShareAlias] {
        defer { statement.reset() }
        var found: [ShareAlias] = []
        while try statement.step() {
            found.append(
                ShareAlias(
                    share: statement.int(0),
                    shown: statement.text(1),
                    kept: statement.text(2),
                    shownCover: statement.isNull(3) ? nil : statement.int(3)
                )
            )
        }
        return found
    }
}

extension SQLiteWriter: SharingRows {
    // MARK: Records

    /// Names the index that finds records by name.
    ///
    /// To see whether the partial index of the public zone fits, SQLite would compare the number of the
    /// zone, and so prepare the statement again for each number that is bound.
    private static let recordByName = "record r INDEXED BY record_by_name"
    private static let outlineColumns = "r.name, r.type, r.parent, r.change, r.share, e.share"
    private static let outlineEntry = "LEFT JOIN share_entry e ON e.name = r.name AND e.zone = ?2 AND e.gone = 0"

    private func outlines(_ sql: String, _ names: [String], in zone: Int64) throws -> [RecordOutline] {
        let statement = try SQL(sql, in: database)
        defer { statement.reset() }
        statement.bind(1, list: names)
        statement.bind(2, zone)
        var found: [RecordOutline] = []
        while try statement.step() {
            found.append(
                RecordOutline(
                    name: statement.text(0),
                    type: try type(statement.int(1)),
                    parent: statement.optionalText(2),
                    change: statement.unsigned(3),
                    share: statement.optionalText(4),
                    cover: statement.isNull(5) ? nil : statement.int(5)
                )
            )
        }
        return found
    }

    func outlines(of names: [String], in zone: Int64) throws -> [RecordOutline] {
        try outlines(Self.outlinesByName, names, in: zone)
    }

    private static let outlinesByName = """
        SELECT \(outlineColumns) FROM json_each(?1) n
        CROSS JOIN \(recordByName) ON r.name = n.value AND r.zone = ?2 AND r.deleted = 0 \(outlineEntry)
        """

    func children(of parents: [String], in zone: Int64) throws -> [RecordOutline] {
        try outlines(Self.outlinesByParent, parents, in: zone)
    }

    private static let outlinesByParent = """
        SELECT \(outlineColumns) FROM json_each(?1) p
        CROSS JOIN reference f ON f.zone = ?2 AND f.target = p.value AND f.kind = 3
        CROSS JOIN \(recordByName) ON r.name = f.source AND r.zone = ?2 AND r.deleted = 0 \(outlineEntry)
        """

    private func links(_ sql: String, _ names: [String], in zone: Int64) throws -> [ParentLink] {
        let statement = try SQL(sql, in: database)
        defer { statement.reset() }
        statement.bind(1, list: names)
        statement.bind(2, zone)
        var found: [ParentLink] = []
        while try statement.step() { found.append(ParentLink(name: statement.text(0), parent: statement.text(1))) }
        return found
    }

    func childNames(of parents: [String], in zone: Int64) throws -> [ParentLink] {
        try links(
            """
            SELECT f.source, f.target FROM json_each(?1) p
            CROSS JOIN reference f ON f.zone = ?2 AND f.target = p.value AND f.kind = 3
            """,
            parents,
            in: zone
        )
    }

    func ancestors(of names: [String], in zone: Int64) throws -> [ParentLink] {
        try links(Self.linksAbove, names, in: zone)
    }

    /// UNION leaves out rows that are there already, so that a cycle of parents ends.
    private static let linksAbove = """
        WITH RECURSIVE above (name, parent) AS (
            SELECT r.name, r.parent FROM json_each(?1) n CROSS JOIN \(recordByName) ON r.name = n.value AND r.zone = ?2
            WHERE r.parent IS NOT NULL
            UNION
            SELECT r.name, r.parent FROM above a CROSS JOIN \(recordByName) ON r.name = a.parent AND r.zone = ?2
            WHERE r.parent IS NOT NULL)
        SELECT name, parent FROM above
        """

    // MARK: Hierarchies

    func write(_ entries: [HierarchyEntry], in zone: Int64) throws {
        let statement = try SQL(
            """
            INSERT INTO share_entry (share, name, zone, change, gone, record, type) VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (share, name) DO UPDATE SET
                change = excluded.change, gone = excluded.gone, record = excluded.record, type = excluded.type
            """,
            in: database
        )
        for entry in entries {
            statement.bind(1, entry.share)
            statement.bind(2, entry.name)
            statement.bind(3, zone)
            statement.bind(4, entry.change)
            statement.bind(5, entry.state.rawValue)
            if let record = entry.record { statement.bind(6, record) }
            if let type = entry.type { statement.bind(7, try ensureNumber(ofType: type)) }
            try statement.run()
        }
    }

    func advance(_ lastChanges: [Int64: UInt64]) throws {
        let statement = try SQL("UPDATE share SET last_change = max(last_change, ?) WHERE id = ?", in: database)
        for (share, change) in lastChanges {
            statement.bind(1, change)
            statement.bind(2, share)
            try statement.run()
        }
    }

    // MARK: Shares

    func shares(withLinks shortGUIDs: [String]) throws -> [String: ShareKey] {
        let statement = try SQL(
            "SELECT s.guid, s.id, s.root FROM json_each(?) g CROSS JOIN share s ON s.guid = g.value",
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, list: shortGUIDs)
        var found: [String: ShareKey] = [:]
        while try statement.step() {
            found[statement.text(0)] = ShareKey(number: statement.int(1), root: statement.optionalText(2))
        }
        return found
    }

    func shares(of zone: Int64) throws -> [ShareKey] {
        let statement = try SQL("SELECT id, root FROM share WHERE zone = ?", in: database)
        defer { statement.reset() }
        statement.bind(1, zone)
        var found: [ShareKey] = []
        while try statement.step() {
            found.append(ShareKey(number: statement.int(0), root: statement.optionalText(1)))
        }
        return found
    }

    func insert(_ shares: [NewShare], in zone: Int64) throws -> [Int64] {
        let statement = try SQL(
            """
            INSERT INTO share (zone, name, root, guid, public_permission, allows_requests) VALUES (?, ?, ?, ?, ?, ?)
            """,
            in: database
        )
        return try shares.map { share in
            statement.bind(1, zone)
            statement.bind(2, share.name)
            statement.bind(3, share.root)
            statement.bind(4, share.shortGUID)
            statement.bind(5, Int64(share.settings.publicPermission.rawValue))
            statement.bind(6, share.settings.allowsAccessRequests)
            try statement.run()
            return database.lastInsertedRowID
        }
    }

    func delete(shares: [Int64]) throws {
        for sql in ["DELETE FROM share_entry WHERE share = ?", "DELETE FROM share WHERE id = ?"] {
            let statement = try SQL(sql, in: database)
            for share in shares {
                statement.bind(1, share)
                try statement.run()
            }
        }
    }

    func write(_ settings: [ShareSettings]) throws {
        let statement = try SQL(
            "UPDATE share SET public_permission = ?, allows_requests = ? WHERE id = ?",
            in: database
        )
        for settings in settings {
            statement.bind(1, Int64(settings.publicPermission.rawValue))
            statement.bind(2, settings.allowsAccessRequests)
            statement.bind(3, settings.share)
            try statement.run()
        }
    }

    func write(participants: [Int64: [Share.Participant]]) throws {
        let delete = try SQL("DELETE FROM participant WHERE share = ?", in: database)
        let insert = try SQL(
            """
            INSERT INTO participant (
                share, id, place, role, permission, accepted, user, email, phone, has_asked, added
            ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            in: database
        )
        for (share, people) in participants {
            delete.bind(1, share)
            try delete.run()
            for (place, participant) in people.enumerated() {
                insert.bind(1, share)
                insert.bind(2, participant.id)
                insert.bind(3, Int64(place))
                insert.bind(4, Int64(participant.role.rawValue))
                insert.bind(5, Int64(participant.permission.rawValue))
                insert.bind(6, participant.hasAccepted)
                if let user = participant.user { insert.bind(7, try ensureNumber(of: user)) }
                if case .email(let address)? = participant.contact { insert.bind(8, address) }
                if case .phone(let number)? = participant.contact { insert.bind(9, number) }
                insert.bind(10, participant.hasRequestedAccess)
                if let added = participant.added { insert.bind(11, added.milliseconds) }
                try insert.run()
            }
        }
    }

    func write(requests: [Int64: ShareRequests]) throws {
        let delete = try SQL("DELETE FROM share_request WHERE share = ?", in: database)
        let insert = try SQL(
            "INSERT OR REPLACE INTO share_request (share, user, place, blocked) VALUES (?, ?, ?, ?)",
            in: database
        )
        for (share, requests) in requests {
            delete.bind(1, share)
            try delete.run()
            let people = requests.requesters.map { ($0, false) } + requests.blocked.map { ($0, true) }
            for (place, (user, isBlocked)) in people.enumerated() {
                insert.bind(1, share)
                insert.bind(2, try ensureNumber(of: user))
                insert.bind(3, Int64(place))
                insert.bind(4, isBlocked)
                try insert.run()
            }
        }
    }

    func writeSharing(of zone: Zone) throws {
        let statement = try SQL("UPDATE zone_row SET shared = ? WHERE id = ?", in: database)
        statement.bind(1, zone.sharing.rawValue)
        statement.bind(2, zone.number)
        try statement.run()
        cache.zones.keep(zone)
    }

    // MARK: Access

    /// Answers from the cache where it can, since each commit to a shared zone asks.
    func access(to zones: [Int64]) throws -> [ZoneAccess] {
        try zones.flatMap { zone in
            if let known = cache.access[zone] { return known }
            let found = try readAccess(to: zone)
            cache.access[zone] = found
            return found
        }
    }

    private func readAccess(to zone: Int64) throws -> [ZoneAccess] {
        let statement = try SQL(
            "SELECT user, identity, change FROM shared_zone WHERE zone = ? AND ended = 0 ORDER BY user",
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, zone)
        var found: [ZoneAccess] = []
        while try statement.step() {
            found.append(
                ZoneAccess(
                    user: try user(statement.int(0)),
                    zone: zone,
                    identity: statement.unsigned(1),
                    change: statement.unsigned(2)
                )
            )
        }
        return found
    }

    func write(_ access: [ZoneAccess]) throws {
        let statement = try SQL(
            "INSERT OR REPLACE INTO shared_zone (user, zone, identity, change, ended) VALUES (?, ?, ?, ?, ?)",
            in: database
        )
        for access in access {
            statement.bind(1, try ensureNumber(of: access.user))
            statement.bind(2, access.zone)
            statement.bind(3, access.identity)
            statement.bind(4, access.change)
            statement.bind(5, access.hasEnded)
            try statement.run()
            cache.access[access.zone] = nil
        }
    }

    func memberships(ofUsersIn shares: [Int64], in zone: Int64) throws -> [ShareMembership] {
        // Nearly every commit changes one hierarchy of a zone.
        let statement = try SQL(shares.count == 1 ? Self.usersOfShare : Self.usersOfShares, in: database)
        if shares.count == 1 { statement.bind(1, shares[0]) } else { statement.bind(1, list: shares) }
        statement.bind(2, zone)
        return try memberships(in: statement)
    }

    private static let usersOfShare = """
        SELECT \(membershipColumns) FROM participant m CROSS JOIN participant p ON p.user = m.user
        CROSS JOIN share s ON s.id = p.share
        WHERE m.share = ?1 AND m.accepted = 1 AND m.permission > 1
            AND p.accepted = 1 AND p.permission > 1 AND s.zone = ?2
        """
    private static let usersOfShares = """
        SELECT \(membershipColumns) FROM (
            SELECT DISTINCT m.user FROM json_each(?1) k CROSS JOIN participant m ON m.share = k.value
            WHERE m.accepted = 1 AND m.permission > 1) u
        CROSS JOIN participant p ON p.user = u.user CROSS JOIN share s ON s.id = p.share
        WHERE p.accepted = 1 AND p.permission > 1 AND s.zone = ?2
        """

    // MARK: Aliases

    func aliases(showing names: [String], in zone: Int64) throws -> [ShareAlias] {
        try aliases("shown", names, in: zone)
    }

    func aliases(keeping names: [String], in zone: Int64) throws -> [ShareAlias] {
        try aliases("kept", names, in: zone)
    }

    /// Returns the aliases that have one of these names in `column`; nearly always there are none in the zone.
    private func aliases(_ column: StaticString, _ names: [String], in zone: Int64) throws -> [ShareAlias] {
        let any = try SQL("SELECT 1 FROM share WHERE zone = ? AND has_aliases = 1 LIMIT 1", in: database)
        any.bind(1, zone)
        let hasAny = try any.step()
        any.reset()
        guard hasAny else { return [] }
        let statement = try SQL(Self.sharesWithAlias(column), in: database)
        statement.bind(1, zone)
        statement.bind(2, list: names)
        return try aliases(in: statement)
    }

    /// Selects those aliases; `?1` is the zone's number, `?2` the list of names.
    package static func sharesWithAlias(_ column: StaticString) -> String {
        """
        SELECT a.share, a.shown, a.kept, e.share FROM json_each(?2) n
        CROSS JOIN share s ON s.zone = ?1 AND s.has_aliases = 1
        CROSS JOIN share_alias a ON a.share = s.id AND a.\(column) = n.value
        LEFT JOIN share_entry e ON e.name = a.shown AND e.zone = ?1 AND e.gone = 0
        """
    }

    func write(_ aliases: [ShareAlias]) throws {
        let insert = try SQL("INSERT OR REPLACE INTO share_alias (share, shown, kept) VALUES (?, ?, ?)", in: database)
        for alias in aliases {
            insert.bind(1, alias.share)
            insert.bind(2, alias.shown)
            insert.bind(3, alias.kept)
            try insert.run()
        }
        let mark = try SQL("UPDATE share SET has_aliases = 1 WHERE id = ?", in: database)
        for share in Set(aliases.map(\.share)) {
            mark.bind(1, share)
            try mark.run()
        }
    }
}

extension SQL {
    /// Binds a list, which the statement reads with `json_each`.
    fileprivate func bind(_ index: Int32, list: [String]) {
        var json = JSONWriter(reserving: list.reduce(2) { $0 + $1.utf8.count + 3 })
        json.array(list) { $0.string($1) }
        bind(index, String(decoding: json.bytes, as: UTF8.self))
    }

    fileprivate func bind(_ index: Int32, list: [Int64]) {
        bind(index, "[" + list.map(String.init).joined(separator: ",") + "]")
    }
}
