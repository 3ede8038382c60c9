import Foundation
import GRDB
import Records
import ZoneKit

/// Writes a plan's part into one store, inside one transaction.
struct SaveWriter {
    let db: Database
    let file: StoreFile
    let policy: MergePolicy
    let saved: [MirrorContext.Key: [DatabaseValue]]
    let now: Date
    private var conflicts: [MergeConflict] = []
    private var written: [MirrorContext.Key: [DatabaseValue]] = [:]
    /// Objects whose links may bring them, or what they are linked to, into a share.
    private var relinked: [ObjectID] = []
    private var homeless: [SavePlan.Item] = []
    /// The zone of what is in no share; `nil` where nothing is shared, and zones are no matter.
    private let home: Int64?

    init(
        _ db: Database,
        _ file: StoreFile,
        policy: MergePolicy,
        saved: [MirrorContext.Key: [DatabaseValue]],
        now: Date
    ) throws {
        self.db = db
        self.file = file
        self.policy = policy
        self.saved = saved
        self.now = now
        let count = try db.cachedStatement(sql: "SELECT count(*) FROM mirror_zone")
        let zones = file.isMirrored ? try Int.fetchOne(count) ?? 0 : 0
        // In a shared store every zone is a share's.
        let isPlain = zones < 2 && file.scope == .private
        home = isPlain ? nil : try file.homeZone.flatMap { try KnownZone.find(db, $0)?.id } ?? 0
    }

    mutating func write(
        _ items: [SavePlan.Item],
        author: String?,
        context: String?,
        zones: [MirrorContext.Key: MirrorContext.ShareHome]
    ) throws -> [MirrorContext.Key: [DatabaseValue]] {
        try db.cachedStatement(sql: "INSERT INTO mirror_transaction(author, context, at) VALUES (?, ?, ?)")
            .execute(arguments: [author, context, now.timeIntervalSince1970])
        let transaction = db.lastInsertedRowID
        // Few changes are filed afterwards: that leaves a page of the file alone. Many are filed as they are noted.
        let last = try items.count > Self.few ? nil : lastChange()
        if last == nil { try fileChanges(under: transaction) }
        for item in items {
            guard let table = file.mapping.tables[item.key.entity] else { continue }
            switch item.pending.change {
            case .insert: try insert(item, table, zones[item.key])
            case .update(let base): try update(item, table, base)
            case .delete(let base): try delete(item, table, base)
            }
        }
        try settleHomeless()
        try joinShares()
        if file.mapping.keepsEditTimes { try EditTimes.date(db, now) }
        if let last {
            try db.cachedStatement(sql: "UPDATE mirror_change SET txn = ? WHERE seq > ?")
                .execute(arguments: [transaction, last])
        } else {
            try fileChanges(under: 0)
        }
        guard conflicts.isEmpty else {
            throw MirrorError(
                .mergeConflict(conflicts),
                "\(conflicts.count) objects changed since they were read. Read them again, or set another merge policy."
            )
        }
        return written
    }

    private static let few = 8

    private func lastChange() throws -> Int64 {
        try Int64.fetchOne(try db.cachedStatement(sql: "SELECT max(seq) FROM mirror_change")) ?? 0
    }

    /// Under which number the triggers file what changes from now on.
    private func fileChanges(under transaction: Int64) throws {
        try db.cachedStatement(sql: "UPDATE mirror_local SET txn = ?").execute(arguments: [transaction])
    }

