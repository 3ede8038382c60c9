import Synchronization

/// Invariant j: what a removed participant may see after the owner's request was acknowledged.
extension Judge {
    /// Records that a user is about to join, which cancels an earlier removal.
    func joins(_ removal: Removal) {
        state.withLock { state in
            state.removed.remove(removal)
            state.joined[removal, default: 0] += 1
        }
    }

    func joinCount(_ removal: Removal) -> Int { state.withLock { $0.joined[removal] ?? 0 } }

    /// Records an acknowledged removal, unless the user has started to join again since the owner's request began.
    func isRemoved(_ removal: Removal, since joins: Int) {
        state.withLock { state in
            if state.joined[removal] ?? 0 == joins { state.removed.insert(removal) }
        }
    }
}
