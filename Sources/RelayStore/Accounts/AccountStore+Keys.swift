import Crypto
import Foundation
import GRDB
package import Records
package import RelayCore
import Synchronization

extension AccountStore {
    // MARK: Containers

    package func hasContainer(_ container: ContainerID) throws(DirectoryError) -> Bool {
        try read { db in try Self.has(container, db) }
    }

    package func ensureContainer(_ container: ContainerID) throws(DirectoryError) {
        guard !seenContainers.withLock({ $0.contains(container) }) else { return }
        if try !hasContainer(container) {
            let now = time.now().milliseconds
            try write { db in
                try db.execute(
                    sql: "INSERT OR IGNORE INTO containers(name, created) VALUES (?, ?)",
                    arguments: [container.name, now]
                )
            }
        }
        seenContainers.withLock { seen in
            // A limit, since with `--dev` any client may name a container.
            if seen.count > 10_000 { seen = [] }
            seen.insert(container)
        }
    }

    /// Throws `exists` if the name is taken.
    package func addContainer(_ container: ContainerID) throws(DirectoryError) {
        let now = time.now().milliseconds
        try write { db in
            guard try !Self.has(container, db) else { throw DirectoryError.exists("container \(container)") }
            try db.execute(
                sql: "INSERT INTO containers(name, created) VALUES (?, ?)",
                arguments: [container.name, now]
            )
        }
    }

    /// Deletes a container with its tokens, keys, issuers, sessions and devices; the caller removes its files.
    ///
    /// No relay may run, since it caches which containers exist.
    package func removeContainer(_ container: ContainerID) throws(DirectoryError) {
        try revoke { db in
            for table in [
                "push_devices", "sessions", "users", "issuers", "server_keys", "api_tokens", "management_tokens",
                "container_quotas",
            ] {
                try db.execute(sql: "DELETE FROM \(table) WHERE container = ?", arguments: [container.name])
            }
            try db.execute(sql: "DELETE FROM containers WHERE name = ?", arguments: [container.name])
        }
        seenContainers.withLock { _ = $0.remove(container) }
    }

