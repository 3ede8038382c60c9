import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization

/// The sign-ins that a command has made for itself, and that must not outlive it.
///
/// It holds nothing but what is open: the command ends them as it goes on, and a signal ends the rest.
final class UserVisits: Sendable {
    private struct Open {
        var tokens: Set<String> = []
        var sessions: Set<Session.ID> = []
    }

    let store: AccountStore
    private let open = Mutex(Open())

    init(_ store: AccountStore) { self.store = store }

    /// Runs `body`, whose sign-ins end with it however the program ends.
    static func during<Value>(_ store: AccountStore, _ body: (UserVisits) async throws -> Value) async rethrows -> Value
    {
        let visits = UserVisits(store)
        let ending = EndingSignals { visits.end() }
        defer { ending.end() }
        return try await body(visits)
    }

    /// Makes an API token and a sign-in; all of it or nothing, also for a signal that comes meanwhile.
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
