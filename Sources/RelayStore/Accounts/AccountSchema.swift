import Foundation
import GRDB
import RelayCore

/// The tables of `relay.sqlite`.
///
/// Times are milliseconds since 1970; names and identifiers are case-sensitive text.
enum AccountSchema {
    /// The migrations of the file, which must never be changed; new ones are appended.
    ///
    /// A file with a higher version than there are migrations belongs to a newer zonecast and is not touched.
    private static let steps = [
        tables, people, uses, pushes, operators, quotas, passkeys, management, containerQuotas, composition,
        issuerRevisions, addresses,
    ]
    static var version: Int { steps.count }

    /// Migrates the tables, and returns the relay's key.
    static func prepare(_ queue: DatabaseQueue, freshKey: [UInt8]) throws -> [UInt8] {
        try queue.writeWithoutTransaction { db in
            if try found(db) < version { try bringUpToDate(db, freshKey: freshKey) }
            guard let key = try Data.fetchOne(db, sql: "SELECT token_key FROM relay") else {
                throw DirectoryError.unavailable("relay.sqlite has no key")
            }
            return Array(key)
        }
    }

    /// Empty tables, created once and copied for each store in memory.
    static let blank = Result {
        let queue = try DatabaseQueue()
        try queue.inDatabase { db in
            try run(steps[...], in: db)
            try db.execute(sql: "PRAGMA user_version = \(version)")
        }
        return queue
    }

    /// Inserts the content of a new file, which is its key.
    static func begin(_ db: Database, key: [UInt8]) throws {
        try db.execute(sql: "INSERT INTO relay(id, token_key) VALUES (1, ?)", arguments: [Data(key)])
    }

    /// Creates the tables of an earlier version.
    static func make(version: Int, in db: Database, key: [UInt8]) throws {
        try run(steps.prefix(version), in: db)
        try begin(db, key: key)
        try db.execute(sql: "PRAGMA user_version = \(version)")
    }

    private static func bringUpToDate(_ db: Database, freshKey: [UInt8]) throws {
        try db.inTransaction(.immediate) {
            // Another process may have migrated it meanwhile.
            let from = try found(db)
            try run(steps.dropFirst(from), in: db)
            if from == 0 { try begin(db, key: freshKey) }
            if from < version { try db.execute(sql: "PRAGMA user_version = \(version)") }
            return .commit
        }
    }

    private static func run(_ steps: ArraySlice<String>, in db: Database) throws {
        for function in [composed, address] { db.add(function: function) }
        defer { for function in [composed, address] { db.remove(function: function) } }
        for step in steps { try db.execute(sql: step) }
    }

    /// A function that SQLite does not have: Unicode's canonical composition of a text.
    private static let composed = DatabaseFunction("composed", argumentCount: 1, pure: true) { values in
        String.fromDatabaseValue(values[0])?.precomposedStringWithCanonicalMapping
    }

    /// Returns a text that cannot be an address as it is.
    private static let address = DatabaseFunction("address", argumentCount: 1, pure: true) { values in
        String.fromDatabaseValue(values[0]).map { AccountRules.canonicalEmail($0) ?? $0 }
    }

    /// Returns whether the file has the table and column of the relay's key.
    static func isOurs(_ db: Database) throws -> Bool {
        try db.tableExists("relay") && db.columns(in: "relay").contains { $0.name == "token_key" }
    }

