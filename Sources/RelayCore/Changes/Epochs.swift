import Records

/// Which change tokens are of a store's own past: those of the epoch that runs, and those of earlier ones up to where each
/// ended.
///
/// Every life of a relay in which something is written begins an epoch. A store that was put back to an earlier state, by
/// whatever means, therefore knows the tokens of the future that it has lost: of an epoch that it never had, or from
/// beyond the end of one that it had.
package struct Epochs: Hashable, Sendable {
    /// What tokens are made with.
    package let current: UInt64
    /// The last change number of each that has ended.
    private let ends: [UInt64: UInt64]

    package init(current: UInt64, ends: [UInt64: UInt64] = [:]) {
        self.current = current
        self.ends = ends
    }

    /// The same, with a new one from the number after `last` on.
    package func followed(by next: UInt64, after last: UInt64) -> Epochs {
        var ends = ends
        ends[current] = last
        return Epochs(current: next, ends: ends)
    }

    /// Whether this store gave out such a token, as far as the epoch can tell.
    func admit(_ token: ChangeToken) -> Bool {
        token.epoch == current || ends[token.epoch].map { max(token.position, token.floor, token.top) <= $0 } ?? false
    }
}
