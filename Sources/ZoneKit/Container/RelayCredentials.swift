import Synchronization

/// Who a program is to its relay, kept while it runs.
///
/// The web auth token changes under way: the relay sends a fresh one with its answers and over the notice socket, and
/// goes on taking the older ones until their own end, so requests may overlap and come back in any order.
package final class RelayCredentials: Sendable {
    private struct State {
        var webAuthToken: String?
        /// Draws apart the answers to requests made before a change of account from those made after it.
        var generation = 0
    }

    package let apiToken: String?
    private let state: Mutex<State>
    private let renewed: (@Sendable (String) -> Void)?

    package init(apiToken: String?, webAuthToken: String?, renewed: (@Sendable (String) -> Void)? = nil) {
        self.apiToken = apiToken
        self.renewed = renewed
        state = Mutex(State(webAuthToken: webAuthToken))
    }

    /// The token to send now, and the generation to hand back with the one that comes in answer.
    package var current: (webAuthToken: String?, generation: Int) {
        state.withLock { ($0.webAuthToken, $0.generation) }
    }

    package var webAuthToken: String? { state.withLock { $0.webAuthToken } }

    /// Takes a token that the relay sent in answer to a request of that generation; an older account's is dropped.
    package func renew(_ token: String, generation: Int) {
        let isNew = state.withLock { state in
            guard state.generation == generation, state.webAuthToken != token else { return false }
            state.webAuthToken = token
            return true
        }
        if isNew { renewed?(token) }
    }

    /// Signs in as somebody else, or out.
    package func replace(webAuthToken: String?) {
        state.withLock { state in
            state.webAuthToken = webAuthToken
            state.generation += 1
        }
    }
}
