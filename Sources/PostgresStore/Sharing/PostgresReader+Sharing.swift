#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    extension PostgresReader {
        /// The rows of sharing, references and asset uses.
        var rows: PostgresSharingRows { PostgresSharingRows(transaction) }

        // MARK: Shares

        /// Adds to share records what they share.
        func addShares(to records: inout [StoredRecord]) throws {
            let places = records.indices.filter { records[$0].isShare && !records[$0].isDeleted }
            guard !places.isEmpty else { return }
            let shares = try rows.contents(ofLinks: places.compactMap { records[$0].shareReference?.shortGUID })
            for place in places {
                records[place].sharing = records[place].shareReference.flatMap { shares[$0.shortGUID] }
            }
        }

        package func share(ofLink shortGUID: String) throws(RelayError) -> ShareLocation? {
            try attempt {
                try locations(PostgresSharingRows.sharesWithLinks, .int(home.number), .texts([shortGUID])).first
            }
        }

        package func shares(inviting contacts: [Share.Contact]) throws(RelayError) -> [ShareLocation] {
            guard !contacts.isEmpty else { return [] }
            return try attempt {
                let addresses = contacts.compactMap { if case .email(let address) = $0 { address } else { nil } }
                let phones = contacts.compactMap { if case .phone(let number) = $0 { number } else { nil } }
                return try locations(
                    """
                    (
                        SELECT share FROM participant WHERE person IS NULL AND email = ANY($2)
                        UNION SELECT share FROM participant WHERE person IS NULL AND phone = ANY($3)) i
                    CROSS JOIN \(LookUp.rows(of: "share", where: "id = i.share AND home = $1")) s
                    """,
                    .int(home.number),
                    .texts(addresses),
                    .texts(phones)
                )
            }
        }

        /// Returns those of the shares `s` that are in live zones.
        private func locations(_ shares: String, _ values: PostgresValue...) throws -> [ShareLocation] {
            var query = PostgresPipeline()
            query.add(
                """
                SELECT \(Self.zoneColumns), o.name, s.name FROM \(shares)
                CROSS JOIN \(LookUp.rows(of: "zone", where: "id = s.zone")) z \(Self.ownersOfZones)
                WHERE NOT z.deleted ORDER BY s.id
                """,
                values
            )
            let (owner, name) = (Self.zoneColumnCount, Self.zoneColumnCount + 1)
            return try transaction.run(query)[0].map { row in
                ShareLocation(zone: Self.zone(row, of: UserID(row.text(owner))), record: row.text(name))
            }
        }

        func readShares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64] {
            try attempt { try rows.covers(of: names, in: zone.number) }
        }

        // MARK: Zones

        func readZone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
            try attempt {
                let found = try sharedZones(
                    of: [user],
                    """
                    CROSS JOIN \(LookUp.rows(of: "person", where: "home = $1 AND name = $3")) owner
                    CROSS JOIN \(LookUp.rows(of: "zone", where: "owner = owner.id AND name = $4 AND NOT deleted")) z
                    CROSS JOIN \(LookUp.rows(of: "shared_zone", where: "person = u.id AND zone = z.id AND NOT ended")) a
                    """,
                    .text(id.owner.recordName),
                    .text(id.zoneName)
                )
                guard let found = found.first else { return nil }
                var zones = [found.zone]
                let lastChanges = [found.zone.number: found.lastChange]
                try rows.addViews(of: user, to: &zones, lastChanges: lastChanges, in: found.zone.number)
                return zones.first
            }
        }

        package func zones(sharedWith user: UserID) throws(RelayError) -> [Zone] {
            try attempt {
                let found = try sharedZones(of: [user], Self.allZones)
                var zones = found.map(\.zone)
                let lastChanges = Dictionary(found.map { ($0.zone.number, $0.lastChange) }) { $1 }
                try rows.addViews(of: user, to: &zones, lastChanges: lastChanges)
                return zones.sorted { $0.lastChange < $1.lastChange }
            }
        }

        /// A zone to which a user has, or had, access.
        private struct SharedZone {
            var user: UserID
            /// Its last change is the one with which the user got access, or lost it.
            var zone: Zone
            /// The last change of the whole zone.
            var lastChange: UInt64
        }

        /// The users `u` of the home `$1` that have the names `$2`.
        private static let namedUsers = """
            unnest($2::text[]) AS n (name)
            CROSS JOIN \(LookUp.rows(of: "person", where: "home = $1 AND name = n.name")) u
            """

        /// The owner of a zone `z` and the row that says that its data is here.
        private static let ownersOfZones = """
            CROSS JOIN \(LookUp.rows(of: "person", where: "id = z.owner")) o
            CROSS JOIN \(LookUp.rows(of: "owner", where: "id = z.owner AND state < 2")) w
            """

        /// The zones `z` to which a user `u` has or had access, by the rows `a`.
        private static let allZones = """
            CROSS JOIN \(LookUp.rows(of: "shared_zone", where: "person = u.id")) a
            CROSS JOIN \(LookUp.rows(of: "zone", where: "id = a.zone")) z
            """

        /// Reads the zones `z` and the rows `a` of access that `zones` joins with a user `u`.
        private func sharedZones(
            of users: [UserID],
            _ zones: String,
            _ more: PostgresValue...
        ) throws(PostgresError) -> [SharedZone] {
            var query = PostgresPipeline()
            query.add(
                """
                SELECT u.name, o.name, z.id, z.name, a.identity, a.change, a.ended, z.last_change, z.shared
                FROM \(Self.namedUsers) \(zones) \(Self.ownersOfZones)
                """,
                [.int(home.number), .texts(Set(users).map(\.recordName))] + more
            )
            return try transaction.run(query)[0].map { row in
                let zone = Zone(
                    number: row.int(2),
                    id: ZoneID(row.text(3), owner: UserID(row.text(1))),
                    identity: row.unsigned(4),
                    lastChange: row.unsigned(5),
                    isDeleted: row.bool(6),
                    sharing: Zone.Sharing(rawValue: row.int(8)) ?? .nothing
                )
                return SharedZone(user: UserID(row.text(0)), zone: zone, lastChange: row.unsigned(7))
            }
        }

        // MARK: Sweeps

        package func lastChanges(seenBy users: [UserID]) throws(RelayError) -> [OwnerView: UInt64] {
            guard !users.isEmpty else { return [:] }
            return try attempt {
                var found = Dictionary(users.map { (OwnerView(of: $0, seenBy: $0), UInt64(0)) }) { $1 }
                let own = try transaction.query(
                    """
                    SELECT u.name, greatest(
                        (SELECT max(z.last_change) FROM zone z WHERE z.owner = u.id AND NOT z.deleted),
                        (SELECT max(z.ended) FROM zone z WHERE z.owner = u.id AND z.deleted))
                    FROM \(Self.namedUsers)
                    """,
                    .int(home.number),
                    .texts(Set(users).map(\.recordName))
                )
                for row in own {
                    let user = UserID(row.text(0))
                    found[OwnerView(of: user, seenBy: user)] = row.unsigned(1)
                }
                let shared = try sharedZones(of: users, Self.allZones)
                guard !shared.isEmpty else { return found }
                let memberships = Dictionary(grouping: try rows.memberships(of: users, in: nil)) {
                    Place(user: $0.user, zone: $0.zone)
                }
                for shared in shared {
                    let joined = memberships[Place(user: shared.user, zone: shared.zone.number)] ?? []
                    let last =
                        shared.zone.isDeleted
                        ? shared.zone.lastChange
                        : joined.lastChange(of: shared.zone, whole: shared.lastChange)
                    let view = OwnerView(of: shared.zone.id.owner, seenBy: shared.user)
                    found[view] = max(found[view] ?? 0, last)
                }
                return found
            }
        }

        private struct Place: Hashable {
            var user: UserID
            var zone: Int64
        }

        // MARK: References and assets

        package func visitReferences(
            to targets: [String],
            in zone: Zone,
            _ visit: (StoredReference) -> ReferenceVisit
        ) throws(RelayError) {
            try attempt { try rows.visitReferences(to: targets, in: zone.number, visit) }
        }

        package func countDeleteSelf(
            to targets: [String],
            in zone: Zone,
            atMost limit: Int
        ) throws(RelayError) -> [String: Int] {
            try attempt { try rows.countDeleteSelf(to: targets, in: zone.number, atMost: limit) }
        }

        package func assetUses(of hashes: Set<AssetHash>, in zone: Zone) throws(RelayError) -> [AssetHash: Int] {
            try attempt { try rows.assetUses(of: hashes, in: zone.number) }
        }
    }

    extension PostgresSharingRows {
        /// Returns what the shares with these links share.
        func contents(ofLinks links: [String]) throws(PostgresError) -> [String: Share] {
            guard !links.isEmpty else { return [:] }
            let parameters: [PostgresValue] = [.int(transaction.home.number), .texts(Array(Set(links)))]
            var query = PostgresPipeline()
            query.add(
                """
                SELECT s.id, s.guid, s.root, s.public_permission, s.allows_requests FROM \(Self.sharesWithLinks)
                """,
                parameters
            )
            query.add(
                """
                SELECT \(Self.participantColumns) FROM \(Self.sharesWithLinks)
                CROSS JOIN \(LookUp.rows(of: "participant", where: "share = s.id")) p \(Self.participantUsers)
                """,
                parameters
            )
            query.add(
                """
                SELECT r.share, u.name, r.blocked FROM \(Self.sharesWithLinks)
                CROSS JOIN \(LookUp.rows(of: "share_request", where: "share = s.id")) r
                CROSS JOIN \(LookUp.rows(of: "person", where: "id = r.person")) u ORDER BY r.share, r.place
                """,
                parameters
            )
            let answers = try transaction.run(query)
            let people = Self.participants(in: answers[1])
            let requests = Dictionary(grouping: answers[2]) { $0.int(0) }
            var found: [String: Share] = [:]
            for row in answers[0] {
                var share = Share(
                    root: row.optionalText(2),
                    shortGUID: row.text(1),
                    publicPermission: Share.Permission(rawValue: Int(row.int(3))) ?? .none,
                    participants: people[row.int(0)] ?? []
                )
                share.allowsAccessRequests = row.bool(4)
                for request in requests[row.int(0)] ?? [] {
                    let user = UserID(request.text(1))
                    if request.bool(2) { share.blocked.append(user) } else { share.requesters.append(user) }
                }
                found[share.shortGUID] = share
            }
            return found
        }

        private static let participantColumns =
            "p.share, p.id, p.role, p.permission, p.accepted, u.name, p.email, p.phone, p.has_asked, p.added"
        /// The users `u` of participants `p`, in the order of these.
        private static let participantUsers = """
            LEFT JOIN \(LookUp.rows(of: "person", where: "id = p.person")) u ON true ORDER BY p.share, p.place
            """

        private static func participants(in rows: PostgresRows) -> [Int64: [Share.Participant]] {
            var found: [Int64: [Share.Participant]] = [:]
            for row in rows {
                var participant = Share.Participant(
                    id: row.text(1),
                    role: Share.Role(rawValue: Int(row.int(2))) ?? .user,
                    permission: Share.Permission(rawValue: Int(row.int(3))) ?? .none,
                    hasAccepted: row.bool(4),
                    user: row.optionalText(5).map { UserID($0) },
                    contact: row.optionalText(6).map { .email($0) } ?? row.optionalText(7).map { .phone($0) }
                )
                participant.hasRequestedAccess = row.bool(8)
                participant.added = row.optionalInt(9).map { Timestamp(milliseconds: $0) }
                found[row.int(0), default: []].append(participant)
            }
            return found
        }

        /// Returns the participants of these shares, in their order.
        func participants(of shares: [Int64]) throws(PostgresError) -> [Int64: [Share.Participant]] {
            guard !shares.isEmpty else { return [:] }
            let rows = try transaction.query(
                """
                SELECT \(Self.participantColumns) FROM (SELECT * FROM participant WHERE share = ANY($1)) p
                \(Self.participantUsers)
                """,
                .ints(shares)
            )
            return Self.participants(in: rows)
        }
    }
#endif
