import GRDB
package import Records
package import RelayCore

/// Storage limits of individual users and containers that differ from the configuration.
extension AccountStore {
    /// Sets how many bytes the user's private database may hold in each container.
    ///
    /// `Int64.max` means no limit, `nil` the configured limit. Takes effect in a running relay within a second.
    package func setPrivateQuota(_ bytes: Int64?, of account: Account.ID) throws(DirectoryError) {
        try write { db in
            if let bytes {
                try db.execute(
                    sql: """
                        INSERT INTO quotas(account, private_bytes) VALUES (?1, ?2)
                        ON CONFLICT (account) DO UPDATE SET private_bytes = ?2
                        """,
                    arguments: [account.number, bytes]
                )
            } else {
                try db.execute(sql: "DELETE FROM quotas WHERE account = ?", arguments: [account.number])
            }
        }
    }

    package func privateQuota(of account: Account.ID) throws(DirectoryError) -> Int64? {
        try read { db in
            try Int64.fetchOne(
                db,
                sql: "SELECT private_bytes FROM quotas WHERE account = ?",
                arguments: [account.number]
            )
        }
    }

    /// Sets the limits of a container and environment; an empty quota removes them.
    ///
    /// Takes effect in a running relay within a second.
    ///
    /// - Throws: `missing` if there is no such container.
    package func setQuota(_ quota: ContainerQuota, of home: ContainerEnvironment) throws(DirectoryError) {
        guard try hasContainer(home.container) else { throw .missing("container \(home.container)") }
        let place: StatementArguments = [home.container.name, home.environment.rawValue]
        try write { db in
            try db.execute(
                sql: "DELETE FROM container_quotas WHERE container = ? AND environment = ?",
                arguments: place
            )
            guard !quota.isEmpty else { return }
            try db.execute(
                sql: "INSERT INTO container_quotas VALUES (?, ?, ?, ?, ?, ?)",
                arguments: place + [
                    quota.privateBytes, quota.publicRecords, quota.publicAssets, quota.publicTransfer,
                ]
            )
        }
    }

    package func quota(of home: ContainerEnvironment) throws(DirectoryError) -> ContainerQuota {
        try read { db in
            let row = try Row.fetchOne(
                db,
                sql: "SELECT * FROM container_quotas WHERE container = ? AND environment = ?",
                arguments: [home.container.name, home.environment.rawValue]
            )
            return row.map(Self.quota) ?? ContainerQuota()
        }
    }

    /// Returns all of these limits; the cost grows with the number of such users and containers.
    package func ownQuotas() throws(DirectoryError) -> OwnQuotas {
        try read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT u.container, u.environment, u.name, q.private_bytes
                    FROM quotas q CROSS JOIN users u ON u.account = q.account
                    """
            )
            var quotas = OwnQuotas()
            for row in rows {
                guard let home = Self.home(row) else { continue }
                quotas.users[home, default: [:]][UserID(row["name"])] = row["private_bytes"]
            }
            for row in try Row.fetchAll(db, sql: "SELECT * FROM container_quotas") {
                if let home = Self.home(row) { quotas.containers[home] = Self.quota(row) }
            }
            return quotas
        }
    }

    private static func quota(_ row: Row) -> ContainerQuota {
        ContainerQuota(
            privateBytes: row["private_bytes"],
            publicRecords: row["public_records"],
            publicAssets: row["public_assets"],
            publicTransfer: row["public_transfer"]
        )
    }
}
