import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Testing

/// A relay's directory, by default in memory, with one container, one token and one signed-in user, and clocks that stand still.
final class SignInWorld {
    let clock = HandClock()
    let store: any AccountDirectory
    let home: ContainerEnvironment
    let elsewhere: ContainerEnvironment
    let apiToken: String
    let alice: Account
    var settings = SignInSettings()

    init(in place: any TestHome = TestStore.current.makeHome()) throws {
        store = try place.accounts(time: clock.source)
        home = ContainerEnvironment(try #require(ContainerID("iCloud.org.example.notes")), .development)
        elsewhere = ContainerEnvironment(try #require(ContainerID("iCloud.org.example.other")), .development)
        try store.addContainer(home.container)
        try store.addContainer(elsewhere.container)
        apiToken = try store.addAPIToken(
            in: home,
            name: "",
            notes: "",
            callbackURL: nil,
            allowedOrigins: ["https://app.example"]
        ).text
        alice = try store.addAccount(email: "alice@example.org", password: "correct horse")
    }

    func authenticator(identityTokens: (any IdentityTokenVerifier)? = nil) throws -> Authenticator {
        try Authenticator(
            directory: store,
            settings: settings,
            identityTokens: identityTokens,
            time: clock.source,
            random: .system
        )
    }

    /// Returns a new relay on this directory.
    func relay(
        stores: any ServedStores = TestStore.current.makeHome().stores(),
        limits: Limits = Limits(),
        identityTokens: (any IdentityTokenVerifier)? = nil
    ) throws -> Relay {
        Relay(
            authenticator: try authenticator(identityTokens: identityTokens),
            stores: stores,
            limits: limits,
            time: clock.source,
            random: .system
        )
    }

    func signIn(_ account: Account? = nil, in place: ContainerEnvironment? = nil, _ kind: Session.Kind = .brief) throws
        -> (webToken: String, user: UserID)
    {
        let started = try start(account ?? alice, in: place ?? home, kind)
        return (started.webToken, started.user)
    }

    func start(_ account: Account, in place: ContainerEnvironment, _ kind: Session.Kind) throws
        -> (webToken: String, user: UserID, session: Session.ID)
    {
        try SignIn.start(
            for: account.id,
            in: place,
            kind: kind,
            directory: store,
            time: clock.source,
            random: .system
        )
    }

    /// Returns a GET with these tokens in its query, the web token escaped as in Wire.md, "Web auth tokens".
    func request(apiToken: String?, webToken: String? = nil, headers: HTTPFields = [:]) -> APIRequest {
        let parts = [apiToken.map { "ckAPIToken=\($0)" }, webToken.map { "ckWebAuthToken=\(Self.escaped($0))" }]
        return APIRequest(
            method: .get,
            path: "/database/1/\(home.container)/development/public/users/caller",
            query: parts.compactMap { $0 }.joined(separator: "&"),
            headers: headers
        )
    }

    /// Returns a POST to an operation of the container's development environment, with these tokens in its query.
    func post(_ operation: String, _ body: String, apiToken: String? = nil, webToken: String? = nil) -> APIRequest {
        var request = request(apiToken: apiToken ?? self.apiToken, webToken: webToken)
        request.method = .post
        request.path = "/database/1/\(home.container)/development/\(operation)"
        request.body = Array(body.utf8)
        return request
    }

    static func escaped(_ token: String) -> String {
        token.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
    }
}

/// Both clocks, advanced by the test.
final class HandClock: Sendable {
    private let elapsed = Mutex(Duration.zero)
    private let start = Mutex(Timestamp(milliseconds: 1_800_000_000_000))

    func advance(_ duration: Duration) { elapsed.withLock { $0 += duration } }

    /// Moves the calendar clock forward or back; no time passes.
    func leap(_ duration: Duration) { start.withLock { $0 = $0 + duration } }

    var now: Timestamp { start.withLock { $0 } + elapsed.withLock { $0 } }

    var source: TimeSource { TimeSource(now: { self.now }, uptime: { self.elapsed.withLock { $0 } }) }
}
