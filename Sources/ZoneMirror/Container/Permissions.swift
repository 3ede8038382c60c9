import GRDB
import Records
public import ZoneKit

/// Checks of what the user may do on the relay, from stored data and without a request.
///
/// `false` refers to the relay's record, not to the local row. See Permissions.md, "Questions".
extension MirroredContainer {
    /// Returns whether objects of a store can be changed at all.
    ///
    /// Always for local and private stores, unless they are read-only. For public and shared stores, while a user is
    /// signed in; for public ones only if the user may write or create some record type.
    public func canModifyManagedObjects(in store: StoreID) -> Bool {
        guard let file = stores.file(store) else { return false }
        let kind: Permissions.Facts.Kind =
            switch file.scope {
            case nil: .local
            case .private?: .privateStore
            case .public?:
                .publicStore(
                    isMine: true,
                    isOpen: (try? file.pool.read { try GrantedRights.allowsAnything($0) }) ?? true
                )
            case .shared?: .sharedStore(canWrite: true, isRoot: false)
            }
        let permissions = Permissions(file: file, account: stores.account)
        let facts = Permissions.Facts(
            stage: .exported,
            kind: kind,
            status: (try? file.pool.read { try permissions.status($0) }) ?? stores.account.status,
            isReadOnly: file.description.isReadOnly
        )
        return Permissions.canModifyStore(facts)
    }

    /// Returns whether the relay would accept a change of an object's record.
    ///
    /// Returns `false` for an object of a shared or public store that is gone: its owner deleted it, ended the share,
    /// or removed this user from it.
    public func canUpdateRecord(for object: ObjectID) -> Bool {
        isPermitted(object) { try $0.canUpdate($1, oid: object.name.text) }
    }

    /// Returns whether the relay would delete an object's record.
    ///
    /// A participant of a shared hierarchy may not delete its root. In a public database, other mirrors do not learn
    /// of the deletion; see `softDelete`.
    public func canDeleteRecord(for object: ObjectID) -> Bool {
        isPermitted(object) { try $0.canDelete($1, oid: object.name.text) }
    }

    private func isPermitted(_ object: ObjectID, _ question: (Permissions, Database) throws -> Bool) -> Bool {
        // An object that was never saved has no restrictions yet.
        guard let store = object.store else { return true }
        guard let file = stores.file(store) else { return false }
        let permissions = Permissions(file: file, account: stores.account)
        return (try? file.pool.read { try permissions.mayExist($0, object) && question(permissions, $0) }) ?? false
    }
}

