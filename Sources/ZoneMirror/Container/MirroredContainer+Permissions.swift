import GRDB
import ZoneKit

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
        let judge = Permissions(file: file, account: stores.account)
        let facts = Permissions.Facts(
            stage: .exported,
            kind: kind,
            standing: (try? file.pool.read { try judge.standing($0) }) ?? stores.account.standing,
            isReadOnly: file.description.isReadOnly
        )
        return Permissions.canModifyStore(facts)
    }

    /// Returns whether the relay would accept a change of an object's record.
    ///
    /// Returns `false` for an object of a shared or public store that is gone: its owner deleted it, ended the share,
    /// or removed this user from it.
    public func canUpdateRecord(for object: ObjectID) -> Bool {
        judged(object) { try $0.canUpdate($1, oid: object.name.text) }
    }

    /// Returns whether the relay would delete an object's record.
    ///
    /// A participant of a shared hierarchy may not delete its root. In a public database, other mirrors do not learn
    /// of the deletion; see `softDelete`.
    public func canDeleteRecord(for object: ObjectID) -> Bool {
        judged(object) { try $0.canDelete($1, oid: object.name.text) }
    }

    private func judged(_ object: ObjectID, _ question: (Permissions, Database) throws -> Bool) -> Bool {
        // An object that was never saved has no restrictions yet.
        guard let store = object.store else { return true }
        guard let file = stores.file(store) else { return false }
        let judge = Permissions(file: file, account: stores.account)
        return (try? file.pool.read { try judge.mayBeThere($0, object) && question(judge, $0) }) ?? false
    }
}
