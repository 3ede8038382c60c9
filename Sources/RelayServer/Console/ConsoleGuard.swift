import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Synchronization

/// Keeps strangers, other sites' pages and guessers out of the console.
///
/// Who is signed in says a cookie that scripts cannot read and other sites cannot send (`HttpOnly`, `SameSite=Strict`); each
/// request also carries a header that a page of another origin could send only after a preflight, which nobody answers. With
/// a change it says the token of the sign-in, which only a page that was answered as that sign-in has. See
/// Reliability.md, "Origins and cookies".
final class ConsoleGuard: Sendable {
    static let cookieName = "zonecast_console"
    /// What our own page sends with each request.
    private static let headerName = HTTPField.Name("X-Zonecast-Console")

    private struct Attempts {
        var addresses: TokenBuckets<PeerKey>
        var names: TokenBuckets<String>
    }

    private let attempts: Mutex<Attempts>
    private let uptime: @Sendable () -> Duration
    /// Passwords are checked one after the other: each takes a core and 32 MiB for a quarter of a second.
    private let desk = DispatchQueue(label: "zonecast console sign-in")
    private let inLine = Mutex(0)
    /// How many may wait for the desk: with them, the last one's answer comes within some seconds.
    static let longestLine = 24
    let challenges = PasskeyChallenges()
    let tickets = DownloadTickets()

    /// - Parameter uptime: Time that never goes back.
    init(uptime: @escaping @Sendable () -> Duration) {
        self.uptime = uptime
        attempts = Mutex(
            Attempts(
                addresses: TokenBuckets(RateLimit(perSecond: 6.0 / 60, burst: 10), capacity: 4_096),
                // More than from one address, since a stranger could lock somebody out with it.
                names: TokenBuckets(RateLimit(perSecond: 30.0 / 60, burst: 60), capacity: 4_096)
            )
        )
    }

    /// What a page of this sign-in sends with each change.
    static func token(ofSession secret: String) -> String {
        let key = SymmetricKey(data: Data(secret.utf8))
        return Base64URL.encode(Array(HMAC<SHA256>.authenticationCode(for: changes, using: key)))
    }

    /// Whether a page of the same sign-in sends the change whose cookie comes with it.
    ///
    /// Where there is no cookie nobody has signed in, which whoever asks is told.
    static func isOfSession(_ request: APIRequest) -> Bool {
        guard let secret = secret(of: request) else { return true }
        guard let headerName, let said = request.headers[headerName].flatMap({ Base64URL.decode($0.utf8) }) else {
            return false
        }
        let key = SymmetricKey(data: Data(secret.utf8))
        return HMAC<SHA256>.isValidAuthenticationCode(said, authenticating: changes, using: key)
    }

    private static let changes = Array("changes by the console's page".utf8)

    /// Counts a password, or without a name a code, that somebody tries; throws where that was one too many.
    func charge(name: String? = nil, from address: String) throws {
        let now = uptime()
        let wait = attempts.withLock { attempts in
            attempts.addresses.take(PeerKey(address), at: now)
                ?? name.flatMap { attempts.names.take($0.lowercased(), at: now) }
        }
        guard let wait else { return }
        let seconds = max(1, Int(wait.inSeconds.rounded(.up)))
        throw ConsoleRefusal("Too many attempts. Wait \(seconds) seconds and try again.", status: 429)
    }

    /// What was counted turned out to be right.
    func giveBack(name: String? = nil, from address: String) {
        let now = uptime()
        attempts.withLock { attempts in
            attempts.addresses.giveBack(PeerKey(address), at: now)
            if let name { attempts.names.giveBack(name.lowercased(), at: now) }
        }
    }

    /// Throws unless this is the password of somebody who is signed in: asked for once more before private contents could
    /// come into their hands.
    func confirm(
        _ person: Operator,
        _ password: String,
        _ accounts: AccountStore,
        from address: String
    ) async throws {
        try charge(name: person.name, from: address)
        let found = try await inTurn { try accounts.operator(name: person.name, password: password) }
        guard found?.id == person.id else { throw ConsoleRefusal("The password is wrong.", status: 403) }
        giveBack(name: person.name, from: address)
    }

    /// Runs work that takes a core, in turn; throws where too many wait already.
    func inTurn<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        let mayWait = inLine.withLock { count in
            guard count < Self.longestLine else { return false }
            count += 1
            return true
        }
        guard mayWait else {
            throw ConsoleRefusal("Many people are signing in just now. Try again in some seconds.", status: 503)
        }
        return try await withCheckedThrowingContinuation { continuation in
            desk.async { [self] in
                let result = Result { try work() }
                inLine.withLock { $0 -= 1 }
                continuation.resume(with: result)
            }
        }
    }

    /// Whether the console's own page asks, which is at `publicURL` or where the request was sent.
    static func isOwnPage(_ request: APIRequest, publicURL: String?) -> Bool {
        guard let headerName, request.headers[headerName] != nil, isFromNoOtherSite(request) else { return false }
        // What reads is sent without an origin, and its answer is for no other page in any case.
        return request.method == .get || request.method == .head || isOfOwnOrigin(request, publicURL)
    }

    /// As far as an `Origin` is there: only the host counts, since a proxy may end TLS.
    private static func isOfOwnOrigin(_ request: APIRequest, _ publicURL: String?) -> Bool {
        guard let origin = request.headers[.origin] else { return true }
        let parts = origin.lowercased().split(separator: "://", maxSplits: 1)
        guard parts.count == 2 else { return false }
        let called = HTTPField.Name("Host").flatMap { request.headers[$0] }
        let known = publicURL?.split(separator: "://", maxSplits: 1).last?.split(separator: "/").first.map(String.init)
        // Browsers leave a scheme's own port out, and some proxies put it in.
        let names = [parts[1], parts[1] + (parts[0] == "https" ? ":443" : ":80")]
        return [called, known].compactMap { $0?.lowercased() }.contains { name in names.contains { $0 == name } }
    }

    /// As far as the browser says where a request comes from.
    static func isFromNoOtherSite(_ request: APIRequest) -> Bool {
        guard let site = HTTPField.Name("Sec-Fetch-Site").flatMap({ request.headers[$0] }) else { return true }
        return site == "same-origin" || site == "none"
    }

    /// The secret in the browser's cookie.
    static func secret(of request: APIRequest) -> String? {
        for header in request.headers[values: .cookie] {
            for part in header.split(separator: ";") {
                let pair = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
                guard pair.count == 2, pair[0] == cookieName else { continue }
                return Hex.isDigits(String(pair[1]), count: 64) ? String(pair[1]) : nil
            }
        }
        return nil
    }

    /// A cookie for the folder that the API is in, whatever prefix a proxy puts before it; without a secret it goes.
    static func cookie(_ secret: String?, isSecure: Bool) -> String {
        let end = secret == nil ? "; Max-Age=0" : ""
        return "\(cookieName)=\(secret ?? "")\(end); HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
    }
}
