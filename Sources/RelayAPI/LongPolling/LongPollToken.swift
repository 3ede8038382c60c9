import Crypto
import Foundation
import Records
import RelayCore
import Wire

/// A long-poll token as issued by `tokens/create`.
///
/// The text consists of two parts in unpadded Base64URL, separated by a dot: the content as JSON, and an HMAC-SHA256
/// over the content and the container with a key derived from the relay's key. The relay therefore stores nothing, and
/// the token remains valid across restarts. See Wire.md, "Long polling".
struct LongPollToken: Hashable, Sendable {
    var user: UserID
    /// The device that requested the token; it is not notified of its own changes.
    var deviceID: String
    /// The credential of that request; the token is valid only as long as the credential.
    var credential: Credential
    var expires: Timestamp
    /// Distinguishes the tokens of a user; 16 random bytes in hex.
    var id: String

    /// Creates and verifies the tokens of one relay.
    struct Seal: Sendable {
        private let key: SymmetricKey

        init(relayKey: [UInt8]) {
            key = SymmetricKey(relayKey: relayKey, purpose: "zonecast courier token 1")
        }

        func text(of token: LongPollToken, in home: ContainerEnvironment) -> String {
            let content = token.encoded
            return Base64URL.encode(content) + "." + Base64URL.encode(tag(over: content, home))
        }

        /// Returns the token; `nil` if this relay has not issued it for this container.
        func token(_ text: String, in home: ContainerEnvironment) -> LongPollToken? {
            let parts = text.split(separator: ".", omittingEmptySubsequences: false)
            guard text.utf8.count <= 2_048, parts.count == 2, let content = Base64URL.decode(parts[0].utf8),
                let shown = Base64URL.decode(parts[1].utf8), ConstantTime.areEqual(tag(over: content, home), shown)
            else { return nil }
            return LongPollToken(content)
        }

        private func tag(over content: [UInt8], _ home: ContainerEnvironment) -> [UInt8] {
            Array(HMAC<SHA256>.authenticationCode(for: content + Array(" \(home)".utf8), using: key))
        }
    }
}

extension LongPollToken {
    private var encoded: [UInt8] {
        var writer = JSONWriter()
        writer.object { token in
            token.member("i", id)
            token.member("u", user.recordName)
            token.member("d", deviceID)
            token.member("e", expires.milliseconds)
            switch credential {
            case .session(let session, let hash):
                token.member("s", String(session.number, radix: 36))
                token.member("h", Hex.encode(hash))
            case .dev(let account): token.member("a", account?.number ?? 0)
            case .apiToken, .serverKey: break
            }
        }
        return writer.bytes
    }

    private init?(_ content: [UInt8]) {
        guard let json = try? JSONDocument(parsing: content).root, let id = try? json["i"]?.string(),
            let user = try? json["u"]?.string(), let device = try? json["d"]?.string(),
            let expires = try? json["e"]?.int64()
        else { return nil }
        self.id = id
        self.user = UserID(user)
        deviceID = device
        self.expires = Timestamp(milliseconds: expires)
        if let text = try? json["s"]?.string(), let number = UInt128(text, radix: 36),
            let hash = (try? json["h"]?.string()).flatMap({ Hex.decode($0) })
        {
            credential = .session(Session.ID(number), apiTokenHash: hash)
        } else if let account = try? json["a"]?.int64() {
            credential = .dev(account == 0 ? nil : Account.ID(account))
        } else {
            return nil
        }
    }
}

extension Hex {
    /// Decodes lowercase hex digits; returns `nil` for other text.
    fileprivate static func decode(_ text: String) -> [UInt8]? {
        guard text.utf8.count % 2 == 0, isDigits(text, count: text.utf8.count) else { return nil }
        var bytes: [UInt8] = []
        var digits = Array(text.utf8)[...]
        while let high = digits.popFirst(), let low = digits.popFirst() {
            bytes.append(value(high) << 4 | value(low))
        }
        return bytes
    }

    private static func value(_ digit: UInt8) -> UInt8 { digit.isASCIIDigit ? digit - 0x30 : digit - 0x57 }
}