/// What the user may do on the relay, from what the mirror knows and without a request.
///
/// See Permissions.md, "Questions".
package struct Permissions {
    /// Everything on which the answer depends.
    package struct Facts: Hashable {
        package enum Kind: Hashable {
            case local
            case privateStore
            /// `isGranted` means that the user's roles may write records of this type by any creator.
            ///
            /// `isOpen` means that they may write or create records of some type.
            case publicStore(isMine: Bool, isGranted: Bool = false, isOpen: Bool = true)
            case sharedStore(canWrite: Bool, isRoot: Bool)
        }

        package enum Stage: Hashable {
            /// Never saved.
            case temporary
            /// Saved but not on the relay yet.
            case unexported
            case exported
        }

        var stage: Stage
        var kind: Kind
        var status: Account.Status
        var isReadOnly = false

        package init(stage: Stage, kind: Kind, status: Account.Status, isReadOnly: Bool = false) {
            self.stage = stage
            self.kind = kind
            self.status = status
            self.isReadOnly = isReadOnly
        }
    }

    package static func canModifyStore(_ facts: Facts) -> Bool {
        if facts.isReadOnly { return false }
        switch facts.kind {
        case .local, .privateStore: return true
        case .publicStore(_, _, let isOpen): return facts.status == .signedIn && isOpen
        case .sharedStore: return facts.status == .signedIn
        }
    }

    package static func canUpdate(_ facts: Facts) -> Bool {
        guard canModifyStore(facts) else { return false }
        if facts.stage == .temporary { return true }
        switch facts.kind {
        case .local, .privateStore: return true
        case .publicStore(let isMine, let isGranted, _): return isMine || isGranted || facts.stage == .unexported
        case .sharedStore(let canWrite, _): return canWrite
        }
    }

    /// Like `canUpdate`, except that only the owner of a shared hierarchy may delete its root.
    package static func canDelete(_ facts: Facts) -> Bool {
        guard canUpdate(facts) else { return false }
        if case .sharedStore(_, isRoot: true) = facts.kind, facts.stage != .temporary { return false }
        return true
    }

    let file: StoreFile
    let account: Account

    /// Returns the facts about one object.
    func facts(_ db: Database, oid: String?) throws -> Facts {
        let status = try status(db)
        func facts(_ stage: Facts.Stage, _ kind: Facts.Kind) -> Facts {
            Facts(stage: stage, kind: kind, status: status, isReadOnly: file.description.isReadOnly)
        }
        guard let scope = file.scope else { return facts(oid == nil ? .temporary : .exported, .local) }
        let row = try oid.flatMap { oid in
            let sql = "SELECT zone, state, creator, share, name, type FROM mirror_record WHERE oid = ?"
            return try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [oid])
        }
        let isInZone = (row?[1] as String?).flatMap { RecordState(rawValue: $0) }?.isInZone ?? false
        let stage: Facts.Stage = oid == nil ? .temporary : isInZone ? .exported : .unexported
        switch scope {
        case .private: return facts(stage, .privateStore)
        case .public:
            let creator: String? = row?[2]
            let rights = try (row?[5] as String?).flatMap { try GrantedRights.of(db, type: $0) }
            // This user may not change an object with another user's unsent changes.
            let isAnothers = try oid.map { try OutboxRow.belongsToOtherUser(db, $0) } ?? false
            return facts(
                isAnothers ? .exported : stage,
                .publicStore(
                    isMine: creator != nil && creator == account.user,
                    isGranted: rights?.contains(.write) ?? false,
                    isOpen: try GrantedRights.allowsAnything(db)
                )
            )
        case .shared:
            let zone: Int64? = row?[0]
            let share: String? = row?[3]
            let canWrite = try zone.map { try ShareCache.canWrite(db, zone: $0, record: isInZone ? row?[4] : nil) }
            return facts(stage, .sharedStore(canWrite: canWrite ?? true, isRoot: share != nil))
        }
    }

    /// Returns the account's standing.
    ///
    /// A user with credentials whom the relay has not confirmed yet counts as signed in if the file has no other user.
    func status(_ db: Database) throws -> Account.Status {
        guard account == Account(), let cloud = file.description.cloud, !MirroredContainer.opensWithoutUser(cloud),
            try State.text(db, .account) == nil
        else { return account.status }
        return .signedIn
    }

    func canInsert(_ db: Database, entity: String) throws -> Bool {
        // The relay decides about new records; a known user may work offline.
        if file.scope == .private || file.scope == nil { return Self.canModifyStore(try facts(db, oid: nil)) }
        guard !file.description.isReadOnly, try account.user != nil || status(db) == .signedIn else { return false }
        guard file.scope == .public, let table = file.mapping.tables[entity] else { return true }
        return try GrantedRights.of(db, type: file.mapping.recordType(of: table))?.contains(.create) ?? true
    }

    /// Returns whether this user still has access to an object, as far as the store knows; always `true` in the user's
    /// own store.
    ///
    /// Saves do not check this: they report that the object is gone.
    func mayExist(_ db: Database, _ object: ObjectID) throws -> Bool {
        guard file.scope == .shared || file.scope == .public else { return true }
        guard let known = try KnownRecord.find(db, oid: object.name.text) else {
            return try file.mapping.tables[object.entity]?.row(db, object.name.text) != nil
        }
        guard file.scope == .shared else { return true }
        return try KnownZone.find(db, id: known.zone)?.isEnding == false
            && known.state != .invisible
    }

    func canUpdate(_ db: Database, oid: String) throws -> Bool { Self.canUpdate(try facts(db, oid: oid)) }
    func canDelete(_ db: Database, oid: String) throws -> Bool { Self.canDelete(try facts(db, oid: oid)) }
}

extension MirroredContainer {
    /// Returns the relay's limits for the current user in a store's database, and the space used.
    ///
    /// - Throws: `wrongStore` for a store that mirrors nothing, and `relay` with the call's error.
    public func limits(of store: StoreID) async throws(MirrorError) -> RelayLimits {
        guard let sync = sync(store) else { throw MirrorError(.wrongStore, "The store mirrors no database.") }
        do {
            return try await sync.database.client.limits()
        } catch {
            throw MirrorError(from: error)
        }
    }
}
