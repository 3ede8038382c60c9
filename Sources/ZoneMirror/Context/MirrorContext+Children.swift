import GRDB
import Synchronization

/// Contexts on top of another one: their changes go to that one first, and to the files with it.
///
/// See ReadingAndHistory.md, "Pinned reads".
extension MirrorContext {
    /// A context that reads what this one sees, its unsaved changes included, and whose `save()` hands its changes to
    /// this one instead of writing them: for a form that may be left without effect.
    ///
    /// It sees the moment that this one is pinned to.
    ///
    /// - Parameter name: What the history calls it; the changes are filed under this context's.
    /// - Returns: A context without changes.
    public func newChildContext(named name: String? = nil) -> MirrorContext {
        MirrorContext(childOf: self, name: name)
    }

    /// The change of this context, or of those it stands on, that counts for an object.
    func overlay(_ key: Key) -> Pending? { state.withLock { $0.pending[key] } ?? parent?.overlay(key) }

    /// Takes over a child's changes: properties that the child changed, over what was changed here.
    func absorb(_ child: State) {
        let (files, tables) = (stores.paths, stores.tables)
        state.withLock { state in
            for (key, item) in child.pending.sorted(by: { $0.value.place < $1.value.place }) {
                state.absorb(key, item, tables)
                // One that either of the two has made on another user's file stays that user's.
                if item.files != files { state.pending[key]?.files = item.files }
            }
            state.assigned.merge(child.assigned) { $1 }
            state.assignedZones.merge(child.assignedZones) { $1 }
        }
    }
}

extension MirrorContext.State {
    fileprivate mutating func absorb(
        _ key: MirrorContext.Key,
        _ item: MirrorContext.Pending,
        _ tables: [String: TableForm]
    ) {
        guard let here = pending[key] else {
            return touch(key, item.change, item.store, item.row, item.files)
        }
        switch (here.change, item.change) {
        case (.delete(let base?), .insert): touch(key, .update(base: base), here.store, item.row, here.files)
        case (_, .insert): touch(key, here.change, here.store, item.row, here.files)
        case (.insert, .delete): forget(key, tables)
        case (.update(let base), .delete): touch(key, .delete(base: base), here.store, here.row, here.files)
        case (.delete, .delete), (.delete, .update): break
        case (_, .update(let base)):
            let row = base.count == item.row.count ? here.row.edited(as: item.row, since: base) : item.row
            touch(key, here.change, here.store, row, here.files)
        }
    }
}

extension [DatabaseValue] {
    /// The values with what `edited` has changed since `base`.
    func edited(as edited: [DatabaseValue], since base: [DatabaseValue]) -> [DatabaseValue] {
        indices.map { edited[$0] != base[$0] ? edited[$0] : self[$0] }
    }
}
