import Foundation
import HTTPTypes
package import Records
import RelayAPI
package import RelayCore
import Synchronization

/// The guests of `zonecast demo --join`: people who enter with a PIN and receive a throw-away user.
///
/// The page of the demo's host enters with a secret instead, and receives the users alice and bob. All of them exist only in
/// the demo's own container. Entries are rate-limited by address and in total, whether the PIN is right or not.
package final class DemoGuests: Sendable {
    /// What `zonecast demo --join` passes to its relay, in a file that only its user may read.
    package struct Settings: Codable, Sendable {
        package var container: String
        package var apiToken: String
        package var pin: String
        package var hostSecret: String

        package init(container: String, apiToken: String, pin: String, hostSecret: String) {
            self.container = container
            self.apiToken = apiToken
            self.pin = pin
            self.hostSecret = hostSecret
        }
    }

    /// The greatest number of guests.
    package static let limit = 200
    /// For one address: a burst of ten attempts, then one every six seconds.
    private static let perAddress = RateLimit(perSecond: 1 / 6.0, burst: 10)
    /// Altogether: at this rate, trying all PINs takes weeks.
    private static let altogether = RateLimit(perSecond: 0.5, burst: 60)

    private struct Entry: Decodable {
        var pin: String?
        var host: String?
        /// From the host: the link of the share that guests accept.
        var invitation: String?
    }

    private struct Welcome: Encodable {
        var container = ""
        var apiToken = ""
        /// Web auth tokens by user.
        var users: [String: String]
        /// For the host, who shows it.
        var pin: String?
    }

    private struct State {
        var attempts = TokenBuckets<String>(DemoGuests.perAddress, capacity: 4_096)
        var all: TokenBucket
        var guests = 0
        var hostUsers: [String: String]?
        var invitation: String?
    }

    private let settings: Settings
    private let home: ContainerEnvironment
    private let directory: any Directory
    private let time: TimeSource
    private let random: RandomSource
    private let state: Mutex<State>

    /// - Parameters:
    ///   - settings: The demo's container and secrets.
    ///   - home: The container and environment of `settings`.
    ///   - directory: Where the users are created.
    ///   - time: The clock of the rate limits and sessions.
    ///   - random: The source of the web auth tokens.
    package init(
        _ settings: Settings,
        in home: ContainerEnvironment,
        directory: any Directory,
        time: TimeSource,
        random: RandomSource
    ) {
        self.settings = settings
        self.home = home
        self.directory = directory
        self.time = time
        self.random = random
        state = Mutex(State(all: TokenBucket(Self.altogether, at: time.uptime())))
    }

    /// The link of the share that guests accept, once the host has made it; safe inside JSON.
    var invitation: String? { state.withLock { $0.invitation } }

    private static func isLinkCharacter(_ byte: UInt8) -> Bool {
        (0x21...0x7E).contains(byte) && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// Answers an entry of a guest or of the host.
    func answer(_ request: APIRequest) -> APIResponse {
        guard let entry = try? JSONDecoder().decode(Entry.self, from: Data(request.body)) else {
            return refusal(.badRequest, "The request has no PIN.")
        }
        return state.withLock { state in
            if let host = entry.host, Self.areEqual(host, settings.hostSecret) { return welcomeHost(entry, &state) }
            let now = time.uptime()
            if state.attempts.take(request.remoteAddress, at: now) != nil
                || state.all.take(Self.altogether, at: now) != nil
            {
                return refusal(.tooManyRequests, "Too many attempts. Wait a minute, then try again.")
            }
            guard let pin = entry.pin, Self.areEqual(pin, settings.pin) else {
                return refusal(.forbidden, "This is not the PIN. It is on the screen of the demo.")
            }
            guard state.guests < Self.limit else { return refusal(.forbidden, "The demo is full.") }
            do {
                let user = "guest\(state.guests + 1)"
                let token = try webToken(of: user)
                state.guests += 1
                return welcome(Welcome(users: [user: token]))
            } catch {
                return refusal(.serviceUnavailable, "The relay cannot add a guest now. Try again.")
            }
        }
    }

    private func welcomeHost(_ entry: Entry, _ state: inout State) -> APIResponse {
        if let invitation = entry.invitation, invitation.utf8.allSatisfy(Self.isLinkCharacter) {
            state.invitation = invitation
        }
        do {
            let users = try state.hostUsers ?? ["alice": webToken(of: "alice"), "bob": webToken(of: "bob")]
            state.hostUsers = users
            return welcome(Welcome(users: users, pin: settings.pin))
        } catch {
            return refusal(.serviceUnavailable, "The relay cannot sign in the host now. Try again.")
        }
    }

    private func webToken(of user: String) throws -> String {
        let name = PersonName(given: user.capitalized)
        let person = ExternalIdentity(issuer: "zonecast-demo", subject: user, email: nil, phone: nil, name: name)
        let account = try directory.account(for: person)
        return try SignIn.start(
            for: account.id,
            in: home,
            kind: .kept,
            directory: directory,
            time: time,
            random: random
        ).webToken
    }

    private func welcome(_ welcome: Welcome) -> APIResponse {
        var welcome = welcome
        (welcome.container, welcome.apiToken) = (settings.container, settings.apiToken)
        guard let body = try? JSONEncoder().encode(welcome) else {
            return refusal(.internalServerError, "The answer cannot be written.")
        }
        var response = APIResponse(status: .ok, body: Array(body))
        response.headers[.contentType] = "application/json; charset=utf-8"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    private func refusal(_ status: HTTPResponse.Status, _ sentence: String) -> APIResponse {
        var response = APIResponse(status: status, body: Array(sentence.utf8))
        response.headers[.contentType] = "text/plain; charset=utf-8"
        response.headers[.cacheControl] = "no-store"
        return response
    }

    /// Compares secrets in a time that does not depend on where they differ.
    private static func areEqual(_ one: String, _ other: String) -> Bool {
        let (one, other) = (Array(one.utf8), Array(other.utf8))
        guard one.count == other.count else { return false }
        return zip(one, other).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
