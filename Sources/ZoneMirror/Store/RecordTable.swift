package import Foundation
package import GRDB
import Records
package import SyncCore

/// The only writer of `mirror_record`, `mirror_move` and `mirror_outbox`.
///
/// Defines the tables, converts them from earlier versions, and has the parts of the triggers that write them. Every
/// change of a record's state is a `RecordState` transition, and every change of what an unsent change waits for a
/// `ChangeState` transition.
package struct RecordTable {
    let db: Database

    package init(_ db: Database) { self.db = db }

    // MARK: Definition

    static let definition = """
        CREATE TABLE mirror_record(
            id INTEGER PRIMARY KEY, zone INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT, entity TEXT,
            type TEXT NOT NULL, tag TEXT, created INTEGER, creator TEXT, modified INTEGER, modifier TEXT,
            parent TEXT, share TEXT, fields BLOB, seen INTEGER NOT NULL DEFAULT 0, \(stateColumn), UNIQUE(zone, name));
        CREATE UNIQUE INDEX mirror_record_oid ON mirror_record(oid) WHERE oid IS NOT NULL;
        CREATE INDEX mirror_record_alias ON mirror_record(oid) WHERE oid IS NOT NULL AND oid <> name;
        \(stateIndex);
        CREATE TABLE mirror_move(zone INTEGER NOT NULL, name TEXT NOT NULL, oid TEXT NOT NULL,
            dropsZone INTEGER NOT NULL, target INTEGER NOT NULL, tag TEXT, PRIMARY KEY(zone, name, dropsZone));
        CREATE TABLE mirror_outbox(
            place INTEGER PRIMARY KEY, oid TEXT NOT NULL UNIQUE, entity TEXT NOT NULL, op TEXT NOT NULL,
            version INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, held TEXT, error TEXT, code INTEGER,
            account TEXT);
        """

    private static let stateColumn =
        "state TEXT NOT NULL DEFAULT 'synced' CHECK(state IN \(list { $0 != .absent }))"
    private static let stateIndex =
        "CREATE INDEX mirror_record_state ON mirror_record(state) WHERE \(unsettled)"
    /// A condition that a query needs besides `state = ?` to use the index, which leaves out nearly all records.
    static let unsettled = "state <> 'synced'"

    /// Returns states as a SQL list.
    static func list(_ isIncluded: (RecordState) -> Bool) -> String {
        "(" + RecordState.allCases.filter(isIncluded).map { "'\($0.rawValue)'" }.joined(separator: ", ") + ")"
    }

    /// The states of records that the relay is known to have under their present address, as a SQL list.
    static let inZone = list(\.isInZone)

    /// The next state as a SQL expression, for statements that change many records.
    private static func next(_ event: RecordEvent) -> String {
        let steps = RecordState.allCases.filter { $0.after(event).state != $0 }
        return "CASE state"
            + steps.map { " WHEN '\($0.rawValue)' THEN '\($0.after(event).state.rawValue)'" }.joined()
            + " ELSE state END"
    }

    /// Converts the tables of version 1, which expressed states by values of the change tag and by flags.
    ///
    /// The columns `isLocked` and `isAttempted` stay, unused: SQLite refuses to drop a column of a file in which the
    /// application has a view or trigger that cannot be compiled.
    static func convertFromFlags(_ db: Database) throws {
        let original = "FROM mirror_move m WHERE m.oid = mirror_record.oid AND m.dropsZone = 0"
        let back = "m.zone = r.zone AND m.name = r.name"
        try db.execute(
            sql: """
                ALTER TABLE mirror_record ADD COLUMN \(stateColumn);
                UPDATE mirror_record SET state = CASE
                    WHEN (zone, name) IN (SELECT zone, name FROM mirror_departed) THEN 'invisible'
                    WHEN tag = '0' THEN 'outdated'
                    WHEN tag = '00' THEN 'awaited'
                    WHEN tag IS NOT NULL THEN CASE isLocked WHEN 0 THEN 'synced' ELSE 'locked' END
                    WHEN EXISTS (SELECT 1 \(original) AND m.zone = mirror_record.zone AND m.name = mirror_record.name)
                        THEN 'outdated'
                    WHEN EXISTS (SELECT 1 \(original)) THEN
                        CASE WHEN oid IN (SELECT oid FROM mirror_outbox WHERE isAttempted) THEN 'copying' ELSE 'moving' END
                    WHEN oid IN (SELECT oid FROM mirror_outbox WHERE isAttempted) THEN 'creating'
                    ELSE 'new' END
                WHERE tag IS NULL OR tag IN ('0', '00') OR isLocked
                    OR (zone, name) IN (SELECT zone, name FROM mirror_departed);
                UPDATE mirror_record SET tag = NULL WHERE tag IN ('0', '00');
                UPDATE mirror_move SET tag = NULL WHERE tag IN ('0', '00');
                DELETE FROM mirror_move WHERE rowid IN (SELECT m.rowid FROM mirror_move m
                    JOIN mirror_record r ON r.oid = m.oid WHERE m.dropsZone = 0 AND \(back));
                DROP TABLE mirror_departed;
                \(stateIndex);
                """
        )
        try replaceInTriggers(db, deletionIsUnsentByFlags, by: deletionIsUnsent)
    }

    /// Replaces a part of the mirror's triggers.
    ///
    /// Creates all triggers of a table again, because the order of their creation is the order in which they fire.
    package static func replaceInTriggers(_ db: Database, _ old: String, by new: String) throws {
        let triggers = try Row.fetchAll(
            db,
            sql: """
                SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mirror\\_%' ESCAPE '\\'
                AND tbl_name IN (SELECT tbl_name FROM sqlite_master WHERE type = 'trigger' AND instr(sql, ?))
                ORDER BY rowid
                """,
            arguments: [old]
        )
        for trigger in triggers { try db.execute(sql: "DROP TRIGGER \((trigger[0] as String).quoted)") }
        for trigger in triggers { try db.execute(sql: (trigger[1] as String).replacingOccurrences(of: old, with: new)) }
    }

    // MARK: Triggers

    /// The statement that queues an operation on a record, replacing an earlier one in the same place of the queue.
    ///
    /// Follows the insert into `mirror_change` that numbers the change.
    static func queueing(_ id: String, _ entity: String, _ operation: Outbox.Operation) -> String {
        """
        INSERT INTO mirror_outbox(place, oid, entity, op, version)
        VALUES (last_insert_rowid(), \(id), \(entity), '\(operation.rawValue)', last_insert_rowid())
        ON CONFLICT(oid) DO UPDATE SET op = excluded.op, version = excluded.version, held = NULL;
        """
    }

    /// The statement that removes the deletion of the record `old.id` if the relay cannot have it.
    static let droppingUnsentDeletion = "DELETE FROM mirror_outbox WHERE oid = old.id AND \(deletionIsUnsent);"

    package static let deletionIsUnsent =
        "NOT EXISTS (SELECT 1 FROM mirror_record WHERE oid = old.id AND state <> 'new')"

    /// The same condition in the triggers of version 1.
    package static let deletionIsUnsentByFlags = """
        isAttempted = 0
        AND NOT EXISTS (SELECT 1 FROM mirror_record WHERE oid = old.id AND tag IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM mirror_move WHERE oid = old.id)
        """

    /// The condition that another entity uses the id `new.id`.
    static func isIDOfOtherEntity(than entity: String) -> String {
        """
        EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = new.id AND entity <> \(entity))
        OR EXISTS (SELECT 1 FROM mirror_record WHERE oid = new.id AND entity <> \(entity))
        """
    }

    /// The condition that another user has an unsent change of the object `old.id`.
    static let hasOtherUsersChange = "EXISTS (SELECT 1 FROM mirror_outbox WHERE oid = old.id AND account IS NOT NULL)"

    // MARK: Records

    /// Gives an object an address.
    package func address(zone: Int64, name: String, oid: String, entity: String, type: String) throws {
        let sql = """
            INSERT INTO mirror_record(zone, name, oid, entity, type, state) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT(zone, name) DO UPDATE SET oid = excluded.oid, entity = excluded.entity
            """
        try db.cachedStatement(sql: sql).run([
            zone.databaseValue, name.databaseValue, oid.databaseValue, entity.databaseValue, type.databaseValue,
            RecordState.absent.after(.addressed).state.rawValue.databaseValue,
        ])
    }

    /// Notes that an object is about to be sent as a new record.
    package func createSent(_ oid: String) throws {
        try db.cachedStatement(sql: "UPDATE mirror_record SET state = \(Self.next(.createSent)) WHERE oid = ?")
            .run([oid.databaseValue])
    }

    /// Stores a record that the relay sent.
    package func store(_ record: Record, zone: Int64, oid: String?, entity: String?, fields: Data, seen: Int64) throws {
        let sql = """
            INSERT INTO mirror_record(zone, name, oid, entity, type, tag, created, creator, modified, modifier, parent,
                share, fields, seen, state)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT(zone, name) DO UPDATE SET oid = excluded.oid, entity = excluded.entity, type = excluded.type,
                tag = excluded.tag, created = excluded.created, creator = excluded.creator,
                modified = excluded.modified, modifier = excluded.modifier, parent = excluded.parent,
                share = excluded.share, fields = excluded.fields, seen = excluded.seen, state = excluded.state
            """
        let state = RecordState.absent.after(record.isLocked ? .receivedLocked : .received).state
        try db.cachedStatement(sql: sql).run([
            zone.databaseValue, record.id.recordName.databaseValue, oid.databaseValue, entity.databaseValue,
            record.type.databaseValue, record.changeTag.databaseValue,
            (record.created?.at.milliseconds).databaseValue, (record.created?.by.recordName).databaseValue,
            (record.modified?.at.milliseconds).databaseValue, (record.modified?.by.recordName).databaseValue,
            record.parent.databaseValue, record.share.databaseValue, fields.databaseValue, seen.databaseValue,
            state.rawValue.databaseValue,
        ])
    }

    /// Notes that the relay has a version of a record that is not imported; `fields` replace the stored ones.
    package func superseded(_ known: KnownRecord, fields: Data? = nil, seen: Int64? = nil) throws {
        var values: [String: (any DatabaseValueConvertible)?] = [:]
        if let fields { values["fields"] = fields }
        if let seen { values["seen"] = seen }
        try apply(.superseded, to: known, setting: values)
    }

    /// Notes that no stored version is current.
    func allSuperseded() throws {
        try db.execute(
            sql: """
                UPDATE mirror_record SET state = \(Self.next(.superseded)), tag = NULL WHERE state IN \(Self.inZone)
                """
        )
    }

    /// Notes that values are missing that were not fetched with a record.
    ///
    /// A public database has no round that ends with a lookup; the next poll brings the record.
    package func contentMissing(_ known: KnownRecord, isPublic: Bool) throws {
        try apply(isPublic ? .superseded : .contentMissing, to: known)
    }

    /// Notes that the relay no longer has a record whose object stays; `base` replaces the stored fields.
    ///
    /// The original of a moving record is still there, and so are the fields to compare with.
    package func vanished(_ known: KnownRecord, base: Data? = nil) throws {
        let isNew = known.state.after(.vanished).state == .new
        try apply(.vanished, to: known, setting: isNew ? ["fields": base] : [:])
    }

    /// Assigns an object to another zone of its user; `type` is the record type of an object without an address.
    package func reassign(_ object: ObjectID, to zone: Int64, type: String?) throws {
        let oid = object.name.text
        guard let known = try KnownRecord.find(db, oid: oid) else {
            if let type { try address(zone: zone, name: oid, oid: oid, entity: object.entity, type: type) }
            try UnresolvedLinks.move(db, of: oid, to: zone)
            return try queue(oid, entity: object.entity, .save)
        }
        guard known.zone != zone else { return }
        if try goBack(known, to: zone) { return }
        let original = Original(zone: known.zone, name: known.name, tag: known.tag)
        try apply(.reassigned, to: known, at: (zone, try known.name(in: zone, db)), original: original)
    }

    /// Returns a moving object to the zone where its record still is; returns `false` if that is not there.
    private func goBack(_ known: KnownRecord, to zone: Int64) throws -> Bool {
        let sql = "SELECT name FROM mirror_move WHERE oid = ? AND zone = ? AND dropsZone = 0"
        guard known.state.isMoving, let oid = known.oid,
            let name = try String.fetchOne(db, sql: sql, arguments: [oid, zone]),
            try KnownRecord.find(db, zone: zone, name: name) == nil
        else { return false }
        try apply(.returned, to: known, at: (zone, name), original: Original(zone: zone, name: name))
        return true
    }

    /// Moves an object with unsent changes out of a zone that has ended.
    package func zoneEnded(_ known: KnownRecord, movingTo home: Int64) throws {
        if try goBack(known, to: home) { return }
        try apply(.zoneEnded, to: known, at: (home, try known.name(in: home, db)))
    }

    /// Assigns a record to the zone to which its former zone's feed says it has moved.
    package func expect(_ known: KnownRecord, in zone: KnownZone) throws {
        try apply(.expected, to: known, setting: ["seen": zone.sweep], at: (zone.id, known.name))
    }

    /// Notes that a record can no longer be seen.
    package func hide(_ known: KnownRecord) throws { try apply(.hidden, to: known) }

    package func remove(_ known: KnownRecord) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_record WHERE id = ?").execute(arguments: [known.id])
    }

    /// Removes all records of a zone and the originals in it.
    func removeAll(zone: Int64) throws {
        let moving = "SELECT oid FROM mirror_move WHERE zone = ? AND dropsZone = 0"
        try db.execute(
            sql: "UPDATE mirror_record SET state = \(Self.next(.originalGone)) WHERE oid IN (\(moving))",
            arguments: [zone]
        )
        try db.execute(sql: "DELETE FROM mirror_move WHERE zone = ?", arguments: [zone])
        try db.execute(sql: "DELETE FROM mirror_record WHERE zone = ?", arguments: [zone])
    }

    /// Marks a record as listed by a full fetch.
    func markSeen(_ known: KnownRecord, _ sweep: Int64) throws {
        try db.cachedStatement(sql: "UPDATE mirror_record SET seen = ? WHERE id = ?")
            .execute(arguments: [sweep, known.id])
    }

    /// Sets the parent of a record that is about to be sent for the first time.
    func setParent(_ parent: String, of oid: String) throws {
        try db.cachedStatement(sql: "UPDATE mirror_record SET parent = ? WHERE oid = ? AND state NOT IN \(Self.inZone)")
            .execute(arguments: [parent, oid])
    }

    /// Replaces the fields with which an object's values are compared.
    func setBase(_ fields: Data, of known: KnownRecord) throws {
        try db.execute(sql: "UPDATE mirror_record SET fields = ? WHERE id = ?", arguments: [fields, known.id])
    }

    /// Connects a record that the model did not know with its new object.
    func adopt(_ name: String, in zone: Int64, oid: String, entity: String) throws {
        try db.execute(
            sql: "UPDATE mirror_record SET oid = ?, entity = ? WHERE zone = ? AND name = ?",
            arguments: [oid, entity, zone, name]
        )
    }

    /// Sets the state after an event, with other values and a new address, and performs the effects.
    ///
    /// `original` is where the relay has the record, or no longer has it.
    private func apply(
        _ event: RecordEvent,
        to known: KnownRecord,
        setting values: [String: (any DatabaseValueConvertible)?] = [:],
        at address: (zone: Int64, name: String)? = nil,
        original: Original? = nil
    ) throws {
        let next = known.state.after(event)
        var values = values
        values.updateValue(next.state.rawValue, forKey: "state")
        if !next.state.hasVersion { values.updateValue(nil, forKey: "tag") }
        if let address { values.merge(["zone": address.zone, "name": address.name]) { $1 } }
        if next.effects.contains(.dropParent) { values.merge(["parent": nil, "share": nil]) { $1 } }
        let columns = values.sorted { $0.key < $1.key }
        let sql = "UPDATE mirror_record SET \(columns.map { "\($0.key) = ?" }.joined(separator: ", ")) WHERE id = ?"
        try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(columns.map(\.value) + [known.id]))
        if let address, let oid = known.oid { try UnresolvedLinks.move(db, of: oid, to: address.zone) }
        for effect in next.effects { try perform(effect, known, target: address?.zone ?? known.zone, original) }
    }

    private func perform(_ effect: RecordEffect, _ known: KnownRecord, target: Int64, _ original: Original?) throws {
        switch effect {
        case .keepOriginal:
            guard let original, let oid = known.oid else { return }
            try db.execute(
                sql: """
                    INSERT OR REPLACE INTO mirror_move(zone, name, oid, dropsZone, target, tag) VALUES (?, ?, ?, 0, ?, ?)
                    """,
                arguments: [original.zone, original.name, oid, target, original.tag]
            )
        case .forgetOriginal:
            if let original { return try forgetOriginal(original.name, in: original.zone) }
            if let oid = known.oid { try forgetOriginals(of: oid) }
        case .dropParent: return
        case .lookUp: try State.set(db, .awaitsRecords, "1")
        case .queueSave:
            if let oid = known.oid, let entity = known.entity { try queue(oid, entity: entity, .save) }
        case .releaseChange: if let oid = known.oid { try release(oid) }
        }
    }

    // MARK: Originals of moving records

    /// A record that its object has left; `tag` is `nil` if its version is unknown.
    package struct Original: Sendable {
        var zone: Int64
        package var name: String
        var tag: String?

        package init(zone: Int64, name: String, tag: String? = nil) {
            self.zone = zone
            self.name = name
            self.tag = tag
        }
    }

    /// Notes that the relay has saved a record in a zone from which its object was moved meanwhile.
    package func originalSaved(_ original: Original, of known: KnownRecord) throws {
        try apply(.originalSaved, to: known, original: original)
    }

    /// Notes another version of an original.
    func originalChanged(_ original: Original) throws {
        try db.execute(
            sql: "UPDATE mirror_move SET tag = ? WHERE zone = ? AND name = ? AND dropsZone = 0",
            arguments: [original.tag, original.zone, original.name]
        )
    }

    /// Notes that an original is gone, whose object stays for now.
    package func originalGone(_ original: Original, of known: KnownRecord) throws {
        try apply(.originalGone, to: known, original: original)
    }

    /// Notes that the relay has moved a record.
    package func moved(_ name: String, from: Int64, to: Int64) throws {
        // Records that the model does not know were kept in their old zone until now.
        if let unknown = try KnownRecord.find(db, zone: from, name: name), unknown.oid == nil {
            try apply(.superseded, to: unknown, at: (to, name))
        } else if let known = try KnownRecord.find(db, zone: to, name: name) {
            try apply(known.oid == nil ? .superseded : .moved, to: known, original: Original(zone: from, name: name))
        }
        try forgetOriginal(name, in: from)
    }

    func forgetOriginal(_ name: String, in zone: Int64) throws {
        try db.execute(
            sql: "DELETE FROM mirror_move WHERE zone = ? AND name = ? AND dropsZone = 0",
            arguments: [zone, name]
        )
    }

    func forgetOriginals(of oid: String) throws {
        try db.execute(sql: "DELETE FROM mirror_move WHERE oid = ? AND dropsZone = 0", arguments: [oid])
    }

    /// Marks a zone to be removed when everything in it has moved.
    func dropWhenEmpty(zone: Int64, movingTo target: Int64) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO mirror_move(zone, name, oid, dropsZone, target) VALUES (?, '', '', 1, ?)",
            arguments: [zone, target]
        )
    }

    /// Marks a zone's records that the model does not know to be moved; returns how many were not marked before.
    func moveUnknown(in zone: Int64, to target: Int64) throws -> Int {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO mirror_move(zone, name, oid, dropsZone, target, tag)
                SELECT zone, name, '', 0, ?, tag FROM mirror_record
                WHERE zone = ? AND oid IS NULL AND state IN \(Self.inZone) AND type <> ?
                """,
            arguments: [target, zone, Share.recordType]
        )
        return db.changesCount
    }

    // MARK: Unsent changes

    /// Queues an object that no statement has changed.
    package func queue(_ oid: String, entity: String, _ operation: Outbox.Operation) throws {
        let kind: ChangeKind = operation == .delete ? .delete : .update
        try db.execute(sql: HistoryTable.recording("?", "?", kind), arguments: [oid, entity])
        try db.execute(sql: Self.queueing("?", "?", operation), arguments: [oid, entity])
    }

    /// Queues the objects of a transaction of the history that are not queued yet.
    package func queue(changesOf transaction: Int64) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO mirror_outbox(place, oid, entity, op, version)
                SELECT seq, oid, entity, 'save', seq FROM mirror_change WHERE txn = ? ORDER BY seq
                """,
            arguments: [transaction]
        )
    }

    /// Removes an object's change: it was undone, or nothing is left to send.
    package func discardChange(of oid: String) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_outbox WHERE oid = ?").execute(arguments: [oid])
    }

    /// Removes an object's change that the relay has refused.
    package func changeRefused(_ oid: String, _ operation: Outbox.Operation) throws {
        try discardChange(of: oid)
        guard operation == .save else { return }
        try db.execute(
            sql: "UPDATE mirror_record SET state = \(Self.next(.createRefused)) WHERE oid = ?",
            arguments: [oid]
        )
    }

    /// Removes an object's change that the relay has confirmed as `version`; a later change stays.
    package func confirm(_ oid: String, version: Int64) throws {
        try db.cachedStatement(sql: "DELETE FROM mirror_outbox WHERE oid = ? AND version <= ?")
            .run([oid.databaseValue, version.databaseValue])
        if db.changesCount == 0 {
            try db.cachedStatement(sql: "UPDATE mirror_outbox SET tries = 0, error = NULL, code = NULL WHERE oid = ?")
                .run([oid.databaseValue])
        }
    }

    /// Stores why a change was not accepted; `counts` means that the failure is the change's own.
    func failed(_ oid: String, _ error: String?, code: Int, counts: Bool) throws {
        try db.cachedStatement(sql: "UPDATE mirror_outbox SET tries = tries + ?, error = ?, code = ? WHERE oid = ?")
            .execute(arguments: [counts ? 1 : 0, error, code, oid])
    }

    /// Holds an object's change back.
    package func hold(_ oid: String, _ event: ChangeEvent, _ reason: String, code: Int?) throws {
        try db.execute(
            sql: "UPDATE mirror_outbox SET held = ?, error = ?, code = ? WHERE oid = ?",
            arguments: [ChangeState.ready.after(event).rawValue, reason, code, oid]
        )
    }

    /// Makes an object's change sendable again.
    package func release(_ oid: String) throws {
        try db.cachedStatement(sql: "UPDATE mirror_outbox SET held = NULL WHERE oid = ?").execute(arguments: [oid])
    }

    /// Makes all changes sendable again that become so by an event.
    package func release(_ event: ChangeEvent) throws {
        let released = ChangeState.allCases.filter { $0 != .ready && $0.after(event) == .ready }
            .map { "'\($0.rawValue)'" }.joined(separator: ", ")
        try db.execute(sql: "UPDATE mirror_outbox SET held = NULL WHERE held IN (\(released))")
    }

    /// Marks an object's change as newer than what is being sent.
    func renumber(_ oid: String, _ version: Int64) throws {
        try db.execute(sql: "UPDATE mirror_outbox SET version = ? WHERE oid = ?", arguments: [version, oid])
    }

    /// Parks the unsent changes of the user who was signed in, and returns those of `user`.
    package func switchUser(from before: String?, to user: String?) throws {
        if let before, before != user {
            let sql = "UPDATE mirror_outbox SET account = ?, held = NULL WHERE account IS NULL"
            try db.execute(sql: sql, arguments: [before])
        }
        try db.execute(sql: "UPDATE mirror_outbox SET account = NULL WHERE account = ?", arguments: [user])
    }
}

