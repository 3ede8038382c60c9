public import Foundation
import GRDB
import Records
import SyncCore
public import ZoneKit

/// Where an object stands between its file and the relay.
public enum SyncState: String, Hashable, Sendable {
    /// Its store is not mirrored.
    case localOnly
    /// Changed here, and not yet sent.
    case pending
    /// On its way.
    case sending
    /// Here as on the relay.
    case synced
    /// Changed here and there; merged, and sent again.
    case conflicted
    /// The relay refused the change; see `rejectedWrites`.
    case refused
}

/// What is going on with one object, in words.
public struct Explanation: Hashable, Sendable, CustomStringConvertible {
    /// Where it stands.
    public var state: SyncState
    /// Since when, where that is known.
    public var since: Date?
    /// Why.
    public var reason: String
    /// What happens next.
    public var next: String

    /// All of it in two sentences.
    public var description: String { "\(reason) \(next)" }
}

extension MirroredContainer {
    /// Where an object stands.
    ///
    /// - Throws: `objectUnavailable` when there is none.
    public func syncState(of object: ObjectID) async throws(MirrorError) -> SyncState {
        try await explain(object).state
    }

    /// What is going on with an object: what, since when, why, and what happens next.
    ///
    /// - Throws: `objectUnavailable` when there is none.
    public func explain(_ object: ObjectID) async throws(MirrorError) -> Explanation {
        guard let store = object.store else {
            return Explanation(
                state: .localOnly,
                reason: "The object has not been saved.",
                next: "Save its context; then it is sent."
            )
        }
        guard let file = stores.file(store) else { throw MirrorError(.unknownStore, "\(store) is not open here.") }
        guard file.isMirrored else {
            return Explanation(
                state: .localOnly,
                reason: "Its store is local only.",
                next: "Nothing of it ever leaves this machine."
            )
        }
        let sync = sync(store)
        let isSending = await sync?.inFlight.contains(object.name.text) ?? false
        let trouble = await sync?.lastTrouble
        return try await reading(store) { db in
            try Explainer(db: db, file: file, isSending: isSending, trouble: trouble).explain(object)
        }
    }

    /// An object's record as the relay had it last; `nil` for one that was never sent.
    public func record(for object: ObjectID) async throws(MirrorError) -> CKRecord? {
        guard let store = object.store else { return nil }
        return try await reading(store) { db in
            guard let known = try KnownRecord.find(db, oid: object.name.text), known.tag != nil,
                let zone = try KnownZone.find(db, id: known.zone)
            else { return nil }
            let record = try known.record(db, in: zone.zone)
            return CKRecord(state: RecordState(record, id: CKRecord.ID(record.id)))
        }
    }

    /// The address of an object's record; `nil` for one that was never sent.
    public func recordID(for object: ObjectID) async throws(MirrorError) -> CKRecord.ID? {
        try await record(for: object)?.recordID
    }

    /// The records of several objects; objects that were never sent are left out.
    public func records(for objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKRecord] {
        var found: [ObjectID: CKRecord] = [:]
        for object in objects { found[object] = try await record(for: object) }
        return found
    }

    /// The record addresses of several objects; objects that were never sent are left out.
    public func recordIDs(for objects: [ObjectID]) async throws(MirrorError) -> [ObjectID: CKRecord.ID] {
        try await records(for: objects).mapValues(\.recordID)
    }

    /// The changes of a store that wait to be sent, oldest first.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - states: Only those of objects in these states; left out, all.
    /// - Returns: The objects.
    /// - Throws: `unknownStore`, and what SQLite throws.
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

    /// Drops an object's change that was not sent: the object goes back to what the relay had last.
    ///
    /// One that was deleted comes back with its links between many and many.
    ///
    /// - Throws: `objectUnavailable` where the change is another user's who shares the file, and what SQLite throws.
    public func dropPendingExport(of object: ObjectID) async throws(MirrorError) {
        guard let store = object.store, let file = stores.file(store) else { return }
        let now = conditions.wallClock()
        try await writing(store) { db in
            guard let table = file.mapping.tables[object.entity] else { return }
            if try OutboxRow.isOfAnother(db, object.name.text) {
                throw MirrorError(.objectUnavailable, "This change is another user's, who can drop it when signed in.")
            }
            try OutboxRow.drop(db, object.name.text)
            try StoreFile.importing(db, author: Importer.author, at: now) { transaction in
                let importer = try Importer(db, file, transaction: transaction, now: now)
                let current = try table.row(db, object.name.text)
                try importer.revert(object.name.text, table, current)
                if current == nil { try importer.pairAgain(object.name.text) }
            }
        }
    }

