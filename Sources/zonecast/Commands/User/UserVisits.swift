import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization

/// The sessions and tokens that a command has created for itself, which must not outlive it.
///
/// Contains only open ones: the command ends them as it proceeds, and a signal ends the rest.
final class UserVisits: Sendable {
    private struct Open {
        var tokens: Set<String> = []
        var sessions: Set<Session.ID> = []
    }

    let store: AccountStore
    private let open = Mutex(Open())

    init(_ store: AccountStore) { self.store = store }

    /// Runs `body` and ends its sessions afterwards, also if a signal ends the program.
    static func during<Value>(_ store: AccountStore, _ body: (UserVisits) async throws -> Value) async rethrows -> Value
    {
        let visits = UserVisits(store)
        let ending = EndingSignals { visits.end() }
        defer { ending.end() }
        return try await body(visits)
    }

    /// Creates an API token and a session, atomically with respect to signals.
    func start(_ account: Account, in home: ContainerEnvironment) throws -> Started {
        try open.withLock { open in
            let (text, token) = try store.addAPIToken(
                in: home,
                name: "command line",
                notes: "",
                callbackURL: nil,
                allowedOrigins: []
            )
            open.tokens.insert(token.id)
            let (webToken, user, session) = try SignIn.start(
                for: account.id,
                in: home,
                kind: .visit,
                directory: store,
                time: .system,
                random: .system
            )
            open.sessions.insert(session)
            return Started(apiToken: text, webToken: webToken, user: user)
        }
    }

    func end() {
        open.withLock { open in
            for session in open.sessions { try? store.revokeSession(session) }
            for token in open.tokens { try? store.removeAPIToken(token) }
            open = Open()
        }
    }

    struct Started {
        var apiToken: String
        var webToken: String
        var user: UserID
    }
}
