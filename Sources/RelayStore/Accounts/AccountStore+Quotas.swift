import GRDB
package import Records
package import RelayCore

/// Bounds of single users, where these are others than everybody's.
extension AccountStore {
    /// Bytes that the user's private database may hold in each container; `Int64.max`: any number; `nil`: as for everybody.
    ///
    /// A running relay goes by it within a second.
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

    /// All of them, by the names that containers know their users by.
    ///
    /// Costs as much as there are such users.
    package func privateQuotas() throws(DirectoryError) -> [ContainerEnvironment: [UserID: Int64]] {
        try read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT u.container, u.environment, u.name, q.private_bytes
                    FROM quotas q CROSS JOIN users u ON u.account = q.account
                    """
            )
            var quotas: [ContainerEnvironment: [UserID: Int64]] = [:]
            for row in rows {
                guard let home = Self.home(row) else { continue }
                quotas[home, default: [:]][UserID(row["name"])] = row["private_bytes"]
            }
            return quotas
        }
    }
}