extension RecordTable {
    /// Inserts records that are new here, through SQLite's C functions; for one transaction.
    struct Inserter {
        private let db: Database
        private let insertion: BoundStatement

        init(_ db: Database) throws {
            self.db = db
            insertion = try BoundStatement(
                db,
                """
                INSERT OR IGNORE INTO mirror_record(zone, name, oid, entity, type, tag, created, creator, modified,
                    modifier, parent, share, fields, seen, state)
                VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
                    '\(RecordState.absent.after(.received).state.rawValue)')
                """
            )
        }

        /// Returns `false` if a record of this name exists.
        func insert(_ new: Record, _ zone: KnownZone, _ entity: String, _ fields: [UInt8]) throws -> Bool {
            insertion.bind(1, zone.id)
            insertion.bind(2, new.id.recordName)
            insertion.bind(3, entity)
            insertion.bind(4, new.type)
            insertion.bind(5, new.changeTag)
            insertion.bind(6, new.created?.at.milliseconds)
            insertion.bind(7, new.created?.by.recordName)
            insertion.bind(8, new.modified?.at.milliseconds)
            insertion.bind(9, new.modified?.by.recordName)
            insertion.bind(10, new.parent)
            insertion.bind(11, new.share)
            insertion.bind(12, fields)
            insertion.bind(13, zone.sweep)
            return try insertion.run() > 0
        }

        func remove(_ name: String, in zone: KnownZone) throws {
            try db.execute(sql: "DELETE FROM mirror_record WHERE zone = ? AND name = ?", arguments: [zone.id, name])
        }
    }
}
