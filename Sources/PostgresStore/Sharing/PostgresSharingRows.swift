#if Postgres
    package import Records
    package import RelayCore
    package import StoreKit

    /// The tables of sharing of one container and environment, as sets of rows: each call is one statement or one pipeline.
    ///
    /// What is read comes with the names of users and record types, so a call needs no other look-up.
    package struct PostgresSharingRows: SharingRows {
        package let transaction: PostgresTransaction

        package init(_ transaction: PostgresTransaction) { self.transaction = transaction }

        private var home: Int64 { transaction.home.number }

        // MARK: Memberships

        package func covers(of names: [String], in zone: Int64) throws -> [String: Int64] {
            guard !names.isEmpty else { return [:] }
            let rows = try transaction.query(
                "SELECT e.name, e.share FROM unnest($2::text[]) AS n (name) CROSS JOIN \(Self.cover(of: "n.name")) e",
                .int(zone),
                .texts(names)
            )
            return Dictionary(rows.map { ($0.text(0), $0.int(1)) }) { $1 }
        }

        /// Returns an item of `FROM`: the entry of the zone `$1` for a record that is in a hierarchy.
        static func cover(of name: String) -> String {
            LookUp.rows(of: "share_entry", where: "zone = $1 AND name = \(name) AND gone = 0")
        }

        private static let membershipColumns =
            "u.name, s.zone, s.id, s.root, p.permission, s.last_change, s.has_aliases"

        private func memberships(in rows: PostgresRows) -> [ShareMembership] {
            rows.map { row in
                ShareMembership(
                    user: UserID(row.text(0)),
                    zone: row.int(1),
                    share: row.int(2),
                    root: row.optionalText(3),
                    permission: Share.Permission(rawValue: Int(row.int(4))) ?? .none,
                    lastChange: row.unsigned(5),
                    hasAliases: row.bool(6)
                )
            }
        }

        package func memberships(of users: [UserID], in zone: Int64?) throws -> [ShareMembership] {
            guard !users.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT \(Self.membershipColumns) FROM unnest($2::text[]) AS n (name)
                CROSS JOIN \(LookUp.rows(of: "person", where: "home = $1 AND name = n.name")) u
                CROSS JOIN \(LookUp.rows(of: "participant", where: "person = u.id")) p
                CROSS JOIN \(LookUp.rows(of: "share", where: "id = p.share")) s
                WHERE p.accepted AND p.permission > 1 AND ($3::bigint IS NULL OR s.zone = $3) ORDER BY s.id, u.id
                """,
                .int(home),
                .texts(Set(users).map(\.recordName)),
                .int(zone)
            )
            return memberships(in: rows)
        }

        package func memberships(ofUsersIn shares: [Int64], in zone: Int64) throws -> [ShareMembership] {
            guard !shares.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT \(Self.membershipColumns) FROM (
                    SELECT DISTINCT m.person FROM participant m
                    WHERE m.share = ANY($1) AND m.accepted AND m.permission > 1) m
                CROSS JOIN \(LookUp.rows(of: "participant", where: "person = m.person")) p
                CROSS JOIN \(LookUp.rows(of: "share", where: "id = p.share")) s
                CROSS JOIN \(LookUp.rows(of: "person", where: "id = p.person")) u
                WHERE p.accepted AND p.permission > 1 AND s.zone = $2 ORDER BY s.id, u.id
                """,
                .ints(shares),
                .int(zone)
            )
            return memberships(in: rows)
        }

        // MARK: Records

        private static let outlineColumns = "r.name, t.name, r.parent, r.change, r.share, e.share"
        /// What `outlineColumns` read besides the record `r`.
        private static let outlineJoins = """
            CROSS JOIN \(LookUp.rows(of: "record_type", where: "id = r.type")) t
            LEFT JOIN \(cover(of: "r.name")) e ON true
            """

        /// Returns an item of `FROM`: the record of the zone `$1` that has a name.
        static func record(named name: String) -> String {
            LookUp.rows(of: "record", where: "zone = $1 AND name = \(name)")
        }

        /// The links of the zone `$1` from parents `$2` to their children.
        private static let childLinks = """
            unnest($2::text[]) AS p (name)
            CROSS JOIN \(LookUp.rows(of: "reference", where: "zone = $1 AND target = p.name AND kind = 3")) f
            """

        private func outlines(in rows: PostgresRows) -> [RecordOutline] {
            rows.map { row in
                RecordOutline(
                    name: row.text(0),
                    type: row.text(1),
                    parent: row.optionalText(2),
                    change: row.unsigned(3),
                    share: row.optionalText(4),
                    cover: row.optionalInt(5)
                )
            }
        }

        package func outlines(of names: [String], in zone: Int64) throws -> [RecordOutline] {
            guard !names.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT \(Self.outlineColumns) FROM unnest($2::text[]) AS n (name)
                CROSS JOIN \(Self.record(named: "n.name")) r \(Self.outlineJoins)
                WHERE NOT r.deleted ORDER BY r.name
                """,
                .int(zone),
                .texts(Array(Set(names)))
            )
            return outlines(in: rows)
        }

        package func children(of parents: [String], in zone: Int64) throws -> [RecordOutline] {
            guard !parents.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT \(Self.outlineColumns) FROM \(Self.childLinks)
                CROSS JOIN \(Self.record(named: "f.source")) r \(Self.outlineJoins)
                WHERE NOT r.deleted ORDER BY f.target, f.source
                """,
                .int(zone),
                .texts(Array(Set(parents)))
            )
            return outlines(in: rows)
        }

        private func links(in rows: PostgresRows) -> [ParentLink] {
            rows.map { ParentLink(name: $0.text(0), parent: $0.text(1)) }
        }

        package func childNames(of parents: [String], in zone: Int64) throws -> [ParentLink] {
            guard !parents.isEmpty else { return [] }
            let rows = try transaction.query(
                "SELECT f.source, f.target FROM \(Self.childLinks)",
                .int(zone),
                .texts(Array(Set(parents)))
            )
            return links(in: rows)
        }

        package func ancestors(of names: [String], in zone: Int64) throws -> [ParentLink] {
            guard !names.isEmpty else { return [] }
            // UNION leaves out rows that are there already, so that a cycle of parents ends.
            let rows = try transaction.query(
                """
                WITH RECURSIVE above (name, parent) AS (
                    SELECT r.name, r.parent FROM unnest($2::text[]) AS n (name)
                    CROSS JOIN \(Self.record(named: "n.name")) r WHERE r.parent IS NOT NULL
                    UNION
                    SELECT r.name, r.parent FROM above a CROSS JOIN \(Self.record(named: "a.parent")) r
                    WHERE r.parent IS NOT NULL)
                SELECT name, parent FROM above
                """,
                .int(zone),
                .texts(names)
            )
            return links(in: rows)
        }

        // MARK: Hierarchies

        package func write(_ entries: [HierarchyEntry], in zone: Int64) throws {
            let entries = entries.latest { [String($0.share), $0.name] }
            guard !entries.isEmpty else { return }
            transaction.later(
                """
                INSERT INTO share_entry (share, name, zone, change, gone, record, type)
                SELECT e.share, e.name, $1, e.change, e.gone, e.record, t.id
                FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::text[])
                    AS e (share, name, change, gone, record, type)
                LEFT JOIN \(LookUp.rows(of: "record_type", where: "home = $2 AND name = e.type")) t ON true
                ON CONFLICT (share, name) DO UPDATE SET
                    change = excluded.change, gone = excluded.gone, record = excluded.record, type = excluded.type
                """,
                .int(zone),
                .int(home),
                .ints(entries.map(\.share)),
                .texts(entries.map(\.name)),
                .unsigneds(entries.map(\.change)),
                .ints(entries.map(\.state.rawValue)),
                .ints(entries.map { $0.record.map { Int64(bitPattern: $0) } }),
                .texts(entries.map(\.type))
            )
        }

        package func advance(_ lastChanges: [Int64: UInt64]) throws {
            let shares = lastChanges.keys.sorted()
            guard !shares.isEmpty else { return }
            transaction.later(
                """
                UPDATE share s SET last_change = greatest(s.last_change, c.change)
                FROM unnest($1::bigint[], $2::bigint[]) AS c (share, change) WHERE s.id = c.share
                """,
                .ints(shares),
                .unsigneds(shares.map { lastChanges[$0] ?? 0 })
            )
        }

        // MARK: Shares

        /// The shares of the home `$1` that have the links `$2`.
        static let sharesWithLinks = """
            unnest($2::text[]) AS l (guid)
            CROSS JOIN \(LookUp.rows(of: "share", where: "home = $1 AND guid = l.guid")) s
            """

        package func shares(withLinks shortGUIDs: [String]) throws -> [String: ShareKey] {
            guard !shortGUIDs.isEmpty else { return [:] }
            let rows = try transaction.query(
                "SELECT s.guid, s.id, s.root FROM \(Self.sharesWithLinks)",
                .int(home),
                .texts(shortGUIDs)
            )
            return Dictionary(rows.map { ($0.text(0), ShareKey(number: $0.int(1), root: $0.optionalText(2))) }) { $1 }
        }

        package func shares(of zone: Int64) throws -> [ShareKey] {
            try transaction.query("SELECT id, root FROM share WHERE zone = $1 ORDER BY id", .int(zone))
                .map { ShareKey(number: $0.int(0), root: $0.optionalText(1)) }
        }

        package func insert(_ shares: [NewShare], in zone: Int64) throws -> [Int64] {
            guard !shares.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                INSERT INTO share (home, zone, name, root, guid, public_permission, allows_requests)
                SELECT $1, $2, n.name, n.root, n.guid, n.permission, n.allows
                FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::boolean[])
                    WITH ORDINALITY AS n (name, root, guid, permission, allows, place) ORDER BY n.place
                RETURNING guid, id
                """,
                .int(home),
                .int(zone),
                .texts(shares.map(\.name)),
                .texts(shares.map(\.root)),
                .texts(shares.map(\.shortGUID)),
                .ints(shares.map { Int64($0.settings.publicPermission.rawValue) }),
                .bools(shares.map(\.settings.allowsAccessRequests))
            )
            let numbers = Dictionary(rows.map { ($0.text(0), $0.int(1)) }) { $1 }
            return try shares.map { share in
                guard let number = numbers[share.shortGUID] else {
                    throw PostgresError(.failed, "A share was not inserted.")
                }
                return number
            }
        }

        package func delete(shares: [Int64]) throws {
            guard !shares.isEmpty else { return }
            for table in ["share_entry", "participant", "share_request", "share_alias"] {
                transaction.later("DELETE FROM \(table) WHERE share = ANY($1)", .ints(shares))
            }
            transaction.later("DELETE FROM share WHERE id = ANY($1)", .ints(shares))
        }

        package func write(_ settings: [ShareSettings]) throws {
            guard !settings.isEmpty else { return }
            transaction.later(
                """
                UPDATE share s SET public_permission = n.permission, allows_requests = n.allows
                FROM unnest($1::bigint[], $2::bigint[], $3::boolean[]) AS n (share, permission, allows)
                WHERE s.id = n.share
                """,
                .ints(settings.map(\.share)),
                .ints(settings.map { Int64($0.publicPermission.rawValue) }),
                .bools(settings.map(\.allowsAccessRequests))
            )
        }

        package func write(participants: [Int64: [Share.Participant]]) throws {
            guard !participants.isEmpty else { return }
            let shares = participants.keys.sorted()
            transaction.later("DELETE FROM participant WHERE share = ANY($1)", .ints(shares))
            let all = shares.flatMap { share in
                (participants[share] ?? []).enumerated().map { (share: share, place: $0.offset, person: $0.element) }
            }
            guard !all.isEmpty else { return }
            let numbers = try transaction.ensureNumbers(of: all.compactMap(\.person.user))
            func texts(_ value: (Share.Contact) -> String?) -> PostgresValue {
                .texts(all.map { $0.person.contact.flatMap(value) })
            }
            transaction.later(
                """
                INSERT INTO participant (
                    share, id, place, role, permission, accepted, person, email, phone, has_asked, added)
                SELECT * FROM unnest(
                    $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::boolean[], $7::bigint[],
                    $8::text[], $9::text[], $10::boolean[], $11::bigint[])
                """,
                .ints(all.map(\.share)),
                .texts(all.map(\.person.id)),
                .ints(all.map { Int64($0.place) }),
                .ints(all.map { Int64($0.person.role.rawValue) }),
                .ints(all.map { Int64($0.person.permission.rawValue) }),
                .bools(all.map(\.person.hasAccepted)),
                .ints(all.map { $0.person.user.flatMap { numbers[$0] } }),
                texts { if case .email(let address) = $0 { address } else { nil } },
                texts { if case .phone(let number) = $0 { number } else { nil } },
                .bools(all.map(\.person.hasRequestedAccess)),
                .ints(all.map { $0.person.added?.milliseconds })
            )
        }

        package func write(requests: [Int64: ShareRequests]) throws {
            guard !requests.isEmpty else { return }
            let shares = requests.keys.sorted()
            transaction.later("DELETE FROM share_request WHERE share = ANY($1)", .ints(shares))
            let all = shares.flatMap { share -> [(share: Int64, place: Int, user: UserID, isBlocked: Bool)] in
                let requests = requests[share] ?? ShareRequests(requesters: [], blocked: [])
                let people = requests.requesters.map { ($0, false) } + requests.blocked.map { ($0, true) }
                return people.enumerated().map { (share, $0.offset, $0.element.0, $0.element.1) }
            }
            .latest { [String($0.share), $0.user.recordName] }
            guard !all.isEmpty else { return }
            let numbers = try transaction.ensureNumbers(of: all.map(\.user))
            transaction.later(
                """
                INSERT INTO share_request (share, person, place, blocked)
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[])
                """,
                .ints(all.map(\.share)),
                .ints(all.map { numbers[$0.user] }),
                .ints(all.map { Int64($0.place) }),
                .bools(all.map(\.isBlocked))
            )
        }

        package func writeSharing(of zone: Zone) throws {
            transaction.later(
                "UPDATE zone SET shared = $2 WHERE id = $1",
                .int(zone.number),
                .int(zone.sharing.rawValue)
            )
        }

        // MARK: Access

        package func access(to zones: [Int64]) throws -> [ZoneAccess] {
            guard !zones.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT u.name, a.zone, a.identity, a.change FROM shared_zone a
                CROSS JOIN \(LookUp.rows(of: "person", where: "id = a.person")) u
                WHERE a.zone = ANY($1) AND NOT a.ended ORDER BY a.zone, a.person
                """,
                .ints(zones)
            )
            return rows.map {
                ZoneAccess(
                    user: UserID($0.text(0)),
                    zone: $0.int(1),
                    identity: $0.unsigned(2),
                    change: $0.unsigned(3)
                )
            }
        }

        package func write(_ access: [ZoneAccess]) throws {
            let access = access.latest { [String($0.zone), $0.user.recordName] }
            guard !access.isEmpty else { return }
            // First of all: the users' shared databases must look here once this is committed.
            try transaction.peers?.admit(Set(access.map(\.user)))
            let numbers = try transaction.ensureNumbers(of: access.map(\.user))
            transaction.later(
                """
                INSERT INTO shared_zone (person, zone, identity, change, ended)
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[])
                ON CONFLICT (person, zone) DO UPDATE SET
                    identity = excluded.identity, change = excluded.change, ended = excluded.ended
                """,
                .ints(access.map { numbers[$0.user] }),
                .ints(access.map(\.zone)),
                .unsigneds(access.map(\.identity)),
                .unsigneds(access.map(\.change)),
                .bools(access.map(\.hasEnded))
            )
        }

        // MARK: Aliases

        private static let aliasColumns = "a.share, a.shown, a.kept, e.share"

        private func aliases(in rows: PostgresRows) -> [ShareAlias] {
            rows.map {
                ShareAlias(share: $0.int(0), shown: $0.text(1), kept: $0.text(2), shownCover: $0.optionalInt(3))
            }
        }

        package func aliases(of shares: [Int64], in zone: Int64) throws -> [ShareAlias] {
            guard !shares.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT \(Self.aliasColumns) FROM share_alias a
                LEFT JOIN \(Self.cover(of: "a.shown")) e ON true
                WHERE a.share = ANY($2) ORDER BY a.share, a.shown
                """,
                .int(zone),
                .ints(shares)
            )
            return aliases(in: rows)
        }

        package func aliases(showing names: [String], in zone: Int64) throws -> [ShareAlias] {
            try aliases("shown", names, in: zone)
        }

        package func aliases(keeping names: [String], in zone: Int64) throws -> [ShareAlias] {
            try aliases("kept", names, in: zone)
        }

        /// Returns the aliases that have one of these names in `column`; nearly always there are none in the zone.
        private func aliases(_ column: StaticString, _ names: [String], in zone: Int64) throws -> [ShareAlias] {
            guard !names.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT \(Self.aliasColumns) FROM \(LookUp.rows(of: "share", where: "zone = $1 AND has_aliases")) s
                CROSS JOIN unnest($2::text[]) AS n (name)
                CROSS JOIN \(LookUp.rows(of: "share_alias", where: "share = s.id AND \(column) = n.name")) a
                LEFT JOIN \(Self.cover(of: "a.shown")) e ON true
                ORDER BY a.share, a.shown
                """,
                .int(zone),
                .texts(Array(Set(names)))
            )
            return aliases(in: rows)
        }

        package func write(_ aliases: [ShareAlias]) throws {
            let aliases = aliases.latest { [String($0.share), $0.shown] }
            guard !aliases.isEmpty else { return }
            transaction.later(
                """
                INSERT INTO share_alias (share, shown, kept) SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])
                ON CONFLICT (share, shown) DO UPDATE SET kept = excluded.kept
                """,
                .ints(aliases.map(\.share)),
                .texts(aliases.map(\.shown)),
                .texts(aliases.map(\.kept))
            )
            transaction.later(
                "UPDATE share SET has_aliases = true WHERE id = ANY($1)",
                .ints(Set(aliases.map(\.share)).sorted())
            )
        }
    }

    extension Array {
        /// Returns the last element of each key, in their order: a statement must not write the same row twice.
        func latest<Key: Hashable>(_ key: (Element) -> Key) -> [Element] {
            guard count > 1 else { return self }
            var places: [Key: Int] = [:]
            for (place, element) in enumerated() { places[key(element)] = place }
            guard places.count < count else { return self }
            return places.values.sorted().map { self[$0] }
        }
    }
#endif
