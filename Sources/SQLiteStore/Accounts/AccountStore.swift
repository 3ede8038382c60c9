import Foundation
package import GRDB
package import Records
package import RelayCore
package import RelaySystem
import StoreKit
import Synchronization

/// Accounts, sessions and keys, in `relay.sqlite`, which the relay and commands may have open at the same time.
///
/// Stores no secret that a thief of the file could use: tokens only as hashes, passwords only as scrypt hashes. One
/// connection writes, each change in a transaction of its own that is on disk when the call returns (WAL,
/// `synchronous=FULL`). Another connection reads, so that a flush does not delay lookups.
package final class AccountStore: AccountDirectory {
    package let writer: DatabaseQueue
    let reader: DatabaseQueue
    let time: TimeSource
    let random: RandomSource
    let credentials: CredentialSource
    private let key: [UInt8]
    private let onLostWrite: @Sendable () -> Void
    private let isStopped = Mutex(false)
    private let listeners = RevocationListeners()
    let auditEntryOfNextWrite = PendingAuditEntry()
    let seenContainers = SeenContainers()

    /// Opens the file in `folder`, creating both if they are missing, accessible to the owner only.
    ///
    /// `onLostWrite`, which a relay passes, is called once if the disk fails to keep a change. No other change is
    /// accepted then, and the process should exit and start again. The log that such a process left is written to disk
    /// first.
    package convenience init(
        folder: String,
        time: TimeSource = .system,
        random: RandomSource = .system,
        cost: ScryptCost = .usual,
        disk: DiskCalls = .system,
        onLostWrite: (@Sendable () -> Void)? = nil
    ) throws(DirectoryError) {
        let path = folder + "/relay.sqlite"
        guard !Self.isLost(in: folder) else {
            throw .unavailable(
                "relay.sqlite is missing or empty beside the containers: without it no user can reach their data. Put it back, or restore a backup: zonecast backup restore latest --data \(folder.shellWord)"
            )
        }
        let (writer, reader) = try Self.wrapping {
            try WALCheck.requireIntact(path)
            try Self.makePrivate(folder: folder, file: path)
            let writer = try Self.openWriter(path, in: folder)
            if onLostWrite != nil { try StoreConnections.flushLog(of: writer, path, by: disk) }
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(10)
            let reader = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
            return (writer, reader)
        }
        try self.init(
            writer: writer,
            reader: reader,
            time: time,
            random: random,
            cost: cost,
            onLostWrite: onLostWrite ?? {}
        )
    }

    /// Returns whether a folder has stores but no `relay.sqlite`, or an empty one.
    package static func isLost(in folder: String) -> Bool {
        guard WALCheck.size(of: "\(folder)/relay.sqlite") ?? 0 == 0 else { return false }
        // A folder that cannot be read may contain stores.
        return (try? BackupFiles.stores(in: folder).isEmpty) != true
    }

    /// Creates a directory in memory, for tests.
    package convenience init(
        inMemory: Void,
        time: TimeSource = .system,
        random: RandomSource = .system,
        cost: ScryptCost = ScryptCost(rounds: 16, blockSize: 8, parallelism: 1)
    ) throws(DirectoryError) {
        let queue = try Self.wrapping {
            let queue = try DatabaseQueue()
            // Copied page by page, since tests open thousands.
            try AccountSchema.blank.get().backup(to: queue)
            try queue.inDatabase { try AccountSchema.begin($0, key: random.bytes(32)) }
            return queue
        }
        try self.init(writer: queue, reader: queue, time: time, random: random, cost: cost)
    }

    private init(
        writer: DatabaseQueue,
        reader: DatabaseQueue,
        time: TimeSource,
        random: RandomSource,
        cost: ScryptCost,
        onLostWrite: @escaping @Sendable () -> Void = {}
    ) throws(DirectoryError) {
        self.onLostWrite = onLostWrite
        self.writer = writer
        self.reader = reader
        self.time = time
        self.random = random
        credentials = CredentialSource(time: time, random: random, cost: cost)
        key = try Self.wrapping { try AccountSchema.prepare(writer, freshKey: random.bytes(32)) }
    }

    package func generation() throws(DirectoryError) -> UInt64 {
        // A single statement needs no transaction, and this one runs every second.
        try Self.wrapping {
            try reader.inDatabase { db in
                UInt64(try Int64.fetchOne(db.cachedStatement(sql: "SELECT revocations FROM relay")) ?? 0)
            }
        }
    }

    package func relayKey() throws(DirectoryError) -> [UInt8] { key }

    /// Returns a pragma of the writing connection: `journal_mode`, `synchronous` (2 is FULL) or `integrity_check`.
    package func pragma(_ name: String) throws(DirectoryError) -> String? {
        try Self.wrapping {
            try writer.writeWithoutTransaction { db in try String.fetchOne(db, sql: "PRAGMA \(name)") }
        }
    }

    func read<Value>(_ body: (Database) throws -> Value) throws(DirectoryError) -> Value {
        // In memory there is one connection, and no other process. GRDB's `read` would make it read-only meanwhile,
        // which makes SQLite prepare every statement again.
        try Self.wrapping { try reader === writer ? reader.inDatabase(body) : reader.read(body) }
    }

    func write<Value>(_ body: (Database) throws -> Value) throws(DirectoryError) -> Value {
        try Self.wrapping {
            guard !isStopped.withLock({ $0 }) else { throw StoreFailure.stopped }
            let entry = auditEntryOfNextWrite.take()
            do {
                return try transaction { db in
                    let value = try body(db)
                    if let entry { try Self.insert(entry, db) }
                    return value
                }
            } catch  where StoreFailure.isLostWrite(error) {
                // A retry proves nothing: the kernel may have dropped the pages that it could not write.
                if !isStopped.withLock({ stopped in
                    defer { stopped = true }
                    return stopped
                }) {
                    onLostWrite()
                }
                throw error
            }
        }
    }

    private func transaction<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try writer.writeWithoutTransaction { db in
            var value: Value?
            try db.inTransaction(.immediate) {
                value = try body(db)
                return .commit
            }
            guard let value else { throw DirectoryError.unavailable("the transaction returned no value") }
            return value
        }
    }

    /// Runs a write that removes or changes access, after which every relay drops its cached credentials.
    @discardableResult
    func revoke<Value>(_ body: (Database) throws -> Value) throws(DirectoryError) -> Value {
        let (value, generation) = try write { db in
            let value = try body(db)
            let sql = "UPDATE relay SET revocations = revocations + 1 RETURNING revocations"
            return (value, try Int64.fetchOne(db, sql: sql) ?? 0)
        }
        listeners.call(UInt64(generation))
        return value
    }

    package func onRevocation(_ body: @escaping @Sendable (UInt64) -> Void) {
        listeners.add(body)
    }

    /// Runs `body`, and converts SQLite's errors to `DirectoryError`.
    static func wrapping<Value>(_ body: () throws -> Value) throws(DirectoryError) -> Value {
        do {
            return try body()
        } catch let error as DirectoryError {
            throw error
        } catch {
            throw DirectoryError(error, in: "relay.sqlite")
        }
    }

    private static func openWriter(_ path: String, in folder: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(10)
        configuration.prepareDatabase { CheckedVFS.reserveChecksumSpace($0) }
        var attempts = 0
        while true {
            do {
                let queue = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
                // Before anything in the file changes.
                try AccountSchema.requireOwnFile(queue, in: folder)
                try queue.enableDurableLog()
                return queue
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY && attempts < 100 {
                // Turning on WAL needs exclusive access and does not wait for it; two commands may start at the same
                // time.
                attempts += 1
                usleep(20_000)
            }
        }
    }

    /// SQLite gives its files beside the main file the same permissions.
    private static func makePrivate(folder: String, file: String) throws {
        if !FileManager.default.fileExists(atPath: folder) {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        }
        // Only a file that does not exist: closing any descriptor of a file releases all locks that this process has on
        // it, and a running relay that inspects its own folder would lose SQLite's.
        let descriptor = open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            if errno == EEXIST { return }
            throw DirectoryError.unavailable("\(file) cannot be opened: \(String(cString: strerror(errno)))")
        }
        close(descriptor)
    }
}

