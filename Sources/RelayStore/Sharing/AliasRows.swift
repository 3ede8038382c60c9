import GRDB
import Records
import RelayCore

/// Names under which hierarchies show records that have other names in the zone: see ParticipantViews.md, "Names".
extension SQLiteReader {
    /// Returns the names under which the user sees records that have other names in the zone.
    ///
    /// A name means the record that has it if the user can see that record, whatever participants have chosen. A name
    /// that two hierarchies use for different records means neither.
    func aliases(for user: Int64, in zone: Int64) throws -> RecordAliases {
        let statement = try SQL(
            """
            SELECT a.shown, min(a.kept) FROM share_alias a WHERE a.share IN (\(Self.joined)) AND NOT EXISTS (
                SELECT 1 FROM share_entry e
                WHERE e.name = a.shown AND e.zone = ?2 AND e.gone = 0 AND e.share IN (\(Self.joined)))
            GROUP BY a.shown HAVING count(*) = 1
            """,
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, user)
        statement.bind(2, zone)
        var found: [String: String] = [:]
        while try statement.step() { found[statement.text(0)] = statement.text(1) }
        var aliases = RecordAliases()
        // Skips a name assigned by the relay that a participant has chosen too: the record that has it is not visible.
        for (shown, kept) in found where found[kept] == nil { aliases.add(shown, for: kept) }
        return aliases
    }
}

/// Maintains these names.
///
/// If a name comes to mean another record for a user, the user's tokens expire: a feed cannot express that two records
/// have exchanged their names.
extension SQLiteWriter {
    func show(_ kept: String, as shown: String, in share: Int64, of zone: Zone) throws(RelayError) {
        try requireOwner(zone.id.owner)
        try attempt {
            let former = try self.kept(for: shown, in: share)
            let place = try former.flatMap { try cover(ofEntry: $0, in: zone) }
            // Users who see the record there keep seeing it under this name.
            guard place != share else { return }
            let insert = try SQL(
                "INSERT OR REPLACE INTO share_alias (share, shown, kept) VALUES (?, ?, ?)",
                in: database
            )
            insert.bind(1, share)
            insert.bind(2, shown)
            insert.bind(3, kept)
            try insert.run()
            let mark = try SQL("UPDATE share SET has_aliases = 1 WHERE id = ?", in: database)
            mark.bind(1, share)
            try mark.run()
            var others = try shares("shown", shown, in: zone).filter { $0 != share }
            // The relay may have assigned this name.
            others += try shares("kept", shown, in: zone)
            if let place { others.append(place) }
            guard !others.isEmpty else { return }
            try expireTokens(share, whereIn: others, of: zone, at: takeChangeNumber())
        }
    }

    /// Called when the record that has this name enters or leaves shares.
    ///
    /// Expires the tokens of users for whom the name means another record while this one is not visible.
    func recordMoved(_ name: String, from old: Int64?, to new: Int64?, in zone: Zone, at change: UInt64) throws {
        for share in try shares("shown", name, in: zone) {
            try expireTokens(share, whereIn: [old, new].compactMap(\.self), of: zone, at: change)
        }
    }

    func hasAliases(in zone: Zone) throws -> Bool {
        let statement = try SQL("SELECT 1 FROM share WHERE zone = ? AND has_aliases = 1 LIMIT 1", in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        return try statement.step()
    }

    private func kept(for shown: String, in share: Int64) throws -> String? {
        let statement = try SQL("SELECT kept FROM share_alias WHERE share = ? AND shown = ?", in: database)
        defer { statement.reset() }
        statement.bind(1, share)
        statement.bind(2, shown)
        return try statement.step() ? statement.text(0) : nil
    }

    /// Returns the shares with an alias that has this name in `column`.
    private func shares(_ column: StaticString, _ name: String, in zone: Zone) throws -> [Int64] {
        let statement = try SQL(Self.sharesWithAlias(column), in: database)
        defer { statement.reset() }
        statement.bind(1, zone.number)
        statement.bind(2, name)
        var found: [Int64] = []
        while try statement.step() { found.append(statement.int(0)) }
        return found
    }

    /// Selects those shares; `?1` is the zone's number, `?2` the name.
    package static func sharesWithAlias(_ column: StaticString) -> String {
        """
        SELECT DISTINCT s.id FROM share s JOIN share_alias a ON a.share = s.id AND a.\(column) = ?2
        WHERE s.zone = ?1 AND s.has_aliases = 1
        """
    }

    /// Expires the tokens of users who have joined this share and one of the others.
    private func expireTokens(_ share: Int64, whereIn others: [Int64], of zone: Zone, at change: UInt64) throws {
        let statement = try SQL(
            """
            SELECT DISTINCT a.user FROM participant a JOIN participant b ON b.user = a.user
            WHERE a.share = ?1 AND b.share = ?2
                AND a.accepted = 1 AND b.accepted = 1 AND a.permission > 1 AND b.permission > 1
            """,
            in: database
        )
        var users: Set<UserID> = []
        for other in others {
            defer { statement.reset() }
            statement.bind(1, share)
            statement.bind(2, other)
            while try statement.step() { users.insert(try user(statement.int(0))) }
        }
        guard !users.isEmpty else { return }
        cache.listeners[zone.number] = nil
        for user in users { try setAccess(of: user, to: zone, ended: false, at: change) }
    }
}
