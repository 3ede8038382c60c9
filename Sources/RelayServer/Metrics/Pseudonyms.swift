import Crypto
package import Records
import RelayAPI
package import RelayCore

/// Pseudonyms of users and devices in logs: ten hexadecimal digits, derived with this relay's key.
///
/// A user of a container always has the same pseudonym, so that a log can be searched for it. Without the key, a
/// pseudonym can neither be reversed nor be guessed by trying names.
package struct Pseudonyms: Sendable {
    private let key: SymmetricKey

    /// - Parameter relayKey: The relay's key from its data folder.
    package init(relayKey: [UInt8]) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast log names")
    }

    package func of(_ user: UserID) -> String { name("user", user.recordName) }

    /// The app chooses device identifiers, so the pseudonym is derived from both device and user.
    package func ofDevice(_ caller: Caller) -> String? {
        guard let user = caller.user, !caller.deviceID.isEmpty else { return nil }
        return name("device", "\(user.recordName)/\(caller.deviceID)")
    }

    /// Returns the pseudonym of the subject of a rate limit; `nil` for anonymous callers.
    package func of(_ subject: RateSubject) -> String? {
        switch subject {
        case .user(let user): of(user)
        case .address(let text): name("address", text)
        case .account(let text): name("account", text)
        case .anyone: nil
        }
    }

    private func name(_ kind: String, _ text: String) -> String {
        let code = HMAC<SHA256>.authenticationCode(for: Array("\(kind) \(text)".utf8), using: key)
        return code.prefix(5).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
