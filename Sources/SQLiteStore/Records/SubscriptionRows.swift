import GRDB
import Records
import RelayCore
import StoreKit

/// Converts between subscriptions and rows of the table `subscription`.
enum SubscriptionRow {
    static let columns = "s.id, s.kind, s.zone_owner, s.zone_name, s.notification_info, s.record_type, s.query, s.fires"

    static let ofScope = "SELECT \(columns) FROM subscription s WHERE user = ? AND scope = ? ORDER BY id"
    /// With the scope as the ninth column.
    static let ofUser = "SELECT \(columns), s.scope FROM subscription s WHERE user = ? ORDER BY scope, id"

    /// Reads `columns`.
    static func read(_ row: SQL) -> Subscription {
        let columns = SubscriptionColumns(
            id: row.text(0),
            kind: row.int(1),
            zoneOwner: row.optionalText(2),
            zoneName: row.optionalText(3),
            notificationInfo: row.isNull(4) ? nil : row.blob(4),
            recordType: row.optionalText(5),
            query: row.isNull(6) ? nil : row.blob(6),
            fires: row.int(7)
        )
        return columns.subscription
    }

    /// Returns all query subscriptions of a store, as if they had just been created.
    static func readQueries(_ database: Database) throws -> [CommittedSubscription] {
        let statement = try SQL(
            "SELECT \(columns), u.name, s.scope FROM subscription s JOIN user u ON u.id = s.user WHERE s.kind = 4",
            in: database
        )
        defer { statement.reset() }
        var found: [CommittedSubscription] = []
        while try statement.step() {
            let subscription = read(statement)
            guard let scope = DatabaseScope(rawValue: Int(statement.int(9))) else { continue }
            found.append(
                .init(user: UserID(statement.text(8)), scope: scope, id: subscription.id, subscription: subscription)
            )
        }
        return found
    }
}

extension SQLiteReader {
    func subscriptions(of user: UserID, in scope: DatabaseScope) throws(RelayError) -> [Subscription] {
        try attempt {
            guard let number = try number(of: user) else { return [] }
            let statement = try SQL(SubscriptionRow.ofScope, in: database)
            defer { statement.reset() }
            statement.bind(1, number)
            statement.bind(2, Int64(scope.rawValue))
            var found: [Subscription] = []
            while try statement.step() { found.append(SubscriptionRow.read(statement)) }
            return found
        }
    }

    func subscriptions(of user: UserID) throws(RelayError) -> [(scope: DatabaseScope, subscription: Subscription)] {
        try attempt {
            guard let number = try number(of: user) else { return [] }
            let statement = try SQL(SubscriptionRow.ofUser, in: database)
            defer { statement.reset() }
            statement.bind(1, number)
            var found: [(scope: DatabaseScope, subscription: Subscription)] = []
            while try statement.step() {
                guard let scope = DatabaseScope(rawValue: Int(statement.int(8))) else { continue }
                found.append((scope, SubscriptionRow.read(statement)))
            }
            return found
        }
    }

    var subscriptionsVersion: UInt64 {
        get throws(RelayError) {
            try attempt {
                let statement = try SQL("SELECT value FROM fact WHERE name = 'subscriptions'", in: database)
                defer { statement.reset() }
                return try statement.step() ? statement.unsigned(0) : 0
            }
        }
    }

    func querySubscriptions() throws(RelayError) -> [CommittedSubscription] {
        try attempt { try SubscriptionRow.readQueries(database) }
    }

    /// Returns the record type that a query subscription watches; `nil` if there is no such query subscription.
    fileprivate func watchedType(ofSubscription id: String, user: Int64, scope: DatabaseScope) throws -> String? {
        let statement = try SQL(
            """
            SELECT record_type FROM subscription
            WHERE user = ? AND scope = ? AND id = ? AND kind = \(SubscriptionColumns.Kind.query)
            """,
            in: database
        )
        defer { statement.reset() }
        statement.bind(1, user)
        statement.bind(2, Int64(scope.rawValue))
        statement.bind(3, id)
        return try statement.step() ? statement.optionalText(0) : nil
    }
}

extension SQLiteWriter {
    func put(_ subscriptions: [Subscription], of user: UserID, in scope: DatabaseScope) throws(RelayError) {
        try requireOwner(user)
        try attempt {
            let number = try ensureNumber(of: user)
            for subscription in subscriptions {
                try watch(subscription.query?.recordType, insteadOf: subscription.id, of: number, in: scope)
                try insert(subscription, user: number, scope: scope)
                changedSubscriptions.append(
                    .init(user: user, scope: scope, id: subscription.id, subscription: subscription)
                )
            }
        }
    }

    private func insert(_ subscription: Subscription, user: Int64, scope: DatabaseScope) throws {
        let statement = try SQL(
            """
            INSERT OR REPLACE INTO subscription
                (user, scope, id, kind, zone_owner, zone_name, notification_info, record_type, query, fires)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            in: database
        )
        let columns = SubscriptionColumns(subscription)
        statement.bind(1, user)
        statement.bind(2, Int64(scope.rawValue))
        statement.bind(3, columns.id)
        statement.bind(4, columns.kind)
        statement.bind(5, columns.zoneOwner)
        statement.bind(6, columns.zoneName)
        statement.bind(7, blob: columns.notificationInfo)
        statement.bind(8, columns.recordType)
        statement.bind(9, blob: columns.query)
        statement.bind(10, columns.fires)
        try statement.run()
    }

    func deleteSubscriptions(ids: [String], of user: UserID, in scope: DatabaseScope) throws(RelayError) {
        try requireOwner(user)
        try attempt {
            guard let number = try number(of: user) else { return }
            for id in ids {
                try watch(nil, insteadOf: id, of: number, in: scope)
                let statement = try SQL(
                    "DELETE FROM subscription WHERE user = ? AND scope = ? AND id = ?",
                    in: database
                )
                statement.bind(1, number)
                statement.bind(2, Int64(scope.rawValue))
                statement.bind(3, id)
                try statement.run()
                changedSubscriptions.append(.init(user: user, scope: scope, id: id, subscription: nil))
            }
        }
    }

    /// Writes the next version of the store's subscriptions, and returns it.
    func advanceSubscriptionsVersion() throws -> UInt64 {
        let version = try subscriptionsVersion + 1
        let statement = try SQL("INSERT OR REPLACE INTO fact (name, value) VALUES ('subscriptions', ?)", in: database)
        statement.bind(1, version)
        try statement.run()
        return version
    }

    /// Updates the number of subscriptions per watched type when one is created, replaced or deleted.
    private func watch(_ type: String?, insteadOf id: String, of user: Int64, in scope: DatabaseScope) throws {
        if let old = try watchedType(ofSubscription: id, user: user, scope: scope) {
            let count = cache.watchedTypes[old, default: 1] - 1
            cache.watchedTypes[old] = count > 0 ? count : nil
        }
        if let type { cache.watchedTypes[type, default: 0] += 1 }
    }
}