    private mutating func insert(_ item: SavePlan.Item, _ table: TableForm, _ home: MirrorContext.ShareHome?) throws {
        if let store = try table.row(db, item.key.id) { return try merge(item, table, into: store) }
        do {
            try table.insert(db, item.key.id, item.pending.row)
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_CONSTRAINT_TRIGGER {
            throw MirrorError(.storage, "\(object(item)) was not saved. \(error.message ?? "")", underlying: error)
        }
        written[item.key] = item.pending.row
        guard file.isMirrored else { return }
        guard let zone = try home?.zone ?? zoneByLinks(item, table) else {
            if file.scope == .shared { homeless.append(item) }
            return
        }
        try reserve(item, table, in: zone)
        guard let parent = home?.parent else { return }
        try db.execute(
            sql: "UPDATE mirror_record SET parent = ? WHERE oid = ? AND tag IS NULL",
            arguments: [parent, item.key.id]
        )
    }

    /// Another device has made the same object, and it came in before this save.
    private mutating func merge(_ item: SavePlan.Item, _ table: TableForm, into store: [DatabaseValue]) throws {
        if case .pairs = table.kind { return }
        try update(item, table, file.mapping.row(of: [:], in: table))
    }

    /// New objects of a shared store without a link of their own: they go where others that lead to them are.
    private mutating func settleHomeless() throws {
        for item in homeless {
            let closure = ShareClosure(db: db, file: file)
            let zones = try closure.newcomers(from: object(item), home: home ?? 0).zones
            guard zones.count < 2 else { throw Self.crossing(object(item)) }
            guard let zone = zones.first, let table = file.mapping.tables[item.key.entity] else { continue }
            try reserve(item, table, in: zone)
        }
    }

    private mutating func reserve(_ item: SavePlan.Item, _ table: TableForm, in zone: Int64) throws {
        relinked.append(object(item))
        if file.scope == .shared, file.description.unpermittedWrites == .reject,
            try !ShareCache.canWrite(db, zone: zone, record: nil)
        {
            let object = object(item)
            throw MirrorError(
                .permissionFailure([object]),
                "\(object) belongs to a share that this user may only read. Ask its owner for the right to write."
            )
        }
        try KnownRecord.reserve(
            db,
            zone: zone,
            name: item.key.id,
            oid: item.key.id,
            entity: table.name,
            type: file.mapping.recordType(of: table)
        )
    }

    /// The zone of a share that an object linked to is in; `nil` for the home zone.
    private func zoneByLinks(_ item: SavePlan.Item, _ table: TableForm) throws -> Int64? {
        guard let home, !table.links.isEmpty else { return nil }
        var found: Int64?
        for position in table.links {
            guard let id = String.fromDatabaseValue(item.pending.row[position]),
                let zone = try KnownRecord.zone(db, oid: id), zone != home
            else { continue }
            if let found, found != zone { throw Self.crossing(object(item)) }
            found = zone
        }
        return found
    }

    private mutating func update(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]) throws {
        let (id, mine) = (item.key.id, item.pending.row)
        guard let store = try table.row(db, id) else {
            switch PropertyMerge.keepsObjectDeletedInStore(policy) {
            case true?:
                let zone = try zoneByLinks(item, table)
                // Somebody else's object whose share is gone cannot come back.
                if file.scope == .shared, zone == nil { throw MirrorError.unavailable(item.key) }
                try table.insert(db, id, mine)
                if let zone { try reserve(item, table, in: zone) }
                written[item.key] = mine
            case false?: break
            case nil:
                guard try !wentWithShare(id) else { throw MirrorError.unavailable(item.key) }
                conflicts.append(conflict(item, table, base, mine, nil))
            }
            return
        }
        // What this context wrote itself is no change by somebody else.
        let start = saved[item.key] == store ? store : base
        let edited = Self.onTop(of: start, mine, changedSince: base)
        guard edited != store else {
            written[item.key] = store
            return
        }
        guard let outcome = PropertyMerge.edits(base: start, memory: edited, store: store, policy: policy),
            let values = outcome.values
        else {
            conflicts.append(conflict(item, table, base, mine, store))
            return
        }
        if values != store { try table.update(db, id, values) }
        written[item.key] = values
        if home != nil, table.links.contains(where: { values[$0] != store[$0] && !values[$0].isNull }) {
            relinked.append(object(item))
        }
    }

    /// An object was not deleted, but the access to it has ended: then there is nothing to be merged.
    private func wentWithShare(_ id: String) throws -> Bool {
        guard file.scope == .shared else { return false }
        let sql = """
            SELECT EXISTS (SELECT 1 FROM mirror_change o JOIN mirror_change s ON s.txn = o.txn
                WHERE o.oid = ? AND o.kind = 3 AND s.entity = ? AND s.kind = 3)
            """
        return try Bool.fetchOne(db, sql: sql, arguments: [id, Share.recordType]) ?? false
    }

    private func object(_ item: SavePlan.Item) -> ObjectID {
        ObjectID(store: file.id, entity: item.key.entity, name: RecordName(item.key.id))
    }

    /// What is linked to a shared object, or links to one, joins its zone, with all that hangs on it.
    private func joinShares() throws {
        guard let home, file.scope == .private else { return }
        for object in relinked {
            let closure = ShareClosure(db: db, file: file)
            // What hangs together is in one zone, so the ends of the new links say all.
            let ends = try [object] + closure.targets(of: object)
            var shared = Set(try ends.map { try KnownRecord.zone(db, oid: $0.name.text) ?? home })
            shared.remove(home)
            guard let zone = shared.first else { continue }
            let (newcomers, met) = try closure.newcomers(from: object, home: home)
            guard shared.union(met).count == 1 else { throw Self.crossing(object) }
            if !newcomers.isEmpty { try ShareMoves.rebind(db, newcomers, to: zone, file: file) }
        }
    }

    private static func crossing(_ object: ObjectID) -> MirrorError {
        MirrorError(
            .crossShareRelationship,
            "\(object) cannot be linked to objects of two different shares. Take it out of one of them first."
        )
    }

    /// The edits between `base` and `mine`, made on another start.
    private static func onTop(
        of start: [DatabaseValue],
        _ mine: [DatabaseValue],
        changedSince base: [DatabaseValue]
    ) -> [DatabaseValue] {
        guard start != base else { return mine }
        return start.indices.map { mine[$0] != base[$0] ? mine[$0] : start[$0] }
    }

    private mutating func delete(_ item: SavePlan.Item, _ table: TableForm, _ base: [DatabaseValue]?) throws {
        guard let store = try table.row(db, item.key.id) else { return }
        if let base, store != base, saved[item.key] != store {
            switch PropertyMerge.keepsObjectDeletedInMemory(policy) {
            case true?: return
            case false?: break
            case nil:
                conflicts.append(conflict(item, table, base, nil, store))
                return
            }
        }
        try table.delete(db, item.key.id)
    }

    private func conflict(
        _ item: SavePlan.Item,
        _ table: TableForm,
        _ base: [DatabaseValue],
        _ memory: [DatabaseValue]?,
        _ store: [DatabaseValue]?
    ) -> MergeConflict {
        func named(_ row: [DatabaseValue]?) -> [String: String] {
            guard let row else { return [:] }
            return Dictionary(zip(table.columns.map(\.name), row.map(\.description))) { $1 }
        }
        return MergeConflict(
            object: ObjectID(store: file.id, entity: table.name, name: RecordName(item.key.id)),
            base: named(base),
            memory: named(memory),
            store: named(store)
        )
    }
}
