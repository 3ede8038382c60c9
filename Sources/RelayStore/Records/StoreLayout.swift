import GRDB
import Records
import RelayCore

/// The tables of one container's store, and the migrations from older layouts.
///
/// `record` is ordered by change number: records written together are stored together, a feed reads the file forwards,
/// and a commit for many zones touches as few pages as one for a single zone. For the same reason the feed's index is
/// divided into runs of 2,048 changes: within a run, the zones are next to each other on a few pages. `zone_run` lists
/// the runs in which a zone has changes, so that a zone's feed skips all others. The index by name starts with the name
/// for that reason too: with the zone first, a commit for 64 zones would write 64 of its pages instead of one. Code
/// that reads a whole zone goes through the zone's runs.
enum StoreLayout {
    /// The run of a change is `change >> runShift`.
    static let runShift: UInt64 = 11

    static func migrate(_ writer: any DatabaseWriter) throws { try migrator.migrate(writer) }

    /// All migrations in order; a migration must never be changed.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1 records") { try $0.execute(sql: first) }
        migrator.registerMigration("3 indexes") { try $0.execute(sql: indexes) }
        migrator.registerMigration("7 query subscriptions") { try $0.execute(sql: querySubscriptions) }
        migrator.registerMigration("2 schema") { try $0.execute(sql: schema) }
        migrator.registerMigration("4 assets") { try $0.execute(sql: assets) }
        migrator.registerMigration("8 references") {
            try $0.execute(sql: references)
            try ReferenceRows.enterAll($0)
        }
        migrator.registerMigration("6 quota") { try $0.execute(sql: quota) }
        migrator.registerMigration("9 sharing") { try $0.execute(sql: SharingLayout.tables) }
        migrator.registerMigration("10 retired fields") { try $0.execute(sql: retiredFields) }
        migrator.registerMigration("11 sharing") { try $0.execute(sql: SharingLayout.requests + SharingLayout.aliases) }
        migrator.registerMigration("12 done writes") { try $0.execute(sql: doneWrites) }
        migrator.registerMigration("15 hierarchy feeds") { try $0.execute(sql: SharingLayout.feeds) }
        migrator.registerMigration("19 why zones are gone") { try $0.execute(sql: zoneLosses) }
        migrator.registerMigration("21 last seen") { try $0.execute(sql: SharingLayout.lastSeen) }
        migrator.registerMigration("22 the living and the dead") { try $0.execute(sql: livingAndDead) }
        migrator.registerMigration("23 time of the public database") { try $0.execute(sql: lastModified) }
        migrator.registerMigration("24 stamps of zones") { try $0.execute(sql: zoneStamps) }
        migrator.registerMigration("25 ended epochs") { try $0.execute(sql: endedEpochs) }
        migrator.registerMigration("26 signed writes") { try $0.execute(sql: signedWrites) }
        migrator.registerMigration("27 words of all fields") { try $0.execute(sql: wordsOfAllFields) }
        migrator.registerMigration("28 runs after moves") { try $0.execute(sql: runsAfterMoves) }
        migrator.registerMigration("29 ends of zones") { try $0.execute(sql: zoneEnds) }
        migrator.registerMigration("30 ended zones by identity") { try $0.execute(sql: endedIdentities) }
        migrator.registerMigration("31 indexes built anew") { try $0.execute(sql: indexesBuiltAnew) }
        migrator.registerMigration("32 aliases by their records") { try $0.execute(sql: SharingLayout.keptNames) }
        migrator.registerMigration("33 tombstone horizons") {
            try $0.execute(sql: zoneHorizons + SharingLayout.horizons)
        }
        migrator.registerMigration("34 one spelling of addresses") { try SharingLayout.respellAddresses($0) }
        return migrator
    }

    /// Inserts the rows of a new store: its epoch, and the public database's zone with the number 1.
    ///
    /// - Returns: the epoch.
    @discardableResult
    static func begin(_ database: Database, draw: () -> UInt64) throws -> UInt64 {
        let epoch = draw()
        try database.execute(
            sql: "INSERT INTO fact (name, value) VALUES ('epoch', ?)",
            arguments: [Int64(bitPattern: epoch)]
        )
        try database.execute(
            sql: """
                INSERT INTO user (id, name) VALUES (1, ?);
                INSERT INTO zone_row (id, owner, name, identity) VALUES (1, 1, ?, ?);
                INSERT INTO zone_stamp (zone, last_change) VALUES (1, 1);
                """,
            arguments: [Zone.publicOwner.recordName, ZoneID.defaultName, Int64(bitPattern: draw())]
        )
        return epoch
    }

    private static let first = """
        CREATE TABLE fact (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

        CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

        CREATE TABLE zone (
            id INTEGER PRIMARY KEY,
            owner INTEGER NOT NULL REFERENCES user (id),
            name TEXT NOT NULL,
            identity INTEGER NOT NULL,
            last_change INTEGER NOT NULL,
            deleted INTEGER NOT NULL DEFAULT 0,
            -- Are the records of the deleted zone gone from the file?
            purged INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE UNIQUE INDEX zone_by_name ON zone (owner, name) WHERE deleted = 0;
        CREATE INDEX zone_by_owner ON zone (owner);
        CREATE INDEX zone_to_purge ON zone (id) WHERE deleted = 1 AND purged = 0;

        CREATE TABLE record_type (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE record_field (
            type INTEGER NOT NULL REFERENCES record_type (id),
            name TEXT NOT NULL,
            tag TEXT NOT NULL,
            encrypted INTEGER NOT NULL,
            PRIMARY KEY (type, name)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE record_grant (
            type INTEGER NOT NULL REFERENCES record_type (id),
            role TEXT NOT NULL,
            rights INTEGER NOT NULL,
            PRIMARY KEY (type, role)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE record (
            change INTEGER PRIMARY KEY,
            zone INTEGER NOT NULL,
            name TEXT NOT NULL,
            type INTEGER NOT NULL,
            deleted INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            created_by INTEGER NOT NULL,
            created_device INTEGER NOT NULL,
            modified_at INTEGER NOT NULL,
            modified_by INTEGER NOT NULL,
            modified_device INTEGER NOT NULL,
            parent TEXT,
            share TEXT,
            fields BLOB NOT NULL,
            run INTEGER GENERATED ALWAYS AS (change >> 11) VIRTUAL
        ) STRICT;
        CREATE UNIQUE INDEX record_by_name ON record (name, zone);
        CREATE INDEX record_by_run ON record (run, zone);
        -- The public database is polled by time of modification; it is the first zone there is.
        CREATE INDEX public_by_modified ON record (type, modified_at, name) WHERE zone = 1 AND deleted = 0;
        CREATE TABLE zone_run (zone INTEGER NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (zone, run))
            STRICT, WITHOUT ROWID;

        CREATE TABLE subscription (
            user INTEGER NOT NULL REFERENCES user (id),
            scope INTEGER NOT NULL,
            id TEXT NOT NULL,
            -- 1 database, 2 every zone, 3 one zone, 4 a query
            kind INTEGER NOT NULL,
            zone_owner TEXT,
            zone_name TEXT,
            notification_info BLOB,
            PRIMARY KEY (user, scope, id)
        ) STRICT, WITHOUT ROWID;
        """

    /// Indexes of fields, created when a query first needs them: a type that is never queried costs its writers
    /// nothing.
    ///
    /// Entries contain a record's name, not its change number, so that a write touches only entries of values that
    /// changed.
    private static let indexes = """
        CREATE TABLE field_index (
            id INTEGER PRIMARY KEY,
            type INTEGER NOT NULL REFERENCES record_type (id),
            -- the field, or `FIELD words`, or `words`
            target TEXT NOT NULL,
            -- records up to this change are entered ...
            built_to INTEGER NOT NULL,
            -- ... and those after this one as they are written
            goal INTEGER NOT NULL,
            dropped INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE UNIQUE INDEX field_index_by_target ON field_index (type, target) WHERE dropped = 0;
        CREATE TABLE field_value (
            field INTEGER NOT NULL,
            zone INTEGER NOT NULL,
            value ANY NOT NULL,
            name TEXT NOT NULL,
            PRIMARY KEY (field, zone, value, name)
        ) STRICT, WITHOUT ROWID;
        """

    /// Separate indexes of live and deleted records.
    ///
    /// A listing from the start reads only the live ones, however many were deleted; each write changes only one index.
    private static let livingAndDead = """
        DROP INDEX record_by_run;
        CREATE INDEX live_by_run ON record (run, zone) WHERE deleted = 0;
        CREATE INDEX dead_by_run ON record (run, zone) WHERE deleted = 1;
        """

    /// The reason of a zone's deletion, a raw value of `ZoneLoss`.
    private static let zoneLosses = "ALTER TABLE zone ADD COLUMN loss INTEGER NOT NULL DEFAULT 0"

    /// The latest modification time in the public database; 0 for every other zone.
    private static let lastModified = """
        ALTER TABLE zone ADD COLUMN last_modified INTEGER NOT NULL DEFAULT 0;
        UPDATE zone SET last_modified = coalesce((
            SELECT max(latest) FROM (
                SELECT (SELECT max(modified_at) FROM record INDEXED BY public_by_modified
                    WHERE type = t.id AND zone = 1 AND deleted = 0) AS latest
                FROM record_type t
            )
        ), 0) WHERE id = 1;
        """

    /// The columns of a zone that every commit writes, apart from those that rarely change; the view `zone` joins both.
    ///
    /// A commit for many zones thus writes short rows that are next to each other, without reading the old ones.
    private static let zoneStamps = """
        ALTER TABLE zone RENAME TO zone_row;
        CREATE TABLE zone_stamp (
            zone INTEGER PRIMARY KEY,
            last_change INTEGER NOT NULL,
            record_bytes INTEGER NOT NULL DEFAULT 0,
            asset_bytes INTEGER NOT NULL DEFAULT 0,
            last_modified INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        INSERT INTO zone_stamp SELECT id, last_change, record_bytes, asset_bytes, last_modified FROM zone_row;
        ALTER TABLE zone_row DROP COLUMN last_change;
        ALTER TABLE zone_row DROP COLUMN record_bytes;
        ALTER TABLE zone_row DROP COLUMN asset_bytes;
        ALTER TABLE zone_row DROP COLUMN last_modified;
        CREATE VIEW zone AS
            SELECT z.id, z.owner, z.name, z.identity, s.last_change, z.deleted, z.purged, s.record_bytes, s.asset_bytes,
                z.shared, z.loss, s.last_modified
            FROM zone_row z JOIN zone_stamp s ON s.zone = z.id;
        """

    /// The last change number of each epoch that has ended.
    private static let endedEpochs = """
        CREATE TABLE ended_epoch (epoch INTEGER PRIMARY KEY, last_change INTEGER NOT NULL) STRICT;
        """

    /// Which records use which asset; unused assets are removed from the folder.
    private static let assets = """
        CREATE TABLE asset_use (
            hash BLOB NOT NULL,
            zone INTEGER NOT NULL,
            name TEXT NOT NULL,
            size INTEGER NOT NULL,
            PRIMARY KEY (hash, zone, name)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX asset_use_by_zone ON asset_use (zone);
        """

    /// The references to each record, by target; see `StoredReference`.
    private static let references = """
        CREATE TABLE reference (
            zone INTEGER NOT NULL,
            target TEXT NOT NULL,
            -- 1 DELETE_SELF, 2 VALIDATE, 3 parent
            kind INTEGER NOT NULL,
            source TEXT NOT NULL,
            -- empty for the parent
            field TEXT NOT NULL,
            PRIMARY KEY (zone, target, kind, source, field)
        ) STRICT, WITHOUT ROWID;
        """

    /// The storage use of each zone's live records and assets, and the bytes that the public database sent in each
    /// month.
    ///
    /// Adds up the existing zones of an older file, in the same way as `StorageUse`.
    private static let quota = """
        ALTER TABLE zone ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE zone ADD COLUMN asset_bytes INTEGER NOT NULL DEFAULT 0;
        UPDATE zone SET record_bytes = counted.bytes FROM (
            SELECT zone, sum(\(StorageUse.recordOverhead) + length(CAST(name AS BLOB)) + length(fields)) AS bytes
            FROM record WHERE deleted = 0 GROUP BY zone
        ) AS counted WHERE counted.zone = zone.id;
        UPDATE zone SET asset_bytes = counted.bytes FROM (
            SELECT zone, sum(size) AS bytes FROM (SELECT zone, max(size) AS size FROM asset_use GROUP BY zone, hash)
            GROUP BY zone
        ) AS counted WHERE counted.zone = zone.id;
        -- the month as years times twelve
        CREATE TABLE transfer (month INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
        """

    /// Idempotency records, in two or three generations.
    ///
    /// The oldest are stored together, and are found without an index by age.
    private static let doneWrites = """
        CREATE TABLE done_write (
            generation INTEGER NOT NULL,
            user INTEGER NOT NULL REFERENCES user (id),
            id TEXT NOT NULL,
            print INTEGER NOT NULL,
            places BLOB NOT NULL,
            PRIMARY KEY (generation, user, id)
        ) STRICT, WITHOUT ROWID;
        """

    /// Signatures of writes, as long as they are valid; the oldest are stored together.
    private static let signedWrites = """
        CREATE TABLE signed_write (
            signed_at INTEGER NOT NULL,
            fingerprint BLOB NOT NULL,
            PRIMARY KEY (signed_at, fingerprint)
        ) STRICT, WITHOUT ROWID;
        """

    /// Drops indexes on `words`, which meant either the words of all fields or a field of that name; they are rebuilt.
    private static let wordsOfAllFields = "UPDATE field_index SET dropped = 1 WHERE target = 'words'"

    /// Drops all indexes: records written with an unchanged value while an index was built were missing in it.
    private static let indexesBuiltAnew = "UPDATE field_index SET dropped = 1"

    /// Adds missing runs: a record after one that had moved into a share did not enter its run, and was in no feed.
    private static let runsAfterMoves = """
        INSERT OR IGNORE INTO zone_run (zone, run)
            SELECT zone, run FROM record INDEXED BY live_by_run WHERE deleted = 0 AND zone <> 1 GROUP BY run, zone
            UNION SELECT zone, run FROM record INDEXED BY dead_by_run WHERE deleted = 1 AND zone <> 1 GROUP BY run, zone
        """

    /// The change number with which a zone ended, and an index by it, to find zones that ended since a token.
    private static let zoneEnds = """
        ALTER TABLE zone_row ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
        UPDATE zone_row SET ended = (SELECT last_change FROM zone_stamp WHERE zone = id) WHERE deleted = 1;
        CREATE INDEX zone_by_end ON zone_row (owner, ended) WHERE deleted = 1;
        DROP INDEX zone_by_owner;
        """

    /// An index to find out how a zone ended, for a client that sends one of its tokens.
    private static let endedIdentities = """
        CREATE INDEX zone_by_identity ON zone_row (identity) WHERE deleted = 1;
        """

    /// The latest change of a removed tombstone, for zones that have lost any.
    private static let zoneHorizons = """
        CREATE TABLE zone_horizon (zone INTEGER PRIMARY KEY, change INTEGER NOT NULL) STRICT;

        """

    /// The definitions of fields that were removed from the schema.
    private static let retiredFields = """
        CREATE TABLE retired_field (
            type INTEGER NOT NULL REFERENCES record_type (id),
            name TEXT NOT NULL,
            tag TEXT NOT NULL,
            encrypted INTEGER NOT NULL,
            number INTEGER NOT NULL,
            PRIMARY KEY (type, name)
        ) STRICT, WITHOUT ROWID;
        """

    /// Columns for query subscriptions: the query as the client wrote it, and the bits of the events that it fires on.
    ///
    /// The bit 8 means "once".
    private static let querySubscriptions = """
        ALTER TABLE subscription ADD COLUMN record_type TEXT;
        ALTER TABLE subscription ADD COLUMN query BLOB;
        ALTER TABLE subscription ADD COLUMN fires INTEGER NOT NULL DEFAULT 0;
        """

    /// The parts of the schema language besides types and grants.
    ///
    /// The fields of an older file get every index, so that all queries keep working.
    private static let schema = """
        -- Is it in the schema, or only the type of records from before it was taken out?
        ALTER TABLE record_type ADD COLUMN declared INTEGER NOT NULL DEFAULT 1;
        -- Of a field that every record has, under the name it has in the schema language, only the indexes count.
        ALTER TABLE record_field ADD COLUMN indexes INTEGER NOT NULL DEFAULT 0;
        -- 0 no NUMBER, 1 one that is open, 2 one that is settled
        ALTER TABLE record_field ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
        UPDATE record_field SET indexes = CASE
            WHEN encrypted OR tag IN ('ASSETID', 'ASSETID_LIST') THEN 0
            WHEN tag = 'STRING' THEN 7
            WHEN tag = 'STRING_LIST' THEN 5
            WHEN tag LIKE '%_LIST' THEN 1
            ELSE 3 END;
        INSERT INTO record_field (type, name, tag, encrypted, indexes)
            SELECT t.id, f.column1, f.column2, 0, 3 FROM record_type t, (VALUES
                ('___recordID', 'REFERENCE'), ('___createTime', 'TIMESTAMP'), ('___modTime', 'TIMESTAMP'),
                ('___createdBy', 'REFERENCE'), ('___modifiedBy', 'REFERENCE'), ('___etag', 'STRING')) f;

        CREATE TABLE role (name TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE role_member (
            user TEXT NOT NULL,
            role TEXT NOT NULL,
            PRIMARY KEY (user, role)
        ) STRICT, WITHOUT ROWID;
        """
}
