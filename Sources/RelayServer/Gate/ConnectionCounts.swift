import RelayAPI
import RelayStore
import Synchronization

/// How many connections are open, in all and from each address, or network of one.
///
/// Shared by all loops.
final class ConnectionCounts: Sendable {
    enum Verdict {
        case welcome
        /// Too many: it is told so, and closed.
        case tooMany
        /// So many that not even that is worth a descriptor.
        case farTooMany
    }

    private struct State {
        var total = 0
        var byAddress: [PeerKey: Int] = [:]
    }

    private let state = Mutex(State())
    /// How many more than a tenth are told that they are too many.
    private static let mostToldMore = DescriptorShares.mostToldMore

    private let limits: ServerLimits
    private let trustedProxies: [AddressRange]

    init(limits: ServerLimits, trustedProxies: [AddressRange]) {
        self.limits = limits
        self.trustedProxies = trustedProxies
    }

    /// Whether one more from `address` is within the limits.
    ///
    /// Counted in any case: each call needs its `left`.
    func joined(_ address: String) -> Verdict {
        let isProxy = trustedProxies.contains { $0.contains(address) }
        let address = PeerKey(address)
        return state.withLock { state in
            state.total += 1
            let fromThere = state.byAddress[address, default: 0] + 1
            state.byAddress[address] = fromThere
            if state.total > limits.connections + limits.connections / 10 + Self.mostToldMore { return .farTooMany }
            let isWelcome = state.total <= limits.connections && (isProxy || fromThere <= limits.connectionsPerAddress)
            return isWelcome ? .welcome : .tooMany
        }
    }

    func left(_ address: String) {
        let address = PeerKey(address)
        state.withLock { state in
            state.total -= 1
            guard let fromThere = state.byAddress[address] else { return }
            state.byAddress[address] = fromThere > 1 ? fromThere - 1 : nil
        }
    }

    var total: Int { state.withLock { $0.total } }
}
