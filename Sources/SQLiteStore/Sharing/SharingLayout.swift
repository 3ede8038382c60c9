/// The tables derived from share records, which allow lookups by user, address, link and record.
enum SharingLayout {
    static let tables = """
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
            allows_requests INTEGER NOT NULL DEFAULT 0,
            -- whether there are any, which saves nearly everybody the look
            has_aliases INTEGER NOT NULL DEFAULT 0,
            -- the latest change of a removed entry that was gone; 0 if none was removed
            horizon INTEGER NOT NULL DEFAULT 0,
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
            has_asked INTEGER NOT NULL DEFAULT 0,
            added INTEGER,
            PRIMARY KEY (share, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX participant_by_user ON participant (user) WHERE user IS NOT NULL;
        CREATE INDEX participant_by_email ON participant (email) WHERE email IS NOT NULL AND user IS NULL;
        CREATE INDEX participant_by_phone ON participant (phone) WHERE phone IS NOT NULL AND user IS NULL;

        -- Requests for access to shares, and blocked users.
        CREATE TABLE share_request (
            share INTEGER NOT NULL REFERENCES share (id) ON DELETE CASCADE,
            user INTEGER NOT NULL,
            place INTEGER NOT NULL,
            blocked INTEGER NOT NULL,
            PRIMARY KEY (share, user)
        ) STRICT, WITHOUT ROWID;

        -- Names that participants chose for records, while the zone used them for records that they cannot see.
        CREATE TABLE share_alias (
            share INTEGER NOT NULL REFERENCES share (id) ON DELETE CASCADE,
            shown TEXT NOT NULL,
            kept TEXT NOT NULL,
            PRIMARY KEY (share, shown)
        ) STRICT, WITHOUT ROWID;
        -- checks a new name against those that the relay has assigned, of which there may be many
        CREATE INDEX share_alias_by_kept ON share_alias (share, kept);

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
        -- With `record` and `type`, a page of the feed looks nothing up by name, and reveals nothing about a later record
        -- of the same name.
        CREATE TABLE share_entry (
            share INTEGER NOT NULL,
            name TEXT NOT NULL,
            zone INTEGER NOT NULL,
            change INTEGER NOT NULL,
            -- a raw value of `HierarchyEntry.State`
            gone INTEGER NOT NULL,
            -- The record's own number, where it came with one above it and stands elsewhere in the feed; NULL: `change`.
            record INTEGER,
            -- Of one that is gone: its type when it was seen last.
            type INTEGER,
            PRIMARY KEY (share, name)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX share_entry_by_name ON share_entry (name, zone) WHERE gone = 0;
        -- has all columns of an entry that a feed needs, so that a page does not read each entry itself
        CREATE INDEX share_entry_by_change ON share_entry (share, change, gone, record, type);
        """
}
