import RelayAPI
import RelayCore
import RelaySystem
import Synchronization

/// Counts open connections in total and per address or network; shared by all event loops.
package final class ConnectionCounts: Sendable {
    package enum Verdict {
        case accepted
        /// Above a limit: answered with 503 and closed.
        case tooMany
        /// So far above the limit that a response is not worth a descriptor.
        case farTooMany
    }

    private struct State {
        var total = 0
        var byAddress: [PeerKey: Int] = [:]
    }

    private let state = Mutex(State())
    /// The number of connections beyond 110 % of the limit that are still answered with 503.
    private static let rejectableConnections = DescriptorShares.rejectableConnections

    private let limits: ServerLimits
    private let trustedProxies: [AddressRange]

    package init(limits: ServerLimits, trustedProxies: [AddressRange]) {
        self.limits = limits
        self.trustedProxies = trustedProxies
    }

    /// Counts a connection and returns whether it is within the limits.
    ///
    /// Counts it in any case, so each call must be balanced by `left`.
    package func joined(_ address: String) -> Verdict {
        let isProxy = trustedProxies.contains { $0.contains(address) }
        let address = PeerKey(address)
        return state.withLock { state in
            state.total += 1
            let fromThere = state.byAddress[address, default: 0] + 1
            state.byAddress[address] = fromThere
            if state.total > limits.connections + limits.connections / 10 + Self.rejectableConnections {
                return .farTooMany
            }
            let isAccepted = state.total <= limits.connections && (isProxy || fromThere <= limits.connectionsPerAddress)
            return isAccepted ? .accepted : .tooMany
        }
    }

    package func left(_ address: String) {
        let address = PeerKey(address)
        state.withLock { state in
            state.total -= 1
            guard let fromThere = state.byAddress[address] else { return }
            state.byAddress[address] = fromThere > 1 ? fromThere - 1 : nil
        }
    }

    var total: Int { state.withLock { $0.total } }
}
