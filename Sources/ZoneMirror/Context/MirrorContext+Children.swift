import GRDB
import Synchronization

/// Child contexts, which save to their parent context.
///
/// See ReadingAndHistory.md, "Pinned reads".
extension MirrorContext {
    /// Creates a context that reads what this one sees, including unsaved changes, and whose `save()` adds its changes
    /// to this one.
    ///
    /// Use it for a form that may be cancelled. It is pinned with this context.
    ///
    /// - Parameter name: The context's name. The history records the changes under this context's name.
    /// - Returns: A context without changes.
    public func newChildContext(named name: String? = nil) -> MirrorContext {
        MirrorContext(childOf: self, name: name)
    }

    /// Returns the pending change of an object in this context or, without one, in its parents.
    func overlay(_ key: Key) -> Pending? { state.withLock { $0.pending[key] } ?? parent?.overlay(key) }

    /// Takes over a child's changes: properties that the child changed replace this context's values.
    func absorb(_ child: State) {
        let (files, tables) = (stores.paths, stores.tables)
        state.withLock { state in
            for (key, item) in child.pending.sorted(by: { $0.value.place < $1.value.place }) {
                state.absorb(key, item, tables)
                // A change that either context made while another user's file was open still belongs to that file.
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
    /// Returns the values with the changes between `base` and `edited` applied.
    func edited(as edited: [DatabaseValue], since base: [DatabaseValue]) -> [DatabaseValue] {
        indices.map { edited[$0] != base[$0] ? edited[$0] : self[$0] }
    }
}
