import Foundation
package import GRDB

/// The mirror's own tables, beside the application's.
package enum StoreTables {
    /// The version of the oldest files that are converted.
    private static let baseline = 1

    /// The version that this library reads and writes.
    package static var version: Int { baseline + migrations.count }

    /// Lead from each version to the next; one that was released must never be changed.
    private static let migrations: [@Sendable (Database) throws -> Void] = [RecordTable.convertFromFlags]

    /// Creates the tables in a new file, or runs the migrations that a file lacks, in the caller's transaction.
    ///
    /// `mirror_local` is one row: whether the current transaction is an import, which the triggers ignore, and the
    /// number of the transaction in the history.
    ///
    /// - Throws: `unsupportedStoreVersion` if this version cannot open the file, which `name` names.
    package static func create(_ db: Database, name: String) throws {
        if try db.tableExists("mirror_state") {
            let found = Int(try State.number(db, .version) ?? 0)
            guard (baseline...version).contains(found) else { throw error(name, found) }
            guard found < version else { return }
            for migration in migrations.dropFirst(found - baseline) { try migration(db) }
        } else {
            try db.execute(sql: sql)
            try db.execute(
                sql: """
                    INSERT INTO mirror_state(k, v) VALUES (?, hex(randomblob(8)));
                    INSERT INTO mirror_local(importing, txn) VALUES (0, 0);
                    """,
                arguments: [State.Key.identity.rawValue]
            )
        }
        try State.set(db, .version, version)
    }

    private static func error(_ name: String, _ found: Int) -> MirrorError {
        let explanation =
            found > version
            ? """
            \(name) has layout \(found), which a newer version of this library has written; this one opens layouts up to \
            \(version). Use the newer version again.
            """
            : """
            \(name) has layout \(found), which no released version of this library has written. It may hold changes that \
            were never sent: send them with the version that wrote it, then move it away, with the files beside it that \
            begin with its name.
            """
        return MirrorError(.unsupportedStoreVersion(found), explanation)
    }

    private static let sql = """
        CREATE TABLE mirror_state(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
        CREATE TABLE mirror_local(importing INTEGER NOT NULL, txn INTEGER NOT NULL);
        CREATE TABLE mirror_zone(
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, token TEXT,
            isThere INTEGER NOT NULL DEFAULT 0, isUnfetched INTEGER NOT NULL DEFAULT 0,
            sweep INTEGER NOT NULL DEFAULT 0, fetchedAt REAL, isEnding INTEGER NOT NULL DEFAULT 0,
            copies TEXT, UNIQUE(name, owner));
        \(RecordTable.definition)
        CREATE TABLE mirror_share(
            zone INTEGER NOT NULL, name TEXT NOT NULL, details BLOB NOT NULL, permission TEXT,
            PRIMARY KEY(zone, name)) WITHOUT ROWID;
        CREATE TABLE mirror_sent(
            zone INTEGER PRIMARY KEY, body BLOB NOT NULL, items BLOB NOT NULL, tries INTEGER NOT NULL);
        CREATE TABLE mirror_link(
            oid TEXT NOT NULL, entity TEXT NOT NULL, col TEXT NOT NULL, zone INTEGER NOT NULL, target TEXT NOT NULL,
            PRIMARY KEY(oid, col)) WITHOUT ROWID;
        CREATE INDEX mirror_link_target ON mirror_link(target);
        CREATE TABLE mirror_change(
            seq INTEGER PRIMARY KEY, txn INTEGER NOT NULL, oid TEXT NOT NULL, entity TEXT NOT NULL,
            kind INTEGER NOT NULL, names TEXT, kept TEXT);
        CREATE TABLE mirror_transaction(
            id INTEGER PRIMARY KEY, author TEXT, context TEXT, at REAL NOT NULL);
        CREATE TABLE mirror_refused(
            id INTEGER PRIMARY KEY, oid TEXT NOT NULL, entity TEXT NOT NULL, zone INTEGER, name TEXT, op TEXT NOT NULL,
            mine BLOB, code INTEGER NOT NULL, message TEXT NOT NULL, at REAL NOT NULL, tries INTEGER NOT NULL,
            schema INTEGER, base BLOB, account TEXT, pairs BLOB);
        CREATE TABLE mirror_event(
            id INTEGER PRIMARY KEY, kind TEXT NOT NULL, began REAL NOT NULL, ended REAL, succeeded INTEGER, code INTEGER,
            message TEXT, records INTEGER NOT NULL DEFAULT 0, total INTEGER, details TEXT,
            bytes INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE mirror_decision(
            id INTEGER PRIMARY KEY, at REAL NOT NULL, oid TEXT NOT NULL, entity TEXT NOT NULL, property TEXT NOT NULL,
            kept TEXT, dropped TEXT, policy TEXT NOT NULL);
        CREATE TABLE mirror_poll(type TEXT PRIMARY KEY, watermark INTEGER, recent TEXT) WITHOUT ROWID;
        CREATE TABLE mirror_right(type TEXT PRIMARY KEY, rights INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE mirror_edit(
            oid TEXT NOT NULL, col TEXT NOT NULL, at INTEGER, PRIMARY KEY(oid, col)) WITHOUT ROWID;
        CREATE TABLE mirror_replaced(
            entity TEXT NOT NULL, oid TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY(entity, oid)) WITHOUT ROWID;
        CREATE TABLE mirror_gone(
            root TEXT NOT NULL, entity TEXT NOT NULL, oid TEXT NOT NULL, PRIMARY KEY(root, entity, oid)) WITHOUT ROWID;
        CREATE TABLE mirror_exact(
            oid TEXT NOT NULL, col TEXT NOT NULL, seconds REAL NOT NULL, exact TEXT NOT NULL,
            PRIMARY KEY(oid, col)) WITHOUT ROWID;
        CREATE INDEX mirror_edit_new ON mirror_edit(oid) WHERE at IS NULL;
        CREATE TABLE mirror_duplicate(oid TEXT PRIMARY KEY, entity TEXT NOT NULL, keeper TEXT NOT NULL,
            isExported INTEGER NOT NULL DEFAULT 0, isImported INTEGER NOT NULL DEFAULT 0, keys TEXT NOT NULL) WITHOUT ROWID;
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
