import GRDB
import ZoneKit

/// What the relay would let the user do: answered from the files, without any wait.
///
/// `false` speaks about the relay's record, not about the local row. See Permissions.md, "Questions".
extension MirroredContainer {
    /// Whether objects of a store can be changed at all.
    ///
    /// Local and private stores always, unless they are read-only; public and shared ones while somebody is signed in, and
    /// public ones only if the relay lets them write or make something there.
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

    /// Whether the relay would take a change of an object's record.
    ///
    /// `false` for an object of a shared or public store that is not there any more: its owner deleted it or ended the share, or
    /// took this user out of it.
    public func canUpdateRecord(for object: ObjectID) -> Bool {
        judged(object) { try $0.canUpdate($1, oid: object.name.text) }
    }

    /// Whether the relay would delete an object's record.
    ///
    /// A participant of a shared hierarchy may not delete its root. In a public database the deletion does not travel to
    /// other mirrors; see `softDelete`.
    public func canDeleteRecord(for object: ObjectID) -> Bool {
        judged(object) { try $0.canDelete($1, oid: object.name.text) }
    }

    private func judged(_ object: ObjectID, _ question: (Permissions, Database) throws -> Bool) -> Bool {
        // Never saved: nobody has anything against it yet.
        guard let store = object.store else { return true }
        guard let file = stores.file(store) else { return false }
        let judge = Permissions(file: file, account: stores.account)
        return (try? file.pool.read { try judge.mayBeThere($0, object) && question(judge, $0) }) ?? false
    }
}
