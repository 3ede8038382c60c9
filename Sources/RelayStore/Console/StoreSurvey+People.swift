package import Records
import RelayCore

/// Shares, subscriptions and indexes.
extension StoreSurvey {
    package struct ShareRow: Sendable {
        /// The row ID, which is valid for the life of the store.
        package var id: Int64
        package var zone: ZoneID
        /// The share record's name; for a share of a hierarchy the owner's app chose it, and it is not shown to
        /// operators.
        package var recordName: String
        package var isZoneWide: Bool
        package var publicPermission: Share.Permission
        package var participants: [Share.Participant]
    }

    package struct SubscriptionRowOfUser: Sendable {
        package var user: UserID
        package var scope: DatabaseScope
        package var subscription: Subscription
    }

    package struct IndexRow: Sendable {
        package var recordType: String
        /// The name of the field, or the index's other target.
        package var target: String
        package var isComplete: Bool
        /// The number of entries, counted up to a bound.
        package var entries: Int
    }

    /// Returns shares, newest first; only the one with `id` if it is given.
    package func shares(limit: Int, id: Int64? = nil) throws(RelayError) -> [ShareRow] {
        try reader.attempt {
            var found: [(Int64, ShareRow)] = []
            try rows(
                """
                SELECT s.id, u.name, z.name, s.root IS NULL, s.public_permission, s.name FROM share s
                JOIN zone z ON z.id = s.zone JOIN user u ON u.id = z.owner
                WHERE z.deleted = 0 AND (?2 = 0 OR s.id = ?2) ORDER BY s.id DESC LIMIT ?1
                """,
                {
                    $0.bind(1, Int64(limit))
                    $0.bind(2, id ?? 0)
                }
            ) { row in
                let share = ShareRow(
                    id: row.int(0),
                    zone: ZoneID(row.text(2), owner: UserID(row.text(1))),
                    recordName: row.text(5),
                    isZoneWide: row.bool(3),
                    publicPermission: Share.Permission(rawValue: Int(row.int(4))) ?? .none,
                    participants: []
                )
                found.append((row.int(0), share))
            }
            return try found.map { number, share in
                var share = share
                share.participants = try reader.participants(of: number)
                return share
            }
        }
    }

    package func subscriptions(limit: Int) throws(RelayError) -> [SubscriptionRowOfUser] {
        try reader.attempt {
            var found: [SubscriptionRowOfUser] = []
            try rows(
                """
                SELECT \(SubscriptionRow.columns), u.name, s.scope FROM subscription s JOIN user u ON u.id = s.user
                ORDER BY u.name, s.scope, s.id LIMIT ?
                """,
                { $0.bind(1, Int64(limit)) }
            ) { row in
                guard let scope = DatabaseScope(rawValue: Int(row.int(9))) else { return }
                found.append(
                    .init(user: UserID(row.text(8)), scope: scope, subscription: SubscriptionRow.read(row))
                )
            }
            return found
        }
    }

    /// Returns the indexes that queries have created.
    package func indexes(upTo bound: Int) throws(RelayError) -> [IndexRow] {
        try reader.attempt {
            var found: [(Int64, IndexRow)] = []
            try rows(
                """
                SELECT i.id, t.name, i.target, i.built_to >= i.goal FROM field_index i
                JOIN record_type t ON t.id = i.type WHERE i.dropped = 0 ORDER BY t.name, i.target
                """
            ) { row in
                let index = IndexRow(
                    recordType: row.text(1),
                    target: row.text(2),
                    isComplete: row.bool(3),
                    entries: 0
                )
                found.append((row.int(0), index))
            }
            return try found.map { number, index in
                var index = index
                try rows(
                    "SELECT count(*) FROM (SELECT 1 FROM field_value WHERE field = ?1 LIMIT ?2)",
                    { statement in
                        statement.bind(1, number)
                        statement.bind(2, Int64(bound + 1))
                    },
                    { index.entries = Int($0.int(0)) }
                )
                return index
            }
        }
    }
}
