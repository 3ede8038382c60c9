public import Foundation
import GRDB
import Records
public import ZoneKit

/// The sync state of an object.
public enum SyncState: String, Hashable, Sendable {
    /// Its store is not mirrored.
    case localOnly
    /// It has changes that were not sent yet.
    case pending
    /// Its changes are being sent.
    case sending
    /// It is the same here and on the relay.
    case synced
    /// It was changed here and on the relay; the merged object is sent again.
    case conflicted
    /// The relay refused the change; see `rejectedWrites`.
    case refused
}

/// An explanation of an object's sync state, as text.
public struct Explanation: Hashable, Sendable, CustomStringConvertible {
    /// The object's sync state.
    public var state: SyncState
    /// The time since when it has this state, if known.
    public var since: Date?
    /// The reason for the state.
    public var reason: String
    /// What happens next.
    public var next: String
    /// The properties whose value this version of the app cannot read: they show their default, and the value is kept.
    public var unreadProperties: [String] = []

    /// The reason and the next step as two sentences.
    public var description: String { "\(reason) \(next)" }
}

extension MirroredContainer {
    /// Returns an object's sync state.
    ///
    /// - Throws: `objectUnavailable` if the object does not exist.
    public func syncState(of object: ObjectID) async throws(MirrorError) -> SyncState {
        try await explain(object).state
    }

    /// Explains an object's sync state: since when, why, and what happens next.
    ///
    /// - Throws: `objectUnavailable` if the object does not exist.
    public func explain(_ object: ObjectID) async throws(MirrorError) -> Explanation {
        guard let store = object.store else {
            return Explanation(
                state: .localOnly,
                reason: "The object has not been saved.",
                next: "Save its context to send it."
            )
        }
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        guard file.isMirrored else {
            let explanation = Explanation(
                state: .localOnly,
                reason: "Its store is local only.",
                next: "It is never sent to a relay."
            )
            return try await reading(store) { try Explainer.addUnread(object, $0, file, to: explanation) }
        }
        let sync = sync(store)
        let isSending = await sync?.exports.inFlight.contains(object.name.text) ?? false
        let lastError = await sync?.lastError
        return try await reading(store) { db in
            let explainer = Explainer(db: db, file: file, isSending: isSending, lastError: lastError)
            return try Explainer.addUnread(object, db, file, to: explainer.explain(object))
        }
    }
}

/// Builds the explanation from what the file knows about an object.
private struct Explainer {
    let db: Database
    let file: StoreFile
    let isSending: Bool
    let lastError: CKError?

    func explain(_ object: ObjectID) throws -> Explanation {
        let oid = object.name.text
        if try OutboxRow.belongsToOtherUser(db, oid) {
            return Explanation(
                state: .pending,
                reason: "Another user of this device has changed it, and the change has not been sent.",
                next: "The change is sent when that user signs in again."
            )
        }
        // An unsent change is newer than a refused one.
        if let row = try OutboxRow.find(db, oid) { return try pending(row) }
        if let refused = try refusal(oid) { return refused }
        guard let known = try KnownRecord.find(db, oid: oid), known.state.isInZone else {
            guard let table = file.mapping.tables[object.entity], try table.row(db, oid) != nil else {
                throw MirrorError.unavailable(.init(entity: object.entity, id: oid))
            }
            return Explanation(
                state: .pending,
                reason: "The relay does not have it.",
                next: "It is sent with its next change."
            )
        }
        return Explanation(
            state: .synced,
            since: try State.number(db, .lastExport).map { Date(timeIntervalSince1970: $0) },
            reason: "It equals the relay's version as of the last fetch.",
            next: "Changes by others are fetched automatically."
        )
    }

    /// Adds the properties of an object whose values cannot be read.
    static func addUnread(
        _ object: ObjectID,
        _ db: Database,
        _ file: StoreFile,
        to explanation: Explanation
    ) throws -> Explanation {
        let oid = object.name.text
        guard let table = file.mapping.tables[object.entity], let row = try table.row(db, oid) else {
            return explanation
        }
        var names = file.model.unreadProperties(of: row, table)
        let mistypedProperties = try file.mapping.mistypedProperties(
            in: KnownRecord.find(db, oid: oid)?.serverFields() ?? [:],
            of: table
        )
        names += mistypedProperties.filter { !names.contains($0) }
        guard !names.isEmpty else { return explanation }
        var explanation = explanation
        explanation.unreadProperties = names
        let values = names.count == 1 ? "a value of \(names[0])" : "values of \(names.joined(separator: ", "))"
        explanation.reason += " It has \(values) that this version of the app cannot read."
        explanation.next += " The default is shown instead, and the value is kept until the property is set."
        return explanation
    }

