import Foundation
import GRDB
import RelayCore
import RelaySystem

/// The tables of `relay.sqlite`.
///
/// Times are milliseconds since 1970; names and identifiers are case-sensitive text.
enum AccountSchema {
    static let file = FileLayout(tables: tables)

    /// Creates or migrates the tables, and returns the relay's key.
    static func prepare(_ queue: DatabaseQueue, freshKey: [UInt8]) throws -> [UInt8] {
        try queue.writeWithoutTransaction { db in
            try file.migrate(db) { try begin($0, key: freshKey) }
            guard let key = try Data.fetchOne(db, sql: "SELECT token_key FROM relay") else {
                throw DirectoryError.unavailable("relay.sqlite has no key")
            }
            return Array(key)
        }
    }

    /// Empty tables, created once and copied for each store in memory.
    static let blank = Result {
        let queue = try DatabaseQueue()
        try queue.inDatabase { try file.migrate($0) }
        return queue
    }

    /// Inserts the content of a new file, which is its key.
    static func begin(_ db: Database, key: [UInt8]) throws {
        try db.execute(sql: "INSERT INTO relay(id, token_key) VALUES (1, ?)", arguments: [Data(key)])
    }

    /// Returns whether the file has the table and column of the relay's key.
    static func isOurs(_ db: Database) throws -> Bool {
        try db.tableExists("relay") && db.columns(in: "relay").contains { $0.name == "token_key" }
    }