extension AccountStore {
    // MARK: Containers

    package func hasContainer(_ container: ContainerID) throws(DirectoryError) -> Bool {
        try read { db in try Self.has(container, db) }
    }

    package func ensureContainer(_ container: ContainerID) throws(DirectoryError) {
        guard !seenContainers.contains(container.name) else { return }
        if try !hasContainer(container) {
            let now = time.now().milliseconds
            try write { db in
                try db.execute(
                    sql: "INSERT OR IGNORE INTO containers(name, created) VALUES (?, ?)",
                    arguments: [container.name, now]
                )
            }
        }
        seenContainers.insert(container.name)
    }

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
        forgetSeen(container)
    }

    package func forgetSeen(_ container: ContainerID) { seenContainers.remove(container.name) }

    package func containers() throws(DirectoryError) -> [(container: ContainerID, created: Timestamp)] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT name, created FROM containers ORDER BY name").compactMap { row in
                ContainerID(row["name"]).map { ($0, Timestamp(milliseconds: row["created"])) }
            }
        }
    }

    package func title(of container: ContainerID) throws(DirectoryError) -> String? {
        try read { db in
            try String.fetchOne(db, sql: "SELECT title FROM containers WHERE name = ?", arguments: [container.name])
        }
    }

    package func setTitle(_ title: String?, of container: ContainerID) throws(DirectoryError) {
        let title = try DirectoryRules.title(title)
        try write { db in
            try db.execute(
                sql: "UPDATE containers SET title = ? WHERE name = ?",
                arguments: [title, container.name]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("container \(container)") }
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

    package func addAPIToken(
        in home: ContainerEnvironment,
        name: String,
        notes: String,
        callbackURL: String?,
        allowedOrigins: [String]
    ) throws(DirectoryError) -> (text: String, token: APIToken) {
        let (text, token) = credentials.apiToken(
            in: home,
            name: name,
            notes: notes,
            callbackURL: callbackURL,
            allowedOrigins: allowedOrigins
        )
        try write { db in
            try Self.require(home.container, db)
            try db.execute(
                sql: """
                    INSERT INTO api_tokens(hash, id, container, environment, name, notes, callback, origins, created)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Self.hash(text), token.id, home.container.name, home.environment.rawValue,
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

    package func revokeAPIToken(_ name: String) throws(DirectoryError) {
        let now = time.now().milliseconds
        let hash = Self.hash(name)
        try revoke { db in
            try db.execute(
                sql: "UPDATE api_tokens SET revoked = coalesce(revoked, ?) WHERE id = ? OR hash = ?",
                arguments: [now, name, hash]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("such API token") }
        }
    }

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

    package func addServerKey(
        in home: ContainerEnvironment,
        name: String,
        publicKeyPEM: String,
        user: UserID?
    ) throws(DirectoryError) -> ServerKey {
        let key = try credentials.serverKey(in: home, name: name, publicKeyPEM: publicKeyPEM, user: user)
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

    package func serverKeys() throws(DirectoryError) -> [ServerKey] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM server_keys ORDER BY created, id").compactMap(Self.serverKey)
        }
    }

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

    static func hash(_ text: String) -> Data { Data(CredentialSource.fingerprint(of: text)) }

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

/// Management tokens, of which only hashes are stored.
extension AccountStore {
    package func addManagementToken(
        for container: ContainerID,
        name: String,
        expires: Timestamp?
    ) throws(DirectoryError) -> (text: String, token: ManagementToken) {
        let (text, token) = credentials.managementToken(for: container, name: name, expires: expires)
        guard try hasContainer(container) else { throw .missing("container \(container)") }
        try write { db in
            try db.execute(
                sql: """
                    INSERT INTO management_tokens(hash, id, container, name, created, expires) VALUES (?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Self.hash(text), token.id, container.name, name, token.created.milliseconds,
                    expires?.milliseconds,
                ]
            )
        }
        return (text, token)
    }

    package func managementTokens() throws(DirectoryError) -> [ManagementToken] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM management_tokens ORDER BY created, id")
                .compactMap(Self.managementToken)
        }
    }

    package func managementToken(_ text: String) throws(DirectoryError) -> ManagementToken? {
        let hash = Self.hash(text)
        let found = try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM management_tokens WHERE hash = ?"),
                arguments: [hash]
            ).flatMap(Self.managementToken)
        }
        let now = time.now()
        guard let found, found.isGood(at: now) else { return nil }
        if found.used.map({ now > $0 + DirectoryRules.useInterval }) ?? true {
            try write { db in
                try db.execute(
                    sql: "UPDATE management_tokens SET used = ? WHERE hash = ?",
                    arguments: [now.milliseconds, hash]
                )
            }
        }
        return found
    }

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