    /// Returns whether the file has content, but not a relay's.
    static func isForeign(_ db: Database) throws -> Bool {
        try !isOurs(db) && (try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema") ?? 0) > 0
    }

    /// Throws if the file belongs to another program, or has no accounts although the folder has stores.
    static func demandOurs(_ queue: DatabaseQueue, in folder: String) throws {
        let (isOurs, isForeign) = try queue.read { (try Self.isOurs($0), try Self.isForeign($0)) }
        if isOurs { return }
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

    private static func found(_ db: Database) throws -> Int {
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard found <= version else {
            throw DirectoryError.unavailable(
                "a newer zonecast wrote it (relay.sqlite has layout \(found), and this version knows \(version)). Use the newer version"
            )
        }
        return found
    }

    private static let tables = """
        CREATE TABLE relay(
            id INTEGER PRIMARY KEY CHECK (id = 1), token_key BLOB NOT NULL, revocations INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE containers(name TEXT PRIMARY KEY, created INTEGER NOT NULL) WITHOUT ROWID;
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
        CREATE TABLE accounts(
            id INTEGER PRIMARY KEY AUTOINCREMENT, is_dev INTEGER NOT NULL, login TEXT NOT NULL,
            salt BLOB, hash BLOB, rounds INTEGER, block_size INTEGER, parallelism INTEGER,
            disabled INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, UNIQUE (is_dev, login)
        );
        CREATE TABLE sessions(
            id BLOB PRIMARY KEY, secret_hash BLOB NOT NULL, account INTEGER NOT NULL REFERENCES accounts(id),
            container TEXT NOT NULL, environment TEXT NOT NULL, kind INTEGER NOT NULL,
            created INTEGER NOT NULL, revoked INTEGER
        ) WITHOUT ROWID;
        CREATE INDEX sessions_of_account ON sessions(account);
        CREATE TABLE users(
            container TEXT NOT NULL, environment TEXT NOT NULL, account INTEGER NOT NULL REFERENCES accounts(id),
            name TEXT NOT NULL, PRIMARY KEY (container, environment, account), UNIQUE (container, environment, name)
        ) WITHOUT ROWID;
        """

    /// The time at which each session was last used; unknown for existing ones, so now.
    private static let uses = """
        ALTER TABLE sessions ADD COLUMN used INTEGER;
        UPDATE sessions SET used = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
        """

    /// Names, contact addresses for lookups, the consent to be found, and the issuers that containers trust.
    private static let people = """
        ALTER TABLE accounts ADD COLUMN email TEXT;
        ALTER TABLE accounts ADD COLUMN phone TEXT;
        ALTER TABLE accounts ADD COLUMN name_prefix TEXT;
        ALTER TABLE accounts ADD COLUMN given_name TEXT;
        ALTER TABLE accounts ADD COLUMN middle_name TEXT;
        ALTER TABLE accounts ADD COLUMN family_name TEXT;
        ALTER TABLE accounts ADD COLUMN name_suffix TEXT;
        ALTER TABLE accounts ADD COLUMN nickname TEXT;
        UPDATE accounts SET email = login WHERE is_dev = 0;
        CREATE INDEX accounts_by_email ON accounts(email) WHERE email IS NOT NULL;
        CREATE INDEX accounts_by_phone ON accounts(phone) WHERE phone IS NOT NULL;
        ALTER TABLE users ADD COLUMN discoverable INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX users_of_account ON users(account);
        CREATE TABLE issuers(
            container TEXT NOT NULL REFERENCES containers(name), issuer TEXT NOT NULL,
            audiences TEXT NOT NULL, algorithms TEXT NOT NULL, keys_url TEXT, keys_file TEXT,
            claims TEXT NOT NULL, trusts_contacts INTEGER NOT NULL, created INTEGER NOT NULL,
            PRIMARY KEY (container, issuer)
        ) WITHOUT ROWID;
        """

    /// Devices that push services notify.
    private static let pushes = """
        CREATE TABLE push_devices(
            id TEXT NOT NULL UNIQUE, container TEXT NOT NULL, environment TEXT NOT NULL, user TEXT NOT NULL,
            device TEXT NOT NULL, session BLOB, api_token BLOB NOT NULL,
            kind TEXT NOT NULL, address TEXT NOT NULL, topic TEXT, is_sandbox INTEGER, key BLOB, secret BLOB,
            registered INTEGER NOT NULL, fault TEXT,
            PRIMARY KEY (container, environment, user, device)
        ) WITHOUT ROWID;
        """

    /// Storage limits of individual users that differ from the configuration.
    private static let quotas = """
        CREATE TABLE quotas(account INTEGER PRIMARY KEY REFERENCES accounts(id), private_bytes INTEGER NOT NULL);
        """

    /// The same for containers; a column without a value means the configured limit.
    private static let containerQuotas = """
        CREATE TABLE container_quotas(
            container TEXT NOT NULL, environment TEXT NOT NULL, private_bytes INTEGER, public_records INTEGER,
            public_assets INTEGER, public_transfer INTEGER, PRIMARY KEY (container, environment)
        ) WITHOUT ROWID;
        """

    /// Tokens with which programs change schemas through the management API.
    private static let management = """
        CREATE TABLE management_tokens(
            hash BLOB PRIMARY KEY, id TEXT NOT NULL UNIQUE, container TEXT NOT NULL, name TEXT NOT NULL,
            created INTEGER NOT NULL, expires INTEGER, revoked INTEGER, used INTEGER
        ) WITHOUT ROWID;
        """

    /// Passkeys of operators.
    private static let passkeys = """
        CREATE TABLE operator_passkeys(
            id BLOB PRIMARY KEY, operator INTEGER NOT NULL REFERENCES operators(id), name TEXT NOT NULL,
            algorithm INTEGER NOT NULL, public_key BLOB NOT NULL, host TEXT NOT NULL, sign_count INTEGER NOT NULL,
            created INTEGER NOT NULL, used INTEGER
        ) WITHOUT ROWID;
        CREATE INDEX passkeys_of_operator ON operator_passkeys(operator);
        """

    /// Operators of the console, and the log of their actions.
    private static let operators = """
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
        CREATE TABLE audit(
            id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
            container TEXT, environment TEXT, subject TEXT NOT NULL, detail TEXT NOT NULL
        );
        """

    /// Converts names that earlier versions stored as they were typed to the composed form in which they are looked up.
    ///
    /// A name stays as it is if another account has its composed form.
    private static let composition = """
        UPDATE OR IGNORE accounts SET login = composed(login) WHERE is_dev = 0 AND login <> composed(login);
        UPDATE accounts SET email = login WHERE is_dev = 0;
        UPDATE accounts SET email = composed(email) WHERE is_dev = 2 AND email <> composed(email);
        UPDATE OR IGNORE operators SET name = composed(name) WHERE name <> composed(name);
        UPDATE operator_links SET operator = composed(operator) WHERE operator <> composed(operator);
        """

    /// Which change of the directory an issuer's row is from.
    private static let issuerRevisions = "ALTER TABLE issuers ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;"

    /// Converts addresses to the spelling of lookups, whichever spelling of the domain they were added with.
    ///
    /// If one address has two accounts, both stay: the second keeps its own spelling as its login, and each signs in
    /// with its own password, under either spelling.
    private static let addresses = """
        UPDATE accounts SET email = address(login) WHERE is_dev = 0;
        UPDATE OR IGNORE accounts SET login = email WHERE is_dev = 0 AND login <> email;
        UPDATE accounts SET email = address(email) WHERE is_dev <> 0 AND email <> address(email);
        """
}