    private func refusal(_ oid: String) throws -> Explanation? {
        let sql = """
            SELECT message, at FROM mirror_refused WHERE oid = ? AND account IS NULL ORDER BY id DESC LIMIT 1
            """
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [oid]) else { return nil }
        return Explanation(
            state: .refused,
            since: Date(timeIntervalSince1970: row[1]),
            reason: "The relay refused the change: \(row[0] as String)",
            next: "It is not retried automatically. Retry, discard or export it from rejectedWrites."
        )
    }

    private func pending(_ row: OutboxRow) throws -> Explanation {
        let sql = """
            SELECT t.at, t.author FROM mirror_change c JOIN mirror_transaction t ON t.id = c.txn WHERE c.seq = ?
            """
        let begun = try Row.fetchOne(db, sql: sql, arguments: [row.place])
        // For an object from before the store was mirrored, the time of queueing is not the time of the change.
        let isFromBefore = begun.flatMap { $0[1] as String? } == ExistingObjects.author
        let since = isFromBefore ? nil : begun.map { Date(timeIntervalSince1970: $0[0]) }
        if isSending {
            return Explanation(
                state: .sending,
                since: since,
                reason: "Its change is being sent to the relay.",
                next: "The relay's response confirms or rejects it."
            )
        }
        if row.state != .ready {
            return Explanation(
                state: .pending,
                since: since,
                reason: "Its change waits: \(row.error ?? "an object that it depends on is not on the relay yet.")",
                next: "It is retried after the next successful send."
            )
        }
        if try State.text(db, .quotaIsFull) != nil {
            return Explanation(
                state: .pending,
                since: since,
                reason: "The quota on the relay is exhausted.",
                next: "It is sent after data is deleted or the quota is raised."
            )
        }
        if row.code == CKError.Code.serverRecordChanged.rawValue {
            return Explanation(
                state: .conflicted,
                since: since,
                reason: "It was changed here and elsewhere at the same time; both changes were merged.",
                next: "The merged object is sent automatically as soon as possible."
            )
        }
        let reason = lastError.map { "It could not be sent so far: \($0.localizedDescription)" }
        let usual =
            isFromBefore
            ? "The relay does not have it: it was created while its store was local, and has not been sent yet."
            : "Its change has not been sent yet."
        return Explanation(
            state: .pending,
            since: since,
            reason: reason ?? row.error ?? usual,
            next: "It is sent automatically as soon as possible."
        )
    }
}

/// The records of objects.
extension MirroredContainer {
    /// Returns an object's record as the relay had it last; `nil` if it was never sent.
    public func record(for object: ObjectID) async throws(MirrorError) -> CKRecord? {
        guard let store = object.store else { return nil }
        return try await reading(store) { db in
            guard let known = try KnownRecord.find(db, oid: object.name.text), known.state.isInZone,
                let zone = try KnownZone.find(db, id: known.zone)
            else { return nil }
            let record = try known.record(db, in: zone.zone)
            return CKRecord(state: ZoneKit.RecordState(record, id: CKRecord.ID(record.id)))
        }
    }

    /// Returns the ID of an object's record; `nil` if it was never sent.
    public func recordID(for object: ObjectID) async throws(MirrorError) -> CKRecord.ID? {
        try await record(for: object)?.recordID
    }

    /// Returns the records of several objects; objects that were never sent are left out.
    public func records(for objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKRecord] {
        var found: [ObjectID: CKRecord] = [:]
        for object in objects { found[object] = try await record(for: object) }
        return found
    }

    /// Returns the record IDs of several objects; objects that were never sent are left out.
    public func recordIDs(for objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKRecord.ID] {
        try await records(for: objects).mapValues(\.recordID)
    }
}

extension KnownRecord {
    /// Returns the record as the relay had it last.
    func record(_ db: Database, in zone: ZoneID) throws -> Record {
        var record = Record(id: RecordID(name, in: zone), type: type, fields: allFields(), changeTag: changeTag)
        let sql = "SELECT created, creator, modified, modifier, parent, share FROM mirror_record WHERE id = ?"
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [id]) else { return record }
        func stamp(_ at: Int64?, _ by: String?) -> Record.Stamp? {
            guard let at, let by else { return nil }
            return Record.Stamp(at: Timestamp(milliseconds: at), by: UserID(by), deviceID: "")
        }
        record.created = stamp(row[0], row[1])
        record.modified = stamp(row[2], row[3])
        record.parent = row[4]
        record.share = row[5]
        record.encryptedFields = encryptedFields().filter { record.fields[$0].map { ZoneSeal.isSealed($0) } ?? false }
        return record
    }
}

/// Unsent changes.
extension MirroredContainer {
    /// Returns the objects with unsent changes, oldest first.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - states: Only objects in these states. The default is all.
    /// - Returns: The objects.
    /// - Throws: `unknownStore`; SQLite's errors.
    public func pendingExports(
        _ store: StoreID,
        in states: Set<SyncState>? = nil
    ) async throws(MirrorError) -> [ObjectID] {
        let all = try await reading(store) { db in
            try OutboxRow.all(db).map { ObjectID(store: store, entity: $0.entity, name: RecordName($0.oid)) }
        }
        guard let states else { return all }
        var found: [ObjectID] = []
        for object in all where states.contains(try await syncState(of: object)) { found.append(object) }
        return found
    }

    /// Drops an object's unsent change: the object returns to the relay's last version.
    ///
    /// An object that the relay does not have is removed; without an unsent change, nothing happens. A deleted object
    /// is restored with the links that the relay has and that were removed with it, including those of other objects.
    ///
    /// - Throws: `objectUnavailable` if the change belongs to another user who shares the file; SQLite's errors.
    public func dropPendingExport(of object: ObjectID) async throws(MirrorError) {
        guard let store = object.store, let file = stores.file(store) else { return }
        let now = conditions.wallClock()
        try await writing(store) { db in
            guard let table = file.mapping.tables[object.entity] else { return }
            if try OutboxRow.belongsToOtherUser(db, object.name.text) {
                throw MirrorError(
                    .objectUnavailable,
                    "This change belongs to another user, who can discard it when signed in."
                )
            }
            guard let pending = try OutboxRow.find(db, object.name.text) else { return }
            try RecordTable(db).discardChange(of: object.name.text)
            try Importer.run(db, file, at: now) { importer in
                let current = try table.row(db, object.name.text)
                try importer.revert(object.name.text, table, current)
                if current == nil { try importer.restoreLinks(object.name.text, table, deletion: pending.version) }
            }
        }
    }
}
