#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    extension SubscriptionColumns {
        static let names =
            "s.id, s.kind, s.zone_owner, s.zone_name, s.notification_info, s.record_type, s.query, s.fires"
        static let count: Int32 = 8

        /// Reads the columns of `names`.
        init(_ row: PostgresRow) {
            self.init(
                id: row.text(0),
                kind: row.int(1),
                zoneOwner: row.optionalText(2),
                zoneName: row.optionalText(3),
                notificationInfo: row.optionalBytes(4),
                recordType: row.optionalText(5),
                query: row.optionalBytes(6),
                fires: row.int(7)
            )
        }
    }

    extension PostgresReader {
        package func subscriptions(of user: UserID, in scope: DatabaseScope) throws(RelayError) -> [Subscription] {
            try attempt {
                guard let number = try transaction.number(of: user) else { return [] }
                let rows = try transaction.query(
                    "SELECT \(SubscriptionColumns.names) FROM subscription s WHERE person = $1 AND scope = $2 ORDER BY id",
                    .int(number),
                    .int(Int64(scope.rawValue))
                )
                return rows.map { SubscriptionColumns($0).subscription }
            }
        }

        package func subscriptions(
            of user: UserID
        ) throws(RelayError) -> [(scope: DatabaseScope, subscription: Subscription)] {
            try attempt {
                guard let number = try transaction.number(of: user) else { return [] }
                let rows = try transaction.query(
                    "SELECT \(SubscriptionColumns.names), s.scope FROM subscription s WHERE person = $1 ORDER BY scope, id",
                    .int(number)
                )
                return rows.compactMap { row in
                    DatabaseScope(rawValue: Int(row.int(SubscriptionColumns.count))).map {
                        ($0, SubscriptionColumns(row).subscription)
                    }
                }
            }
        }

        package func querySubscriptions() throws(RelayError) -> [CommittedSubscription] {
            try attempt { try Self.querySubscriptions(transaction) }
        }

        static func querySubscriptions(_ transaction: PostgresTransaction) throws(PostgresError)
            -> [CommittedSubscription]
        {
            let rows = try transaction.query(
                """
                SELECT \(SubscriptionColumns.names), s.scope, p.name FROM subscription s JOIN person p ON p.id = s.person
                WHERE s.home = $1 AND s.kind = 4
                """,
                .int(transaction.home.number)
            )
            return rows.compactMap { row in
                guard let scope = DatabaseScope(rawValue: Int(row.int(SubscriptionColumns.count))) else { return nil }
                let subscription = SubscriptionColumns(row).subscription
                return CommittedSubscription(
                    user: UserID(row.text(SubscriptionColumns.count + 1)),
                    scope: scope,
                    id: subscription.id,
                    subscription: subscription
                )
            }
        }
    }
#endif