    /// The values that merges have dropped by themselves in the last 30 days, newest first.
    public func mergeDecisions(_ store: StoreID) async throws(MirrorError) -> [MergeDecision] {
        let oldest = conditions.wallClock().addingTimeInterval(-30 * 86_400).timeIntervalSince1970
        return try await writing(store) { db in
            try db.execute(sql: "DELETE FROM mirror_decision WHERE at < ?", arguments: [oldest])
            let sql =
                "SELECT at, oid, entity, property, kept, dropped, policy FROM mirror_decision ORDER BY id DESC"
            return try Row.fetchAll(db, sql: sql).map { row in
                MergeDecision(
                    date: Date(timeIntervalSince1970: row[0]),
                    object: ObjectID(store: store, entity: row[2], name: RecordName(row[1])),
                    property: row[3],
                    kept: row[4] ?? "",
                    dropped: row[5] ?? "",
                    rule: MergeDecision.Rule(word: row[6])
                )
            }
        }
    }
}

/// A value that a merge dropped by itself.
public struct MergeDecision: Hashable, Sendable {
    /// When.
    public var date: Date
    /// The object.
    public var object: ObjectID
    /// The property.
    public var property: String
    /// The value that stayed, in SQL's notation; `NULL` too where the object was deleted.
    public var kept: String
    /// The value that was dropped.
    public var dropped: String
    /// By which rule.
    public var rule: Rule

    /// What decided.
    public enum Rule: Hashable, Sendable {
        /// The store's policy.
        case policy(MergePolicy)
        /// The later edit won.
        case lastEditWins
        /// The program's own resolver.
        case resolver

        var word: String {
            switch self {
            case .policy(let policy): policy.rawValue
            case .lastEditWins: "lastEditWins"
            case .resolver: "resolver"
            }
        }

        init(word: String) {
            self =
                switch word {
                case "lastEditWins": .lastEditWins
                case "resolver": .resolver
                default: .policy(MergePolicy(rawValue: word) ?? .error)
                }
        }
    }
}

/// Puts what the file knows about an object into words.
private struct Explainer {
    let db: Database
    let file: StoreFile
    let isSending: Bool
    let trouble: CKError?

    func explain(_ object: ObjectID) throws -> Explanation {
        let oid = object.name.text
        if try OutboxRow.isOfAnother(db, oid) {
            return Explanation(
                state: .pending,
                reason: "Another user of this device has changed it, and that has not been sent.",
                next: "It is sent when that user signs in again."
            )
        }
        // A change that waits is newer than one that was refused.
        if let row = try OutboxRow.find(db, oid) { return try pending(row) }
        if let refused = try refusal(oid) { return refused }
        guard let known = try KnownRecord.find(db, oid: oid), known.tag != nil else {
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
            reason: "It is here as it was on the relay when that was last asked.",
            next: "Changes from elsewhere arrive by themselves."
        )
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
            next: "Nothing by itself. Retry, discard or export it from rejectedWrites."
        )
    }

    private func pending(_ row: OutboxRow) throws -> Explanation {
        let sql = """
            SELECT t.at FROM mirror_change c JOIN mirror_transaction t ON t.id = c.txn WHERE c.seq = ?
            """
        let since = try Double.fetchOne(db, sql: sql, arguments: [row.place])
            .map { Date(timeIntervalSince1970: $0) }
        if isSending {
            return Explanation(
                state: .sending,
                since: since,
                reason: "Its change is on the way to the relay.",
                next: "The relay's answer settles it."
            )
        }
        if row.held != nil {
            return Explanation(
                state: .pending,
                since: since,
                reason: "Its change waits: \(row.error ?? "something it needs is not on the relay yet.")",
                next: "It is tried again after the next successful send."
            )
        }
        if try State.text(db, .quotaIsFull) != nil {
            return Explanation(
                state: .pending,
                since: since,
                reason: "There is no space left on the relay.",
                next: "It is sent when something was deleted or the limit raised."
            )
        }
        if row.code == CKError.Code.serverRecordChanged.rawValue {
            return Explanation(
                state: .conflicted,
                since: since,
                reason: "It was changed here and elsewhere at the same time; both changes were merged.",
                next: "The merged object is sent by itself as soon as that is possible."
            )
        }
        let reason = trouble.map { "The relay could not take it so far: \($0.localizedDescription)" }
        return Explanation(
            state: .pending,
            since: since,
            reason: reason ?? row.error ?? "Its change has not been sent yet.",
            next: "It is sent by itself as soon as that is possible."
        )
    }
}

extension KnownRecord {
    /// The record as the relay had it last.
    func record(_ db: Database, in zone: ZoneID) throws -> Record {
        var record = Record(id: RecordID(name, in: zone), type: type, fields: allFields(), changeTag: tag)
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
        if isLocked { record.encryptedFields = Set(record.fields.filter { ZoneSeal.isSealed($0.value) }.keys) }
        return record
    }
}
