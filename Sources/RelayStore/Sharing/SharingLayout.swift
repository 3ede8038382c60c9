import GRDB
import Records

/// The state of a record in a shared hierarchy, in `share_entry.gone`.
enum EntryState: Int64 {
    case present = 0
    /// Deleted, or taken out before the relay stored the difference.
    case deleted = 1
    /// It still exists, outside of this hierarchy.
    case outOfSight = 2
}

/// The tables derived from share records, which allow lookups by user, address, link and record.
enum SharingLayout {
    static let tables = """
        -- 0 nothing in it is shared, 1 all of it, 2 hierarchies
        ALTER TABLE zone ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;

        CREATE TABLE share (
            id INTEGER PRIMARY KEY,
            zone INTEGER NOT NULL,
            name TEXT NOT NULL,
            -- NULL: the whole zone
            root TEXT,
            guid TEXT NOT NULL UNIQUE,
            public_permission INTEGER NOT NULL,
            -- of a hierarchy: the greatest number among its entries
            last_change INTEGER NOT NULL DEFAULT 0,
            UNIQUE (zone, name)
        ) STRICT;

        CREATE TABLE participant (
            share INTEGER NOT NULL REFERENCES share (id) ON DELETE CASCADE,
            id TEXT NOT NULL,
            place INTEGER NOT NULL,
            role INTEGER NOT NULL,
            permission INTEGER NOT NULL,
            accepted INTEGER NOT NULL,
            user INTEGER,
            email TEXT,
            phone TEXT,
            PRIMARY KEY (share, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX participant_by_user ON participant (user) WHERE user IS NOT NULL;
        CREATE INDEX participant_by_email ON participant (email) WHERE email IS NOT NULL AND user IS NULL;
        CREATE INDEX participant_by_phone ON participant (phone) WHERE phone IS NOT NULL AND user IS NULL;

        -- What users have been given, or had: the log of their shared databases.
        CREATE TABLE shared_zone (
            user INTEGER NOT NULL,
            zone INTEGER NOT NULL,
            identity INTEGER NOT NULL,
            change INTEGER NOT NULL,
            ended INTEGER NOT NULL,
            PRIMARY KEY (user, zone)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX shared_zone_by_zone ON shared_zone (zone, user) WHERE ended = 0;

        -- The records of each shared hierarchy, at their places in its feed; those that have left it stay as gone.
        CREATE TABLE share_entry (
            share INTEGER NOT NULL,
            name TEXT NOT NULL,
            zone INTEGER NOT NULL,
            change INTEGER NOT NULL,
            gone INTEGER NOT NULL,
            PRIMARY KEY (share, name)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX share_entry_by_change ON share_entry (share, change);
        CREATE INDEX share_entry_by_name ON share_entry (name, zone) WHERE gone = 0;
        """

    /// An index with all columns of an entry that a feed needs, so that a page does not read each entry itself.
    static let feeds = """
        DROP INDEX share_entry_by_change;
        CREATE INDEX share_entry_by_change ON share_entry (share, change, gone);
        """

    /// Columns for entries whose record has another change number, or is gone.
    ///
    /// With them a page of the feed looks nothing up by name, and reveals nothing about a later record of the same
    /// name.
    static let lastSeen = """
        -- The record's own number, where it came with one above it and stands elsewhere in the feed; NULL: `change`.
        ALTER TABLE share_entry ADD COLUMN record INTEGER;
        -- Of one that is gone: its type when it was seen last.
        ALTER TABLE share_entry ADD COLUMN type INTEGER;

        UPDATE share_entry SET record = (
            SELECT r.change FROM record r WHERE r.name = share_entry.name AND r.zone = share_entry.zone
        ) WHERE gone = 0 AND NOT EXISTS (
            SELECT 1 FROM record r NOT INDEXED
            WHERE r.change = share_entry.change AND r.zone = share_entry.zone AND r.name = share_entry.name);
        UPDATE share_entry SET type = (
            SELECT r.type FROM record r WHERE r.name = share_entry.name AND r.zone = share_entry.zone
        ) WHERE gone = 1;

        DROP INDEX share_entry_by_change;
        CREATE INDEX share_entry_by_change ON share_entry (share, change, gone, record, type);
        """

    /// Requests for access to shares, and blocked users.
    static let requests = """
        ALTER TABLE share ADD COLUMN allows_requests INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE participant ADD COLUMN has_asked INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE participant ADD COLUMN added INTEGER;

        CREATE TABLE share_request (
            share INTEGER NOT NULL REFERENCES share (id) ON DELETE CASCADE,
            user INTEGER NOT NULL,
            place INTEGER NOT NULL,
            blocked INTEGER NOT NULL,
            PRIMARY KEY (share, user)
        ) STRICT, WITHOUT ROWID;

        """

    /// Names that participants chose for records, while the zone used them for records that they cannot see.
    static let aliases = """
        -- whether there are any, which saves nearly everybody the look
        ALTER TABLE share ADD COLUMN has_aliases INTEGER NOT NULL DEFAULT 0;

        CREATE TABLE share_alias (
            share INTEGER NOT NULL REFERENCES share (id) ON DELETE CASCADE,
            shown TEXT NOT NULL,
            kept TEXT NOT NULL,
            PRIMARY KEY (share, shown)
        ) STRICT, WITHOUT ROWID;
        """

    /// The latest change of a removed entry that was gone; 0 if none was removed.
    static let horizons = "ALTER TABLE share ADD COLUMN horizon INTEGER NOT NULL DEFAULT 0;"

    /// An index to check a new name against those that the relay has assigned, of which there may be many.
    static let keptNames = "CREATE INDEX share_alias_by_kept ON share_alias (share, kept)"

    /// Puts the addresses of invitations into the one spelling in which they are compared with those of accounts.
    static func respellAddresses(_ database: Database) throws {
        let written = try String.fetchAll(
            database,
            sql: "SELECT DISTINCT email FROM participant WHERE email IS NOT NULL"
        )
        for text in written {
            guard let canonical = EmailAddress.canonical(text), canonical != text else { continue }
            try database.execute(
                sql: "UPDATE participant SET email = ? WHERE email = ?",
                arguments: [canonical, text]
            )
        }
    }
}
