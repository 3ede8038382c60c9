import Records

/// The epochs of a store, which decide whether a change token belongs to the store's own past.
///
/// An epoch begins with the first write of each process that runs the relay. A store that was rolled back to an earlier
/// state, by whatever means, therefore recognizes tokens of the future it has lost: they have an epoch that the store
/// does not know, or a position after the end of one that it knows.
package struct Epochs: Hashable, Sendable {
    /// The epoch of new tokens.
    package let current: UInt64
    /// The last change number of each earlier epoch.
    private let ends: [UInt64: UInt64]

    package init(current: UInt64, ends: [UInt64: UInt64] = [:]) {
        self.current = current
        self.ends = ends
    }

    /// Returns these epochs followed by a new one that begins after change number `last`.
    package func followed(by next: UInt64, after last: UInt64) -> Epochs {
        var ends = ends
        ends[current] = last
        return Epochs(current: next, ends: ends)
    }

    /// Returns whether this store can have issued the token, judging by its epoch.
    func admit(_ token: ChangeToken) -> Bool {
        token.epoch == current || ends[token.epoch].map { max(token.position, token.floor, token.top) <= $0 } ?? false
    }
}
