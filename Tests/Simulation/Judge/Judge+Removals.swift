import Synchronization

/// Invariant j: what whoever takes a share away has been told, and what those who lose it may see from then on.
extension Judge {
    /// Somebody is about to join: what was said of them before is over.
    func joins(_ removal: Removal) {
        state.withLock { state in
            state.removed.remove(removal)
            state.joined[removal, default: 0] += 1
        }
    }

    func joinCount(_ removal: Removal) -> Int { state.withLock { $0.joined[removal] ?? 0 } }

    /// A removal is acknowledged, and nobody has begun to join since the owner set about it.
    func isRemoved(_ removal: Removal, since joins: Int) {
        state.withLock { state in
            if state.joined[removal] ?? 0 == joins { state.removed.insert(removal) }
        }
    }
}
