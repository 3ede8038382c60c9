/// A file that version 1 of the mirror's tables has written: its statements, and a record in every state.
///
/// The tables and triggers are those of the last commit with that version, for one entity `Item` with a text `word`.
let storeOfVersion1 = """
    CREATE TABLE mirror_state(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    CREATE TABLE mirror_local(importing INTEGER NOT NULL, txn INTEGER NOT NULL);
    CREATE TABLE mirror_zone(
        id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, token TEXT,
        isThere INTEGER NOT NULL DEFAULT 0, isUnfetched INTEGER NOT NULL DEFAULT 0,
        sweep INTEGER NOT NULL DEFAULT 0, fetchedAt REAL, isEnding INTEGER NOT NULL DEFAULT 0,
        copies TEXT, UNIQUE(name, owner));
    CREATE TABLE mirror_record(
        id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT, entity TEXT,
        type TEXT NOT NULL, tag TEXT, created INTEGER, creator TEXT, modified INTEGER, modifier TEXT,
        parent TEXT, share TEXT, fields BLOB, seen INTEGER NOT NULL DEFAULT 0,
        isLocked INTEGER NOT NULL DEFAULT 0, UNIQUE(zone, name));
    CREATE UNIQUE INDEX mirror_record_oid ON mirror_record(oid) WHERE oid IS NOT NULL;
    CREATE TABLE mirror_share(
        zone INTEGER NOT NULL, name TEXT NOT NULL, details BLOB NOT NULL, permission TEXT,
        PRIMARY KEY(zone, name)) WITHOUT ROWID;
    CREATE TABLE mirror_outbox(
        place INTEGER PRIMARY KEY, oid TEXT NOT NULL UNIQUE, entity TEXT NOT NULL, op TEXT NOT NULL,
        version INTEGER NOT NULL, isAttempted INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
        held TEXT, error TEXT, code INTEGER, account TEXT);
    CREATE INDEX mirror_record_alias ON mirror_record(oid) WHERE oid IS NOT NULL AND oid <> name;
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
    CREATE TABLE mirror_move(zone INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT NOT NULL,
        dropsZone INTEGER NOT NULL, target INTEGER NOT NULL, tag TEXT, PRIMARY KEY(zone, name, dropsZone));
    CREATE TABLE mirror_departed(
        zone INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY(zone, name)) WITHOUT ROWID;
    CREATE TABLE mirror_duplicate(oid TEXT PRIMARY KEY, entity TEXT NOT NULL, keeper TEXT NOT NULL,
        isExported INTEGER NOT NULL DEFAULT 0, isImported INTEGER NOT NULL DEFAULT 0, keys TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE "Item"(id TEXT PRIMARY KEY NOT NULL DEFAULT (hex(randomblob(16))), "word" TEXT DEFAULT '');
    CREATE TRIGGER "mirror_Item_replaced" AFTER INSERT ON "Item"
    WHEN (SELECT importing FROM mirror_local) = 0
    AND EXISTS (SELECT 1 FROM mirror_replaced WHERE entity = 'Item' AND oid = new.id) BEGIN
    DELETE FROM mirror_replaced WHERE entity = 'Item' AND oid = new.id;
    END;
    CREATE TRIGGER "mirror_Item_replaces" BEFORE INSERT ON "Item"
    WHEN (SELECT importing FROM mirror_local) = 0 AND EXISTS (SELECT 1 FROM "Item" WHERE id = new.id) BEGIN
    INSERT INTO mirror_replaced(entity, oid, at) VALUES ('Item', new.id, 0)
    ON CONFLICT(entity, oid) DO UPDATE SET at = 0;
    INSERT OR IGNORE INTO mirror_replaced(entity, oid, at) VALUES ('Item', new.id, julianday('now'));
    DELETE FROM mirror_replaced WHERE entity = 'Item' AND oid = new.id AND at = 0;
    UPDATE "Item" SET "word" = new."word" WHERE id = new.id AND EXISTS (SELECT 1 FROM mirror_replaced
    WHERE entity = 'Item' AND oid = new.id AND at = julianday('now'));
    END;
    CREATE TRIGGER "mirror_Item_insert" AFTER INSERT ON "Item"
    WHEN (SELECT importing FROM mirror_local) = 0 AND NOT EXISTS (SELECT 1 FROM mirror_replaced
    WHERE entity = 'Item' AND oid = new.id AND at = julianday('now')) BEGIN
    SELECT RAISE(ABORT, 'The id of a mirrored object has 1 to 255')
    WHERE length(new.id) NOT BETWEEN 1 AND 255 OR new.id GLOB '*[^ -~]*' OR new.id = 'cloudkit.zoneshare';
    SELECT RAISE(ABORT, 'An object of another entity has this nam')
    WHERE EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = new.id AND entity <> 'Item')
    OR EXISTS (SELECT 1 FROM mirror_record WHERE oid = new.id AND entity <> 'Item');
    INSERT INTO mirror_change(txn, oid, entity, kind, names, kept)
    VALUES ((SELECT txn FROM mirror_local), new.id, 'Item', 1, NULL, NULL);
    INSERT INTO mirror_outbox(place, oid, entity, op, version)
    VALUES (last_insert_rowid(), new.id, 'Item', 'save', last_insert_rowid())
    ON CONFLICT(oid) DO UPDATE SET op = excluded.op, version = excluded.version, held = NULL;
    END;
    CREATE TRIGGER "mirror_Item_update" AFTER UPDATE ON "Item"
    WHEN (SELECT importing FROM mirror_local) = 0 AND (old."word" IS NOT new."word") BEGIN
    INSERT INTO mirror_change(txn, oid, entity, kind, names, kept)
    VALUES ((SELECT txn FROM mirror_local), new.id, 'Item', 2,
    rtrim(CASE WHEN old."word" IS NOT new."word" THEN 'word,' ELSE '' END, ','), NULL);
    INSERT INTO mirror_outbox(place, oid, entity, op, version)
    VALUES (last_insert_rowid(), new.id, 'Item', 'save', last_insert_rowid())
    ON CONFLICT(oid) DO UPDATE SET op = excluded.op, version = excluded.version, held = NULL;
    END;
    CREATE TRIGGER "mirror_Item_delete" AFTER DELETE ON "Item"
    WHEN (SELECT importing FROM mirror_local) = 0 AND NOT EXISTS (SELECT 1 FROM mirror_replaced
    WHERE entity = 'Item' AND oid = old.id AND at = julianday('now')) BEGIN
    INSERT INTO mirror_change(txn, oid, entity, kind, names, kept)
    VALUES ((SELECT txn FROM mirror_local), old.id, 'Item', 3, NULL, NULL);
    INSERT INTO mirror_outbox(place, oid, entity, op, version)
    VALUES (last_insert_rowid(), old.id, 'Item', 'delete', last_insert_rowid())
    ON CONFLICT(oid) DO UPDATE SET op = excluded.op, version = excluded.version, held = NULL;
    DELETE FROM mirror_outbox WHERE oid = old.id AND isAttempted = 0
    AND NOT EXISTS (SELECT 1 FROM mirror_record WHERE oid = old.id AND tag IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM mirror_move WHERE oid = old.id);
    DELETE FROM mirror_link WHERE oid = old.id;
    END;
    CREATE TRIGGER "mirror_Item_identity" BEFORE UPDATE OF id ON "Item"
    WHEN old.id IS NOT new.id BEGIN
    SELECT RAISE(ABORT, 'The id of a mirrored object cannot chang');
    END;
    INSERT INTO mirror_state VALUES ('version', 1), ('identity', '07475313080AFA23'), ('layout', '1 true true []'),
        ('types', '{"Item":{"word":"text"}}');
    INSERT INTO mirror_local VALUES (1, 0);
    INSERT INTO mirror_zone(id, name, owner, isThere) VALUES
        (1, 'com.apple.coredata.cloudkit.zone', '__defaultOwner__', 1), (2, 'Share-1', '__defaultOwner__', 1);
    INSERT INTO "Item" VALUES ('synced', 'x'), ('edited', 'y'), ('unsent', 'x'), ('new', 'x'), ('creating', 'x'),
        ('outdated', 'x'), ('awaited', 'x'), ('locked', 'x'), ('moving', 'x'), ('copying', 'x'), ('back', 'x'),
        ('gone', 'x');
    INSERT INTO mirror_record(zone, name, oid, entity, type, tag, fields, isLocked)
    SELECT CASE WHEN id IN ('moving', 'copying') THEN 2 ELSE 1 END, id, id, 'Item', 'CD_Item',
        CASE WHEN id IN ('new', 'creating', 'moving', 'copying', 'back') THEN NULL
            WHEN id = 'outdated' THEN '0' WHEN id = 'awaited' THEN '00' ELSE 't1' END,
        CAST('{"CD_word":{"value":"x","type":"STRING"}}' AS BLOB), id = 'locked'
    FROM "Item" WHERE id <> 'unsent';
    INSERT INTO mirror_record(zone, name, oid, entity, type, tag)
    VALUES (1, 'deleted', 'deleted', 'Item', 'CD_Item', 't1'), (1, 'unknown', NULL, NULL, 'Later', 't1');
    INSERT INTO mirror_move VALUES (1, 'moving', 'moving', 0, 2, 't1'), (1, 'copying', 'copying', 0, 2, '0'),
        (1, 'back', 'back', 0, 2, 't1');
    INSERT INTO mirror_departed VALUES (1, 'gone');
    INSERT INTO mirror_outbox(place, oid, entity, op, version, isAttempted, held) VALUES
        (1, 'edited', 'Item', 'save', 1, 0, 'waiting'), (2, 'deleted', 'Item', 'delete', 2, 0, NULL),
        (3, 'unsent', 'Item', 'save', 3, 0, NULL), (4, 'new', 'Item', 'save', 4, 0, NULL),
        (5, 'creating', 'Item', 'save', 5, 1, NULL), (6, 'moving', 'Item', 'save', 6, 0, NULL),
        (7, 'copying', 'Item', 'save', 7, 1, NULL), (8, 'back', 'Item', 'save', 8, 0, NULL);
    INSERT INTO mirror_change(seq, txn, oid, entity, kind) SELECT place, 1, oid, entity, 1 FROM mirror_outbox;
    UPDATE mirror_local SET importing = 0;
    """
