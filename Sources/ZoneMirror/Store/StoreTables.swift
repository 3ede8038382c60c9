import Foundation
import GRDB

/// The mirror's own tables, beside the application's.
enum StoreTables {
    /// Creates the missing tables and columns.
    ///
    /// `mirror_local` is one row: whether the current transaction is an import, which the triggers ignore, and the
    /// number of the transaction in the history.
    static func create(_ db: Database) throws {
        try db.execute(sql: sql)
        // Columns that files of older versions lack.
        try add("bytes INTEGER NOT NULL DEFAULT 0", to: "mirror_event", db)
        try add("schema INTEGER", to: "mirror_refused", db)
        try add("base BLOB", to: "mirror_refused", db)
        try add("isEnding INTEGER NOT NULL DEFAULT 0", to: "mirror_zone", db)
        try add("copies TEXT", to: "mirror_zone", db)
        try add("tag TEXT", to: "mirror_move", db)
        try add("code INTEGER", to: "mirror_outbox", db)
        try add("account TEXT", to: "mirror_outbox", db)
        try add("account TEXT", to: "mirror_refused", db)
        try add("pairs BLOB", to: "mirror_refused", db)
        try add("keys TEXT", to: "mirror_duplicate", db)
        try db.execute(
            sql: "INSERT OR IGNORE INTO mirror_state(k, v) VALUES (?, hex(randomblob(8)))",
            arguments: [State.Key.identity.rawValue]
        )
        if try Int.fetchOne(db, sql: "SELECT count(*) FROM mirror_local") == 0 {
            try db.execute(sql: "INSERT INTO mirror_local(importing, txn) VALUES (0, 0)")
        }
    }

    private static func add(_ column: String, to table: String, _ db: Database) throws {
        let name = column.prefix { $0 != " " }
        if try db.columns(in: table).contains(where: { $0.name == name }) { return }
        try db.execute(sql: "ALTER TABLE \(table) ADD COLUMN \(column)")
    }

    private static let sql = """
        CREATE TABLE IF NOT EXISTS mirror_state(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_local(importing INTEGER NOT NULL, txn INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS mirror_zone(
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, token TEXT,
            isThere INTEGER NOT NULL DEFAULT 0, isUnfetched INTEGER NOT NULL DEFAULT 0,
            sweep INTEGER NOT NULL DEFAULT 0, fetchedAt REAL, isEnding INTEGER NOT NULL DEFAULT 0,
            UNIQUE(name, owner));
        CREATE TABLE IF NOT EXISTS mirror_record(
            id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT, entity TEXT,
            type TEXT NOT NULL, tag TEXT, created INTEGER, creator TEXT, modified INTEGER, modifier TEXT,
            parent TEXT, share TEXT, fields BLOB, seen INTEGER NOT NULL DEFAULT 0,
            isLocked INTEGER NOT NULL DEFAULT 0, UNIQUE(zone, name));
        CREATE UNIQUE INDEX IF NOT EXISTS mirror_record_oid ON mirror_record(oid) WHERE oid IS NOT NULL;
        CREATE TABLE IF NOT EXISTS mirror_share(
            zone INTEGER NOT NULL, name TEXT NOT NULL, details BLOB NOT NULL, permission TEXT,
            PRIMARY KEY(zone, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_outbox(
            place INTEGER PRIMARY KEY, oid TEXT NOT NULL UNIQUE, entity TEXT NOT NULL, op TEXT NOT NULL,
            version INTEGER NOT NULL, isAttempted INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
            held TEXT, error TEXT, code INTEGER, account TEXT);
        CREATE INDEX IF NOT EXISTS mirror_record_alias ON mirror_record(oid) WHERE oid IS NOT NULL AND oid <> name;
        CREATE TABLE IF NOT EXISTS mirror_sent(
            zone INTEGER PRIMARY KEY, body BLOB NOT NULL, items BLOB NOT NULL, tries INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS mirror_link(
            oid TEXT NOT NULL, entity TEXT NOT NULL, col TEXT NOT NULL, zone INTEGER NOT NULL, target TEXT NOT NULL,
            PRIMARY KEY(oid, col)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS mirror_link_target ON mirror_link(target);
        CREATE TABLE IF NOT EXISTS mirror_change(
            seq INTEGER PRIMARY KEY, txn INTEGER NOT NULL, oid TEXT NOT NULL, entity TEXT NOT NULL,
            kind INTEGER NOT NULL, names TEXT, kept TEXT);
        CREATE TABLE IF NOT EXISTS mirror_transaction(
            id INTEGER PRIMARY KEY, author TEXT, context TEXT, at REAL NOT NULL);
        CREATE TABLE IF NOT EXISTS mirror_refused(
            id INTEGER PRIMARY KEY, oid TEXT NOT NULL, entity TEXT NOT NULL, zone INTEGER, name TEXT, op TEXT NOT NULL,
            mine BLOB, code INTEGER NOT NULL, message TEXT NOT NULL, at REAL NOT NULL, tries INTEGER NOT NULL,
            schema INTEGER, base BLOB, account TEXT, pairs BLOB);
        CREATE TABLE IF NOT EXISTS mirror_event(
            id INTEGER PRIMARY KEY, kind TEXT NOT NULL, began REAL NOT NULL, ended REAL, succeeded INTEGER, code INTEGER,
            message TEXT, records INTEGER NOT NULL DEFAULT 0, total INTEGER, details TEXT,
            bytes INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE IF NOT EXISTS mirror_decision(
            id INTEGER PRIMARY KEY, at REAL NOT NULL, oid TEXT NOT NULL, entity TEXT NOT NULL, property TEXT NOT NULL,
            kept TEXT, dropped TEXT, policy TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS mirror_poll(type TEXT PRIMARY KEY, watermark INTEGER, recent TEXT) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_right(type TEXT PRIMARY KEY, rights INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_edit(
            oid TEXT NOT NULL, col TEXT NOT NULL, at INTEGER, PRIMARY KEY(oid, col)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_replaced(
            entity TEXT NOT NULL, oid TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY(entity, oid)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_gone(
            root TEXT NOT NULL, entity TEXT NOT NULL, oid TEXT NOT NULL, PRIMARY KEY(root, entity, oid)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_exact(
            oid TEXT NOT NULL, col TEXT NOT NULL, seconds REAL NOT NULL, exact TEXT NOT NULL,
            PRIMARY KEY(oid, col)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS mirror_edit_new ON mirror_edit(oid) WHERE at IS NULL;
        CREATE TABLE IF NOT EXISTS mirror_move(zone INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT NOT NULL,
            dropsZone INTEGER NOT NULL, target INTEGER NOT NULL, tag TEXT, PRIMARY KEY(zone, name, dropsZone));
        CREATE TABLE IF NOT EXISTS mirror_departed(
            zone INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY(zone, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS mirror_duplicate(oid TEXT PRIMARY KEY, entity TEXT NOT NULL, keeper TEXT NOT NULL,
            isExported INTEGER NOT NULL DEFAULT 0, isImported INTEGER NOT NULL DEFAULT 0, keys TEXT) WITHOUT ROWID;
        """
}

/// The kind of a change to a row, as stored in `mirror_change.kind`.
enum ChangeKind: Int {
    case insert = 1
    case update = 2
    case delete = 3
}

extension String {
    /// The name as a quoted SQL identifier.
    var quoted: String { "\"" + replacingOccurrences(of: "\"", with: "\"\"") + "\"" }
    /// The text as a SQL string literal.
    var literal: String { "'" + replacingOccurrences(of: "'", with: "''") + "'" }
}
