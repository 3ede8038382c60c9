import Crypto
import Foundation
import HTTPTypes
import Records
import RelayCore

/// Protects the forms against cross-site requests, and issues the ticket of an opened account page.
///
/// Stores nothing on the relay. Uses a random cookie, which other sites can neither read nor send (`SameSite=Strict`),
/// and values authenticated for it with a key derived from the relay's key.
struct PageGuard: Sendable {
    static let cookieName = "zonecast_page"
    /// How long an account page that was opened with the password remains valid.
    static let ticketLifetime = Duration.seconds(15 * 60)

    private let key: SymmetricKey

    init(relayKey: [UInt8]) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast pages 1")
    }

    /// Returns the cookie of the request if it has a valid format.
    static func cookie(of request: APIRequest) -> String? {
        for header in request.headers[values: .cookie] {
            for part in header.split(separator: ";") {
                let pair = part.drop { $0 == " " }.split(separator: "=", maxSplits: 1)
                guard pair.count == 2, pair[0] == cookieName else { continue }
                let value = String(pair[1])
                return Hex.isDigits(value, count: 32) ? value : nil
            }
        }
        return nil
    }

    /// Returns the value of the field `form` of each form.
    func formSeal(_ cookie: String) -> String { Hex.encode(tag("form", Array(cookie.utf8))) }

    /// Returns whether a form was created by this relay for this browser.
    func isOwnForm(_ request: APIRequest, _ fields: FormFields, ownHosts: [String]) -> Bool {
        guard let cookie = Self.cookie(of: request), let seal = fields["form"] else { return false }
        if let site = request.headers[.fetchSite], site != "same-origin", site != "none" { return false }
        if let origin = request.headers[.origin] {
            guard let host = origin.split(separator: "://", maxSplits: 1).last, ownHosts.contains(String(host)) else {
                return false
            }
        }
        return ConstantTime.areEqual(Array(seal.utf8), Array(formSeal(cookie).utf8))
    }

    /// Returns a ticket that shows that this browser's user has just entered the account's password.
    func ticket(for account: Account.ID, passwordFingerprint: [UInt8], cookie: String, at now: Timestamp) -> String {
        let end = (now + Self.ticketLifetime).milliseconds
        return "\(account.number).\(end)." + seal(account.number, end, passwordFingerprint, cookie)
    }

    /// Returns the account of a ticket if it belongs to this browser, has not expired, and the password has not
    /// changed.
    func account<Failure>(
        ofTicket ticket: String,
        cookie: String,
        at now: Timestamp,
        passwordFingerprint: (Account.ID) throws(Failure) -> [UInt8]
    ) throws(Failure) -> Account.ID? {
        let parts = ticket.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let number = Int64(parts[0]), let end = Int64(parts[1]), now.milliseconds < end else {
            return nil
        }
        let account = Account.ID(number)
        let seal = seal(number, end, try passwordFingerprint(account), cookie)
        return ConstantTime.areEqual(Array(parts[2].utf8), Array(seal.utf8)) ? account : nil
    }

    private func seal(_ account: Int64, _ end: Int64, _ passwordFingerprint: [UInt8], _ cookie: String) -> String {
        Hex.encode(tag("ticket", Array("\(account).\(end).\(Hex.encode(passwordFingerprint)).\(cookie)".utf8)))
    }

    private func tag(_ purpose: String, _ bytes: [UInt8]) -> HMAC<SHA256>.MAC {
        HMAC<SHA256>.authenticationCode(for: Array(purpose.utf8) + [0] + bytes, using: key)
    }
}

extension HTTPField.Name {
    /// The header with which a browser describes the relationship of the requesting site.
    static let fetchSite: HTTPField.Name = {
        guard let name = HTTPField.Name("Sec-Fetch-Site") else {
            preconditionFailure("the name holds only letters and dashes")
        }
        return name
    }()
}

/// The fields of a query or of a form sent as `application/x-www-form-urlencoded`.
///
/// Unlike in the two tokens of the wire, `+` is a blank, as browsers encode it. If a name occurs several times, the
/// first field counts.
package struct FormFields: Sendable {
    /// The maximum size of a form in bytes; the pages' forms are much smaller.
    static let longest = 16 * 1024

    private var values: [String: String] = [:]

    /// Returns `nil` if it is too long, has too many fields, or is not UTF-8 when decoded.
    package init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count <= Self.longest else { return nil }
        let parts = bytes.split(separator: UInt8(ascii: "&"))
        guard parts.count <= 64 else { return nil }
        for part in parts {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let written = pair.count > 1 ? pair[1] : part[..<part.startIndex]
            guard let name = Self.unescape(pair[0]), let value = Self.unescape(written) else { return nil }
            if values[name] == nil { values[name] = value }
        }
    }

    /// The value of a field; `nil` if absent or empty.
    package subscript(name: String) -> String? {
        guard let value = values[name], !value.isEmpty else { return nil }
        return value
    }

    private static func unescape(_ bytes: some Collection<UInt8>) -> String? {
        let blanked = bytes.map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
        return String(validating: blanked, as: UTF8.self).flatMap(PercentCoding.decode)
    }
}