    /// Returns all containers by name, each with the time it was created.
    package func containers() throws(DirectoryError) -> [(container: ContainerID, created: Timestamp)] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT name, created FROM containers ORDER BY name").compactMap { row in
                ContainerID(row["name"]).map { ($0, Timestamp(milliseconds: row["created"])) }
            }
        }
    }

    // MARK: API tokens

    package func apiToken(hash: [UInt8]) throws(DirectoryError) -> APIToken? {
        try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM api_tokens WHERE hash = ?"),
                arguments: [Data(hash)]
            )
            .flatMap(Self.apiToken)
        }
    }

    package func apiToken(id: String) throws(DirectoryError) -> APIToken? {
        try read { db in
            try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM api_tokens WHERE id = ?"), arguments: [id])
                .flatMap(Self.apiToken)
        }
    }

    /// Creates a token and returns its text, which is not stored.
    package func addAPIToken(
        in home: ContainerEnvironment,
        name: String,
        notes: String,
        callbackURL: String?,
        allowedOrigins: [String]
    ) throws(DirectoryError) -> (text: String, token: APIToken) {
        let text = random.hex(byteCount: 32)
        let token = APIToken(
            id: random.hex(byteCount: 8),
            home: home,
            name: name,
            notes: notes,
            callbackURL: callbackURL,
            allowedOrigins: APIToken.canonicalOrigins(allowedOrigins),
            created: time.now()
        )
        try write { db in
            try Self.require(home.container, db)
            try db.execute(
                sql: """
                    INSERT INTO api_tokens(hash, id, container, environment, name, notes, callback, origins, created)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Data(SHA256.hash(data: Array(text.utf8))), token.id, home.container.name, home.environment.rawValue,
                    name, notes, callbackURL, token.allowedOrigins.joined(separator: "\n"), token.created.milliseconds,
                ]
            )
        }
        return (text, token)
    }

    /// Returns all API tokens, including revoked ones, oldest first.
    package func apiTokens() throws(DirectoryError) -> [APIToken] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM api_tokens ORDER BY created, id").compactMap(Self.apiToken)
        }
    }

    /// Revokes a token by its ID or its text.
    ///
    /// Does nothing if it is already revoked.
    package func revokeAPIToken(_ name: String) throws(DirectoryError) {
        let now = time.now().milliseconds
        let hash = Data(SHA256.hash(data: Array(name.utf8)))
        try revoke { db in
            try db.execute(
                sql: "UPDATE api_tokens SET revoked = coalesce(revoked, ?) WHERE id = ? OR hash = ?",
                arguments: [now, name, hash]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("such API token") }
        }
    }

    /// Deletes a token by its ID; for one that was needed for a moment only.
    package func removeAPIToken(_ id: String) throws(DirectoryError) {
        try revoke { db in try db.execute(sql: "DELETE FROM api_tokens WHERE id = ?", arguments: [id]) }
    }

    // MARK: Server keys

    package func serverKey(_ id: String) throws(DirectoryError) -> ServerKey? {
        try read { db in
            try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM server_keys WHERE id = ?"), arguments: [id])
                .flatMap(Self.serverKey)
        }
    }

    /// Adds a P-256 public key in PEM form (SPKI), with a new ID.
    ///
    /// The key gets a user of its own, unless it replaces another key and continues as that key's `user`.
    package func addServerKey(
        in home: ContainerEnvironment,
        name: String,
        publicKeyPEM: String,
        user: UserID? = nil
    ) throws(DirectoryError) -> ServerKey {
        guard let parsed = try? P256.Signing.PublicKey(pemRepresentation: publicKeyPEM) else {
            throw .invalid(
                """
                This is not a P-256 public key in PEM form. Create one with: \
                openssl ec -in eckey.pem -pubout (it begins with -----BEGIN PUBLIC KEY-----).
                """
            )
        }
        let key = ServerKey(
            id: random.hex(byteCount: 32),
            home: home,
            name: name,
            publicKeyPEM: parsed.pemRepresentation,
            user: user ?? UserID("_" + random.hex(byteCount: 16)),
            created: time.now()
        )
        try write { db in
            try Self.require(home.container, db)
            try db.execute(
                sql: """
                    INSERT INTO server_keys(id, container, environment, name, public_key, user_name, created)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    key.id, home.container.name, home.environment.rawValue, name, key.publicKeyPEM, key.user.recordName,
                    key.created.milliseconds,
                ]
            )
        }
        return key
    }

    /// Returns all server keys, including revoked ones, oldest first.
    package func serverKeys() throws(DirectoryError) -> [ServerKey] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM server_keys ORDER BY created, id").compactMap(Self.serverKey)
        }
    }

    /// Revokes a server key; does nothing if it is already revoked.
    package func revokeServerKey(_ id: String) throws(DirectoryError) {
        let now = time.now().milliseconds
        try revoke { db in
            try db.execute(
                sql: "UPDATE server_keys SET revoked = coalesce(revoked, ?) WHERE id = ?",
                arguments: [now, id]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("server key \(id)") }
        }
    }

    // MARK: Rows

    private static func has(_ container: ContainerID, _ db: Database) throws -> Bool {
        try Int.fetchOne(
            db.cachedStatement(sql: "SELECT 1 FROM containers WHERE name = ?"),
            arguments: [container.name]
        ) != nil
    }

    private static func require(_ container: ContainerID, _ db: Database) throws {
        guard try has(container, db) else { throw DirectoryError.missing("container \(container)") }
    }

    static func home(_ row: Row) -> ContainerEnvironment? {
        guard let container = ContainerID(row["container"]), let environment = Environment(rawValue: row["environment"])
        else { return nil }
        return ContainerEnvironment(container, environment)
    }

    static func revoked(_ row: Row) -> Timestamp? {
        (row["revoked"] as Int64?).map { Timestamp(milliseconds: $0) }
    }

    private static func apiToken(_ row: Row) -> APIToken? {
        home(row).map { home in
            APIToken(
                id: row["id"],
                home: home,
                name: row["name"],
                notes: row["notes"],
                callbackURL: row["callback"],
                allowedOrigins: APIToken.canonicalOrigins(
                    (row["origins"] as String).split(separator: "\n").map(String.init)
                ),
                created: Timestamp(milliseconds: row["created"]),
                revoked: revoked(row)
            )
        }
    }

    private static func serverKey(_ row: Row) -> ServerKey? {
        home(row).map { home in
            ServerKey(
                id: row["id"],
                home: home,
                name: row["name"],
                publicKeyPEM: row["public_key"],
                user: UserID(row["user_name"]),
                created: Timestamp(milliseconds: row["created"]),
                revoked: revoked(row)
            )
        }
    }
}
