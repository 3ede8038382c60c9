#if Postgres
    import Foundation
    package import Records
    package import RelayCore
    package import RelaySystem
    import StoreKit

    /// The accounts, sessions and keys of a cluster, which all its relays and commands use at the same time.
    ///
    /// Stores no secret that a thief of the database could use: tokens only as hashes, passwords only as scrypt hashes.
    /// Each change is one transaction, which the server has on its disk, and on that of a synchronous standby, when the
    /// call returns.
    ///
    /// `generation` is a number in the database, which each revocation increases in its own transaction. A relay reads
    /// it several times a second, and refuses requests when it could not do so for 30 seconds (`Authenticator`): a
    /// revocation by any other relay or command takes effect in time. Relays also tell each other by their notice bus.
    package final class PostgresAccounts: AccountDirectory {
        let pool: PostgresPool
        let time: TimeSource
        let credentials: CredentialSource
        private let key: [UInt8]
        private let listeners = RevocationListeners()
        private let auditEntryOfNextWrite = PendingAuditEntry()
        private let seenContainers = SeenContainers()
        package let attempts: (any Attempts)?

        /// Draws the relay's key if the database has none; the connections must be to one with the tables of
        /// `PostgresLayout`.
        package init(
            _ pool: PostgresPool,
            time: TimeSource = .system,
            random: RandomSource = .system,
            cost: ScryptCost = .usual
        ) throws(DirectoryError) {
            self.pool = pool
            self.time = time
            credentials = CredentialSource(time: time, random: random, cost: cost)
            attempts = PostgresAttempts(pool, time)
            let select = "SELECT token_key FROM relay"
            key = try Self.wrapping {
                try pool.use(.writing) { connection throws(PostgresError) in
                    if let known = try connection.query(select).first?.bytes(0) { return known }
                    try connection.query(
                        "INSERT INTO relay (id, token_key) VALUES (1, $1) ON CONFLICT DO NOTHING",
                        .bytes(random.bytes(32))
                    )
                    guard let key = try connection.query(select).first?.bytes(0) else {
                        throw PostgresError(.damaged, "The table relay is empty.")
                    }
                    return key
                }
            }
        }

        package func generation() throws(DirectoryError) -> UInt64 {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT revocations FROM relay").first?.unsigned(0) ?? 0
            }
        }

        package func relayKey() throws(DirectoryError) -> [UInt8] { key }

        package func onRevocation(_ body: @escaping @Sendable (UInt64) -> Void) { listeners.add(body) }

        // MARK: Transactions

        /// Runs `body` with a connection that sees each statement's newest state.
        ///
        /// Runs it a second time if the connection turns out to be broken, as all are after a failover.
        func read<Value>(
            _ body: (PostgresConnection) throws(PostgresError) -> Value
        ) throws(DirectoryError) -> Value {
            try Self.wrapping {
                do throws(PostgresError) {
                    return try pool.use(.reading, body)
                } catch {
                    guard error.code == .connectionLost else { throw error }
                    return try pool.use(.reading, body)
                }
            }
        }

        /// Runs `body` in a transaction, which also adds the pending entry to the audit log.
        ///
        /// Runs it a second time if nothing was committed because the connection broke or another transaction was in the
        /// way.
        @discardableResult
        func write<Value>(_ body: (PostgresConnection) throws -> Value) throws(DirectoryError) -> Value {
            let entry = auditEntryOfNextWrite.take()
            return try Self.wrapping {
                do {
                    return try attempt(entry, body)
                } catch let error as PostgresError where [.connectionLost, .conflict].contains(error.code) {
                    return try attempt(entry, body)
                }
            }
        }

        private func attempt<Value>(_ entry: AuditEntry?, _ body: (PostgresConnection) throws -> Value) throws -> Value
        {
            let connection = try pool.take(.writing)
            defer { pool.put(back: connection, .writing) }
            _ = try connection.begin(PostgresPipeline())
            let value = try body(connection)
            if let entry { try Self.insert(entry, connection) }
            try connection.commit()
            return value
        }

        /// Runs a write that removes or changes access, after which every relay drops its cached credentials.
        @discardableResult
        func revoke<Value>(_ body: (PostgresConnection) throws -> Value) throws(DirectoryError) -> Value {
            let (value, generation) = try write { connection in
                let value = try body(connection)
                let sql = "UPDATE relay SET revocations = revocations + 1 RETURNING revocations"
                return (value, try connection.query(sql).first?.unsigned(0) ?? 0)
            }
            listeners.call(generation)
            return value
        }

        /// Runs `body`, and converts PostgreSQL's errors to `DirectoryError`.
        static func wrapping<Value>(_ body: () throws -> Value) throws(DirectoryError) -> Value {
            do {
                return try body()
            } catch let error as DirectoryError {
                throw error
            } catch let error as PostgresError {
                throw DirectoryError(error)
            } catch {
                throw .unavailable("\(error)")
            }
        }

        /// Adds an entry to the audit log, and sometimes removes the oldest ones.
        static func insert(_ entry: AuditEntry, _ connection: PostgresConnection) throws(PostgresError) {
            let number = try connection.query(
                """
                INSERT INTO audit (at, actor, action, container, environment, subject, detail)
                VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id
                """,
                .int(entry.at.milliseconds),
                .text(entry.actor),
                .text(entry.action),
                .text(entry.home?.container.name),
                .text(entry.home?.environment.rawValue),
                .text(entry.subject),
                .text(entry.detail)
            ).first?.int(0)
            guard let number, number % DirectoryRules.auditTrimInterval == 0 else { return }
            try connection.query(
                "DELETE FROM audit WHERE id <= $1",
                .int(number - DirectoryRules.keptAuditEntries)
            )
        }

        package func note(_ entry: AuditEntry) throws(DirectoryError) {
            try write { connection in try Self.insert(entry, connection) }
        }

        package func withAuditEntry<Value>(_ entry: AuditEntry, _ body: () throws -> Value) throws -> Value {
            try auditEntryOfNextWrite.run(entry, body) { try note($0) }
        }
    }

    extension DirectoryError {
        init(_ error: PostgresError) {
            switch error.code {
            case .damaged: self = .damaged(error.detail)
            case .duplicate: self = .exists("entry of this name")
            case .outcomeUnknown:
                self = .unavailable("\(error.detail) The change may have been stored: look before you repeat it.")
            // A row refers to one that another relay has removed meanwhile.
            case .failed where error.sqlState == "23503": self = .missing("entry that this one belongs to")
            default: self = .unavailable("\(error)")
            }
        }
    }

    // MARK: Containers

    extension PostgresAccounts {
        package func hasContainer(_ container: ContainerID) throws(DirectoryError) -> Bool {
            try read { connection throws(PostgresError) in try Self.has(container, connection) }
        }

        package func ensureContainer(_ container: ContainerID) throws(DirectoryError) {
            guard !seenContainers.contains(container.name) else { return }
            if try !hasContainer(container) {
                try write { connection in _ = try insert(container, connection) }
            }
            seenContainers.insert(container.name)
        }

        package func addContainer(_ container: ContainerID) throws(DirectoryError) {
            try write { connection in
                guard try insert(container, connection) else { throw DirectoryError.exists("container \(container)") }
            }
        }

        /// - Returns: whether there was none of this name.
        private func insert(_ container: ContainerID, _ connection: PostgresConnection) throws(PostgresError) -> Bool {
            try connection.query(
                "INSERT INTO container (name, created) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                .text(container.name),
                .int(time.now().milliseconds)
            ).changed > 0
        }

        package func removeContainer(_ container: ContainerID) throws(DirectoryError) {
            try revoke { connection in try Self.remove(container, connection) }
            forgetSeen(container)
        }

        /// Removes a container's entries in the transaction that is open.
        static func remove(_ container: ContainerID, _ connection: PostgresConnection) throws(PostgresError) {
            var removal = PostgresPipeline()
            for table in [
                "push_device", "session", "container_user", "issuer", "server_key", "api_token", "management_token",
                "container_quota",
            ] {
                removal.add("DELETE FROM \(table) WHERE container = $1", .text(container.name))
            }
            removal.add("DELETE FROM container WHERE name = $1", .text(container.name))
            try connection.run(removal)
        }

        package func forgetSeen(_ container: ContainerID) { seenContainers.remove(container.name) }

        package func containers() throws(DirectoryError) -> [(container: ContainerID, created: Timestamp)] {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT name, created FROM container ORDER BY name").compactMap { row in
                    ContainerID(row.text(0)).map { ($0, row.timestamp(1)) }
                }
            }
        }

        package func title(of container: ContainerID) throws(DirectoryError) -> String? {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT title FROM container WHERE name = $1", .text(container.name))
                    .first?.optionalText(0)
            }
        }

        package func setTitle(_ title: String?, of container: ContainerID) throws(DirectoryError) {
            let title = try DirectoryRules.title(title)
            try write { connection in
                let changed = try connection.query(
                    "UPDATE container SET title = $1 WHERE name = $2",
                    .text(title),
                    .text(container.name)
                ).changed
                guard changed > 0 else { throw DirectoryError.missing("container \(container)") }
            }
        }

        // MARK: Pieces

        private static func has(
            _ container: ContainerID,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> Bool {
            try !connection.query("SELECT 1 FROM container WHERE name = $1", .text(container.name)).isEmpty
        }

        /// Throws `missing` without the container, which no other transaction can remove until this one ends.
        static func require(_ container: ContainerID, _ connection: PostgresConnection) throws {
            let sql = "SELECT 1 FROM container WHERE name = $1 FOR KEY SHARE"
            guard try !connection.query(sql, .text(container.name)).isEmpty else {
                throw DirectoryError.missing("container \(container)")
            }
        }
    }

    extension PostgresRow {
        func timestamp(_ column: Int32) -> Timestamp { Timestamp(milliseconds: int(column)) }

        func optionalTimestamp(_ column: Int32) -> Timestamp? {
            optionalInt(column).map { Timestamp(milliseconds: $0) }
        }

        /// Reads two columns, a container and an environment.
        func home(_ column: Int32) -> ContainerEnvironment? {
            guard let container = ContainerID(text(column)), let environment = Environment(rawValue: text(column + 1))
            else { return nil }
            return ContainerEnvironment(container, environment)
        }

        /// Reads five columns: salt, hash, rounds, block size and parallelism.
        func passwordHash(_ column: Int32) -> PasswordHash? {
            guard let salt = optionalBytes(column), let hash = optionalBytes(column + 1) else { return nil }
            let cost = ScryptCost(
                rounds: Int(int(column + 2)),
                blockSize: Int(int(column + 3)),
                parallelism: Int(int(column + 4))
            )
            return PasswordHash(cost: cost, salt: salt, hash: hash)
        }
    }

    extension PasswordHash {
        /// The values of the five columns.
        var values: [PostgresValue] {
            [
                .bytes(salt), .bytes(hash), .int(Int64(cost.rounds)), .int(Int64(cost.blockSize)),
                .int(Int64(cost.parallelism)),
            ]
        }
    }

    extension PostgresConnection {
        /// Runs one statement with a list of values.
        @discardableResult
        func query(_ sql: String, _ values: [PostgresValue]) throws(PostgresError) -> PostgresRows {
            var pipeline = PostgresPipeline()
            pipeline.add(sql, values)
            return try run(pipeline)[0]
        }
    }

    extension PostgresValue {
        /// A text that a request names and no row may have: PostgreSQL refuses a zero byte in any text.
        static func looked(_ text: String) -> PostgresValue {
            text.utf8.contains(0) ? .text(nil) : .text(text)
        }
    }
#endif
