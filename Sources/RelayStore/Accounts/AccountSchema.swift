import Foundation
import GRDB
import RelayCore

/// The tables of `relay.sqlite`.
///
/// Times are milliseconds since 1970; names and identifiers are case-sensitive text.
enum AccountSchema {
    /// Raised with every change; a file with a higher one is of a newer zonecast and left alone.
    static let version = 1

    /// Makes the tables if they are missing and gives back the relay's key.
    static func prepare(_ queue: DatabaseQueue, freshKey: [UInt8]) throws -> [UInt8] {
        try queue.writeWithoutTransaction { db in
            if let key = try currentKey(db) { return key }
            try db.inTransaction(.immediate) {
                // Another process may have been faster.
                if try Int.fetchOne(db, sql: "PRAGMA user_version") == 0 {
                    try db.execute(sql: tables)
                    try db.execute(sql: "INSERT INTO relay(id, token_key) VALUES (1, ?)", arguments: [Data(freshKey)])
                    try db.execute(sql: "PRAGMA user_version = \(version)")
                }
                return .commit
            }
            guard let key = try currentKey(db) else { throw DirectoryError.unavailable("relay.sqlite has no key") }
            return key
        }
    }

    private static func currentKey(_ db: Database) throws -> [UInt8]? {
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard found <= version else {
            throw DirectoryError.unavailable("relay.sqlite was made by a newer zonecast; use that one")
        }
        guard found > 0 else { return nil }
        return try Data.fetchOne(db, sql: "SELECT token_key FROM relay").map { Array($0) }
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
}
