import Foundation
import GRDB
import Records
import RelayCore
import RelaySystem

/// The tables of one container's store.
///
/// `record` is ordered by change number: records written together are stored together, a feed reads the file forwards,
/// and a commit for many zones touches as few pages as one for a single zone. For the same reason the feed's index is
/// divided into runs of 2,048 changes: within a run, the zones are next to each other on a few pages. `zone_run` lists
/// the runs in which a zone has changes, so that a zone's feed skips all others. The index by name starts with the name
/// for that reason too: with the zone first, a commit for 64 zones would write 64 of its pages instead of one. Code
/// that reads a whole zone goes through the zone's runs.
package enum StoreLayout {
    /// The run of a change is `change >> runShift`.
    static let runShift: UInt64 = 11

    package static let file = FileLayout(
        tables: zones + records + schema + indexes + subscriptions + references + quota + writes + SharingLayout.tables
    )

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

    /// Epochs, users and zones.
    ///
    /// A zone has the columns that every commit writes in `zone_stamp` and those that rarely change in `zone_row`; the
    /// view `zone` joins both. A commit for many zones thus writes short rows that are next to each other, without
    /// reading the old ones.
    private static let zones = """
        CREATE TABLE fact (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        -- the last change number of each epoch that has ended
        CREATE TABLE ended_epoch (epoch INTEGER PRIMARY KEY, last_change INTEGER NOT NULL) STRICT;

        CREATE TABLE user (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

        CREATE TABLE zone_row (
            id INTEGER PRIMARY KEY,
            owner INTEGER NOT NULL REFERENCES user (id),
            name TEXT NOT NULL,
            identity INTEGER NOT NULL,
            deleted INTEGER NOT NULL DEFAULT 0,
            -- Are the records of the deleted zone gone from the file?
            purged INTEGER NOT NULL DEFAULT 0,
            -- 0 nothing in it is shared, 1 all of it, 2 hierarchies
            shared INTEGER NOT NULL DEFAULT 0,
            -- the reason of its deletion, a raw value of `ZoneLoss`
            loss INTEGER NOT NULL DEFAULT 0,
            -- the change number with which it ended
            ended INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE UNIQUE INDEX zone_by_name ON zone_row (owner, name) WHERE deleted = 0;
        CREATE INDEX zone_to_purge ON zone_row (id) WHERE deleted = 1 AND purged = 0;
        -- finds the zones that ended since a token
        CREATE INDEX zone_by_end ON zone_row (owner, ended) WHERE deleted = 1;
        -- finds out how a zone ended, for a client that sends one of its tokens
        CREATE INDEX zone_by_identity ON zone_row (identity) WHERE deleted = 1;

        CREATE TABLE zone_stamp (
            zone INTEGER PRIMARY KEY,
            last_change INTEGER NOT NULL,
            -- of live records
            record_bytes INTEGER NOT NULL DEFAULT 0,
            asset_bytes INTEGER NOT NULL DEFAULT 0,
            -- the latest modification time in the public database; 0 for every other zone
            last_modified INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE VIEW zone AS
            SELECT z.id, z.owner, z.name, z.identity, s.last_change, z.deleted, z.purged, s.record_bytes, s.asset_bytes,
                z.shared, z.loss, s.last_modified
            FROM zone_row z JOIN zone_stamp s ON s.zone = z.id;

        -- the latest change of a removed tombstone, for zones that have lost any
        CREATE TABLE zone_horizon (zone INTEGER PRIMARY KEY, change INTEGER NOT NULL) STRICT;

        """

    /// Records and the runs of their zones.
    ///
    /// Live and deleted records have separate indexes: a listing from the start reads only the live ones, however many
    /// were deleted, and each write changes only one index.
    private static let records = """
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
        -- The public database is polled by time of modification; it is the first zone there is.
        CREATE INDEX public_by_modified ON record (type, modified_at, name) WHERE zone = 1 AND deleted = 0;
        CREATE INDEX live_by_run ON record (run, zone) WHERE deleted = 0;
        CREATE INDEX dead_by_run ON record (run, zone) WHERE deleted = 1;
        CREATE TABLE zone_run (zone INTEGER NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (zone, run))
            STRICT, WITHOUT ROWID;

        """

    /// The schema, as the schema language has it.
    private static let schema = """
        CREATE TABLE record_type (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            -- Is it in the schema, or only the type of records from before it was taken out?
            declared INTEGER NOT NULL DEFAULT 1
        ) STRICT;
        CREATE TABLE record_field (
            type INTEGER NOT NULL REFERENCES record_type (id),
            name TEXT NOT NULL,
            tag TEXT NOT NULL,
            encrypted INTEGER NOT NULL,
            -- Of a field that every record has, under the name it has in the schema language, only the indexes count.
            indexes INTEGER NOT NULL DEFAULT 0,
            -- 0 no NUMBER, 1 one that is open, 2 one that is settled
            number INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (type, name)
        ) STRICT, WITHOUT ROWID;
        -- the definitions of fields that were removed from the schema
        CREATE TABLE retired_field (
            type INTEGER NOT NULL REFERENCES record_type (id),
            name TEXT NOT NULL,
            tag TEXT NOT NULL,
            encrypted INTEGER NOT NULL,
            number INTEGER NOT NULL,
            PRIMARY KEY (type, name)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE record_grant (
            type INTEGER NOT NULL REFERENCES record_type (id),
            role TEXT NOT NULL,
            rights INTEGER NOT NULL,
            PRIMARY KEY (type, role)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE role (name TEXT PRIMARY KEY NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE role_member (
            user TEXT NOT NULL,
            role TEXT NOT NULL,
            PRIMARY KEY (user, role)
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

    private static let subscriptions = """
        CREATE TABLE subscription (
            user INTEGER NOT NULL REFERENCES user (id),
            scope INTEGER NOT NULL,
            id TEXT NOT NULL,
            -- 1 database, 2 every zone, 3 one zone, 4 a query
            kind INTEGER NOT NULL,
            zone_owner TEXT,
            zone_name TEXT,
            notification_info BLOB,
            record_type TEXT,
            -- the query as the client wrote it
            query BLOB,
            -- the bits of the events that the query fires on; the bit 8 means "once"
            fires INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (user, scope, id)
        ) STRICT, WITHOUT ROWID;

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

    /// Which records use which asset, since unused assets are removed from the folder; and the bytes that the public
    /// database sent in each month.
    private static let quota = """
        CREATE TABLE asset_use (
            hash BLOB NOT NULL,
            zone INTEGER NOT NULL,
            name TEXT NOT NULL,
            size INTEGER NOT NULL,
            PRIMARY KEY (hash, zone, name)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX asset_use_by_zone ON asset_use (zone);
        -- the month as years times twelve
        CREATE TABLE transfer (month INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;

        """

    /// Idempotency records, in two or three generations, and signatures of writes, as long as they are valid.
    ///
    /// The oldest of each are stored together, and are found without an index by age.
    private static let writes = """
        CREATE TABLE done_write (
            generation INTEGER NOT NULL,
            user INTEGER NOT NULL REFERENCES user (id),
            id TEXT NOT NULL,
            print INTEGER NOT NULL,
            places BLOB NOT NULL,
            PRIMARY KEY (generation, user, id)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE signed_write (
            signed_at INTEGER NOT NULL,
            fingerprint BLOB NOT NULL,
            PRIMARY KEY (signed_at, fingerprint)
        ) STRICT, WITHOUT ROWID;

        """
}