    /// Returns whether the file has content, but not a relay's.
    static func isForeign(_ db: Database) throws -> Bool {
        try !isOurs(db) && (try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") ?? 0) > 0
    }

    /// Throws if the file belongs to another program, has no accounts although the folder has stores, or `LayoutError` if
    /// this version cannot open it.
    static func requireOwnFile(_ queue: DatabaseQueue, in folder: String) throws {
        let (isOurs, isForeign) = try queue.read { (try Self.isOurs($0), try Self.isForeign($0)) }
        if isOurs {
            _ = try queue.read(file.version(of:))
            return
        }
        if try BackupFiles.stores(in: folder).isEmpty {
            guard isForeign else { return }
            throw DirectoryError.unavailable(
                "relay.sqlite is not a relay's file: another program created it. Move it away, or name another folder with --data"
            )
        }
        throw DirectoryError.unavailable(
            "relay.sqlite contains no relay data, and without it no user can reach their data. Put the right file back, or restore a backup: zonecast backup restore latest --data \(folder.shellWord)"
        )
    }

    private static let tables = """
        CREATE TABLE relay(
            id INTEGER PRIMARY KEY CHECK (id = 1), token_key BLOB NOT NULL, revocations INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE containers(name TEXT PRIMARY KEY, created INTEGER NOT NULL, title TEXT) WITHOUT ROWID;
        CREATE TABLE api_tokens(
            hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE,
            container TEXT NOT NULL REFERENCES containers(name), environment TEXT NOT NULL,
            name TEXT NOT NULL, notes TEXT NOT NULL, callback TEXT, origins TEXT NOT NULL,
            created INTEGER NOT NULL, revoked INTEGER
        ) WITHOUT ROWID;
        CREATE TABLE server_keys(
            id TEXT PRIMARY KEY, container TEXT NOT NULL REFERENCES containers(name), environment TEXT NOT NULL,
            name TEXT NOT NULL, public_key TEXT NOT NULL, user_name TEXT NOT NULL,
            created INTEGER NOT NULL, revoked INTEGER
        ) WITHOUT ROWID;

        -- E-mail addresses and names are in the one spelling in which they are looked up.
        CREATE TABLE accounts(
            id INTEGER PRIMARY KEY AUTOINCREMENT, is_dev INTEGER NOT NULL, login TEXT NOT NULL,
            salt BLOB, hash BLOB, rounds INTEGER, block_size INTEGER, parallelism INTEGER,
            disabled INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL,
            email TEXT, phone TEXT, name_prefix TEXT, given_name TEXT, middle_name TEXT, family_name TEXT,
            name_suffix TEXT, nickname TEXT, UNIQUE (is_dev, login)
        );
        CREATE INDEX accounts_by_email ON accounts(email) WHERE email IS NOT NULL;
        CREATE INDEX accounts_by_phone ON accounts(phone) WHERE phone IS NOT NULL;
        CREATE TABLE sessions(
            id BLOB PRIMARY KEY, secret_hash BLOB NOT NULL, account INTEGER NOT NULL REFERENCES accounts(id),
            container TEXT NOT NULL, environment TEXT NOT NULL, kind INTEGER NOT NULL,
            created INTEGER NOT NULL, revoked INTEGER, used INTEGER
        ) WITHOUT ROWID;
        CREATE INDEX sessions_of_account ON sessions(account);
        CREATE TABLE users(
            container TEXT NOT NULL, environment TEXT NOT NULL, account INTEGER NOT NULL REFERENCES accounts(id),
            name TEXT NOT NULL, discoverable INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (container, environment, account), UNIQUE (container, environment, name)
        ) WITHOUT ROWID;
        CREATE INDEX users_of_account ON users(account);

        -- The issuers that containers trust; `revision` is the change of the directory that a row is from.
        CREATE TABLE issuers(
            container TEXT NOT NULL REFERENCES containers(name), issuer TEXT NOT NULL,
            audiences TEXT NOT NULL, algorithms TEXT NOT NULL, keys_url TEXT, keys_file TEXT,
            claims TEXT NOT NULL, trusts_contacts INTEGER NOT NULL, created INTEGER NOT NULL,
            revision INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (container, issuer)
        ) WITHOUT ROWID;

        -- Devices that push services notify.
        CREATE TABLE push_devices(
            id TEXT NOT NULL UNIQUE, container TEXT NOT NULL, environment TEXT NOT NULL, user TEXT NOT NULL,
            device TEXT NOT NULL, session BLOB, api_token BLOB NOT NULL,
            kind TEXT NOT NULL, address TEXT NOT NULL, topic TEXT, is_sandbox INTEGER, key BLOB, secret BLOB,
            registered INTEGER NOT NULL, fault TEXT,
            PRIMARY KEY (container, environment, user, device)
        ) WITHOUT ROWID;

        -- Limits of users and containers that differ from the configuration; NULL: the configured limit.
        CREATE TABLE quotas(account INTEGER PRIMARY KEY REFERENCES accounts(id), private_bytes INTEGER NOT NULL);
        CREATE TABLE container_quotas(
            container TEXT NOT NULL, environment TEXT NOT NULL, private_bytes INTEGER, public_records INTEGER,
            public_assets INTEGER, public_transfer INTEGER, PRIMARY KEY (container, environment)
        ) WITHOUT ROWID;

        -- Tokens with which programs change schemas through the management API.
        CREATE TABLE management_tokens(
            hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, container TEXT NOT NULL, name TEXT NOT NULL,
            created INTEGER NOT NULL, expires INTEGER, revoked INTEGER, used INTEGER
        ) WITHOUT ROWID;

        -- Operators of the console, and the log of their actions.
        CREATE TABLE operators(
            id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, user_name TEXT NOT NULL UNIQUE,
            salt BLOB NOT NULL, hash BLOB NOT NULL, rounds INTEGER NOT NULL, block_size INTEGER NOT NULL,
            parallelism INTEGER NOT NULL, created INTEGER NOT NULL
        );
        CREATE TABLE operator_links(hash BLOB PRIMARY KEY, operator TEXT, expires INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE operator_sessions(
            hash BLOB PRIMARY KEY, operator INTEGER NOT NULL REFERENCES operators(id),
            created INTEGER NOT NULL, used INTEGER NOT NULL
        ) WITHOUT ROWID;
        CREATE TABLE operator_passkeys(
            id BLOB PRIMARY KEY, operator INTEGER NOT NULL REFERENCES operators(id), name TEXT NOT NULL,
            algorithm INTEGER NOT NULL, public_key BLOB NOT NULL, host TEXT NOT NULL, sign_count INTEGER NOT NULL,
            created INTEGER NOT NULL, used INTEGER
        ) WITHOUT ROWID;
        CREATE INDEX passkeys_of_operator ON operator_passkeys(operator);
        CREATE TABLE audit(
            id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
            container TEXT, environment TEXT, subject TEXT NOT NULL, detail TEXT NOT NULL
        );
        """
}
