import Foundation
import Synchronization

/// Who a program is to its relay, kept while it runs.
///
/// The web auth token changes under way: the relay sends a fresh one with its answers and over the notice socket, and
/// goes on taking the older ones until their own end, so requests may overlap and come back in any order.
package final class RelayCredentials: Sendable {
    private struct State {
        var credential: RelayCredential
        var webAuthToken: String?
        /// Draws apart the answers to requests made before a change of account from those made after it.
        var generation: Int
        /// The sign-in that is under way; whoever needs a token meanwhile waits for it.
        var signIn: Task<String, any Error>?
        var serverKey: ServerKey?
    }

    package let apiToken: String?
    private let state: Mutex<State>
    private let renewed: (@Sendable (String) -> Void)?
    /// Counts the sign-ins of the whole process: no two objects have one of the same number, so that the one that takes
    /// another's place is not taken for it.
    private static let generations = Atomic<Int>(0)

    package init(
        apiToken: String?,
        credential: RelayCredential,
        renewed: (@Sendable (String) -> Void)? = nil
    ) {
        self.apiToken = apiToken
        self.renewed = renewed
        state = Mutex(Self.newState(of: credential))
    }

    package convenience init(
        apiToken: String?,
        webAuthToken: String?,
        renewed: (@Sendable (String) -> Void)? = nil
    ) {
        self.init(
            apiToken: apiToken,
            credential: webAuthToken.map { .webAuthToken($0) } ?? .nobody,
            renewed: renewed
        )
    }

    private static func newState(of credential: RelayCredential) -> State {
        let generation = generations.add(1, ordering: .relaxed).newValue
        var state = State(credential: credential, webAuthToken: credential.presetToken, generation: generation)
        if case .serverKey(let id, let pem) = credential { state.serverKey = ServerKey(id: id, pem: pem) }
        return state
    }

    /// The token to send now, and the generation to hand back with the one that comes in answer.
    package var current: (webAuthToken: String?, generation: Int) {
        state.withLock { ($0.webAuthToken, $0.generation) }
    }

    package var webAuthToken: String? { state.withLock { $0.webAuthToken } }

    /// Whether there is, or can be, a user to speak for.
    package var namesUser: Bool { state.withLock { $0.webAuthToken != nil || $0.credential.canSignIn } }

    var serverKey: ServerKey? { state.withLock { $0.serverKey } }

    /// A server key was named that is none.
    var hasUnusableKey: Bool {
        state.withLock { state in
            if case .serverKey = state.credential { return state.serverKey == nil }
            return false
        }
    }

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
        replace(by: webAuthToken.map { .webAuthToken($0) } ?? .nobody)
    }

    /// Speaks as somebody else from now on.
    package func replace(by credential: RelayCredential) {
        state.withLock { state in
            state.signIn?.cancel()
            state = Self.newState(of: credential)
        }
    }

    /// A token by signing in, where the credential can, and whose it is; `nil` where it cannot.
    ///
    /// `refused` is the token that the relay did not take: if another is known by now, that one is it. Several who ask
    /// wait for one sign-in.
    func signedIn(
        insteadOf refused: String?,
        by signIn: @escaping @Sendable (RelayCredential) async throws -> String
    ) async throws -> (token: String, generation: Int)? {
        let (known, task, generation) = state.withLock { state -> (String?, Task<String, any Error>?, Int) in
            if let token = state.webAuthToken, token != refused { return (token, nil, state.generation) }
            guard state.credential.canSignIn else { return (nil, nil, state.generation) }
            if let running = state.signIn { return (nil, running, state.generation) }
            let credential = state.credential
            // Not on the common pool's threads: all of them may be waiting for a file that needs this sign-in.
            let task = Task(executorPreference: OwnThreads.lane) { try await signIn(credential) }
            state.signIn = task
            return (nil, task, state.generation)
        }
        guard let task else { return known.map { ($0, generation) } }
        defer {
            state.withLock { state in
                if state.signIn == task { state.signIn = nil }
            }
        }
        let token = try await task.value
        renew(token, generation: generation)
        return (token, generation)
    }
}