extension StoreLayout {
    /// The suffix of a file's name while the file is being created.
    static let draftEnding = ".new"

    /// Creates a store's file with its tables, in one step, if there is none and has been none.
    ///
    /// A file that was only begun would look like one that has lost everything.
    static func makeFile(_ path: String, _ disk: DiskCalls) throws {
        try makeMissing(path, disk)
        StoreMarker.make(for: path)
    }

    /// Throws if a store's file belongs to another program, or `LayoutError` if this version cannot open it.
    ///
    /// Each store gets its file and its tables in one step. Creating tables in a file without them would tell devices
    /// that all their zones are gone.
    static func requireOwnFile(_ database: Database, _ path: String) throws {
        guard try database.tableExists("zone_run") else {
            guard let mark = StoreMarker.name(for: path) else { return }
            let name = (path as NSString).lastPathComponent
            let fault = "\(name) is not a relay's store; to start with an empty one, remove it and \(mark)"
            DamageLog.note(fault, of: path)
            throw StoreFailure.damaged("\(path): \(fault)")
        }
        _ = try file.version(of: database)
    }

    private static func makeMissing(_ path: String, _ disk: DiskCalls) throws {
        guard access(path, F_OK) != 0 else { return }
        try WALCheck.requireIntact(path)
        let folder = (path as NSString).deletingLastPathComponent
        let lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard lock >= 0 else { throw DiskCalls.Failure("open") }
        defer { close(lock) }
        while flock(lock, LOCK_EX) != 0 { guard errno == EINTR else { throw DiskCalls.Failure("flock") } }
        // A process that is just being started has a copy of the descriptor: closing ours would not release the lock.
        defer { flock(lock, LOCK_UN) }
        guard access(path, F_OK) != 0 else { return }
        let draft = path + draftEnding
        for ending in ["", "-wal", "-shm"] { unlink(draft + ending) }
        var configuration = Configuration()
        configuration.prepareDatabase { database in
            CheckedVFS.reserveChecksumSpace(database)
            // Flushed below, all at once. Without a log: a failure to copy it into the file would not be reported.
            try database.execute(sql: "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF")
        }
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: draft), configuration: configuration)
        try queue.inDatabase { try file.migrate($0) }
        // While the file is empty, so that its first use need not change it.
        try queue.enableDurableLog()
        try queue.close()
        // Useless once the file has another name.
        for ending in ["-wal", "-shm"] { unlink(draft + ending) }
        try disk.flush(draft)
        guard disk.rename(draft, path) == 0 else { throw DiskCalls.Failure("rename") }
        try disk.flush(folder)
    }
}
