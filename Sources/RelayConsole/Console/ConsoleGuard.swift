import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
package import RelayCore
import Synchronization

/// Protects the console against unauthenticated callers, cross-site requests and password guessing.
///
/// A session is identified by a cookie that scripts cannot read and other sites cannot send (`HttpOnly`,
/// `SameSite=Strict`). Each request also has a header that a page of another origin could send only after a preflight,
/// which the relay refuses. For changes, its value is a token that only a page of the same session knows. See
/// Reliability.md, "Origins and cookies".
package final class ConsoleGuard: Sendable {
    static let cookieName = "zonecast_console"
    /// The header that the console's page sends with each request.
    private static let headerName = HTTPField.Name("X-Zonecast-Console")

    private static let rateOfAddress = RateLimit(perSecond: 6.0 / 60, burst: 10)
    /// Higher than per address, because strangers could lock an operator out with it.
    private static let rateOfName = RateLimit(perSecond: 30.0 / 60, burst: 60)

    private let attempts: any Attempts
    /// Passwords are checked one at a time: each check takes one core and 32 MiB for about 250 ms.
    private let passwordQueue = DispatchQueue(label: "zonecast console sign-in")
    private let waitingCount = Mutex(0)
    /// The maximum number of waiting checks, so that the last one completes within some seconds.
    package static let maxWaiting = 24
    /// Challenges of passkeys.
    let challenges: OneTimeSeal
    /// Tickets for downloads of backups.
    let tickets: OneTimeSeal

    /// - Parameters:
    ///   - attempts: Counts attempts, over all relays on the same accounts.
    ///   - relayKey: The key of the accounts, with which several relays recognize each other's challenges and tickets; `nil`
    ///     draws one, which is this process's alone.
    package init(attempts: any Attempts, relayKey: [UInt8]? = nil) {
        self.attempts = attempts
        challenges = OneTimeSeal("passkey challenges", relayKey: relayKey, life: .seconds(300), uses: attempts)
        tickets = OneTimeSeal("download tickets", relayKey: relayKey, life: .seconds(60), uses: attempts)
    }

    /// Returns the token that a page of this session sends with each change.
    static func token(ofSession secret: String) -> String {
        let key = SymmetricKey(data: Data(secret.utf8))
        return Base64URL.encode(Array(HMAC<SHA256>.authenticationCode(for: changes, using: key)))
    }

    /// Returns whether a change was sent by a page of the same session as its cookie.
    ///
    /// Returns `true` without a cookie; the request is then refused because there is no session.
    static func hasSessionToken(_ request: APIRequest) -> Bool {
        guard let secret = secret(of: request) else { return true }
        guard let headerName, let code = request.headers[headerName].flatMap({ Base64URL.decode($0.utf8) }) else {
            return false
        }
        let key = SymmetricKey(data: Data(secret.utf8))
        return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: changes, using: key)
    }

    private static let changes = Array("changes by the console's page".utf8)

    /// Charges one attempt with a password, or with a code if `name` is `nil`; throws if the rate is exceeded.
    package func charge(name: String? = nil, from address: String) throws {
        var wait = try attempts.take(Self.key(ofAddress: address), of: Self.rateOfAddress)
        if wait == nil, let name { wait = try attempts.take(Self.key(ofName: name), of: Self.rateOfName) }
        guard let wait else { return }
        let seconds = max(1, Int(wait.inSeconds.rounded(.up)))
        throw ConsoleRefusal("Too many attempts. Retry in \(seconds) seconds.", status: 429)
    }

    /// Reverses the charge of a successful attempt.
    func giveBack(name: String? = nil, from address: String) {
        // An attempt that stays counted leaves fewer to the next ones, for a minute.
        try? attempts.giveBack(Self.key(ofAddress: address), of: Self.rateOfAddress)
        if let name { try? attempts.giveBack(Self.key(ofName: name), of: Self.rateOfName) }
    }

    private static func key(ofAddress address: String) -> String { "console address \(PeerKey(address).text)" }
    private static func key(ofName name: String) -> String { "console name \(name.lowercased())" }

    /// Throws unless this is the signed-in operator's password.
    ///
    /// Required again before access to private records is possible.
    func confirm(
        _ person: Operator,
        _ password: String,
        _ accounts: any OperatorDirectory,
        from address: String
    ) async throws {
        try charge(name: person.name, from: address)
        let found = try await enqueue { try accounts.operator(name: person.name, password: password) }
        guard found?.id == person.id else { throw ConsoleRefusal("The password is wrong.", status: 403) }
        giveBack(name: person.name, from: address)
    }

    /// Runs work that takes a core after the previous ones; throws if too many wait.
    package func enqueue<Value: Sendable>(_ work: @escaping @Sendable () throws -> Value) async throws -> Value {
        let mayWait = waitingCount.withLock { count in
            guard count < Self.maxWaiting else { return false }
            count += 1
            return true
        }
        guard mayWait else {
            throw ConsoleRefusal("Too many sign-ins at the moment. Retry in a few seconds.", status: 503)
        }
        return try await withCheckedThrowingContinuation { continuation in
            passwordQueue.async { [self] in
                let result = Result { try work() }
                waitingCount.withLock { $0 -= 1 }
                continuation.resume(with: result)
            }
        }
    }

    /// Returns whether the request comes from the console's own page, at `publicURL` or at the address of the request.
    static func isOwnPage(_ request: APIRequest, publicURL: String?) -> Bool {
        guard let headerName, request.headers[headerName] != nil, isSameSite(request) else { return false }
        // Reads have no `Origin`, and other pages cannot read their responses.
        return request.method == .get || request.method == .head || isOfOwnOrigin(request, publicURL)
    }

    /// Checks the header `Origin` if there is one; only the host counts, since a proxy may terminate TLS.
    private static func isOfOwnOrigin(_ request: APIRequest, _ publicURL: String?) -> Bool {
        guard let origin = request.headers[.origin] else { return true }
        let parts = origin.lowercased().split(separator: "://", maxSplits: 1)
        guard parts.count == 2 else { return false }
        let called = HTTPField.Name("Host").flatMap { request.headers[$0] }
        let known = publicURL?.split(separator: "://", maxSplits: 1).last?.split(separator: "/").first.map(String.init)
        // Browsers omit a scheme's default port, and some proxies add it.
        let names = [parts[1], parts[1] + (parts[0] == "https" ? ":443" : ":80")]
        return [called, known].compactMap { $0?.lowercased() }.contains { name in names.contains { $0 == name } }
    }

    /// Checks the header `Sec-Fetch-Site` if there is one.
    static func isSameSite(_ request: APIRequest) -> Bool {
        guard let site = HTTPField.Name("Sec-Fetch-Site").flatMap({ request.headers[$0] }) else { return true }
        return site == "same-origin" || site == "none"
    }

    /// Returns the session secret in the cookie.
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

    /// Returns a cookie for the folder of the API, independent of a proxy's prefix; without a secret, it deletes the
    /// cookie.
    static func cookie(_ secret: String?, isSecure: Bool) -> String {
        let end = secret == nil ? "; Max-Age=0" : ""
        return "\(cookieName)=\(secret ?? "")\(end); HttpOnly; SameSite=Strict\(isSecure ? "; Secure" : "")"
    }
}
