import Crypto
import Foundation
import GRDB
package import Records
package import RelayCore

/// Management tokens, of which only hashes are stored.
extension AccountStore {
    /// Creates a token and returns its text, which is not stored.
    package func addManagementToken(
        for container: ContainerID,
        name: String,
        expires: Timestamp?
    ) throws(DirectoryError) -> (text: String, token: ManagementToken) {
        let text = random.hex(byteCount: 32)
        let token = ManagementToken(
            id: random.hex(byteCount: 8),
            container: container,
            name: name,
            created: time.now(),
            expires: expires
        )
        guard try hasContainer(container) else { throw .missing("container \(container)") }
        try write { db in
            try db.execute(
                sql: """
                    INSERT INTO management_tokens(hash, id, container, name, created, expires) VALUES (?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Self.managementHash(text), token.id, container.name, name, token.created.milliseconds,
                    expires?.milliseconds,
                ]
            )
        }
        return (text, token)
    }

    /// Returns all management tokens, including expired and revoked ones, oldest first.
    package func managementTokens() throws(DirectoryError) -> [ManagementToken] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM management_tokens ORDER BY created, id")
                .compactMap(Self.managementToken)
        }
    }

    /// Returns the token with this text if it is valid; records its use once a minute.
    package func managementToken(_ text: String) throws(DirectoryError) -> ManagementToken? {
        let hash = Self.managementHash(text)
        let found = try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM management_tokens WHERE hash = ?"),
                arguments: [hash]
            ).flatMap(Self.managementToken)
        }
        let now = time.now()
        guard let found, found.isGood(at: now) else { return nil }
        if found.used.map({ now > $0 + .seconds(60) }) ?? true {
            try write { db in
                try db.execute(
                    sql: "UPDATE management_tokens SET used = ? WHERE hash = ?",
                    arguments: [now.milliseconds, hash]
                )
            }
        }
        return found
    }

    /// Revokes a token by its ID; does nothing if it is already revoked.
    package func revokeManagementToken(_ id: String) throws(DirectoryError) {
        let now = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "UPDATE management_tokens SET revoked = coalesce(revoked, ?) WHERE id = ?",
                arguments: [now, id]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("management token \(id)") }
        }
    }

    private static func managementHash(_ text: String) -> Data { Data(SHA256.hash(data: Array(text.utf8))) }

    private static func managementToken(_ row: Row) -> ManagementToken? {
        func time(_ column: String) -> Timestamp? {
            (row[column] as Int64?).map { Timestamp(milliseconds: $0) }
        }
        guard let container = ContainerID(row["container"]), let created = time("created") else { return nil }
        return ManagementToken(
            id: row["id"],
            container: container,
            name: row["name"],
            created: created,
            expires: time("expires"),
            revoked: time("revoked"),
            used: time("used")
        )
    }
}
