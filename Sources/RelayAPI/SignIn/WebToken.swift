import Crypto
import Foundation
package import Records
package import RelayCore

/// A web auth token taken apart: 81 bytes, in base64 on the wire.
///
/// version (1) | session (16) | session secret (32) | issued, ms since 1970 (8) | nonce (8) | tag (16), numbers
/// big-endian. The tag is a truncated HMAC-SHA256 over the rest. Its key comes from the relay's key **and** the
/// session's secret: whoever has only the data folder lacks the secret, whoever has only a token lacks the relay's
/// key, so neither can make one, and the relay can make any number without writing anything down.
struct WebToken: Hashable {
    static let byteCount = 81
    static let version: UInt8 = 1

    var session: Session.ID
    var secret: [UInt8]
    var issued: Timestamp
    /// All but the tag: what the tag speaks for.
    var sealed: [UInt8]
    var tag: [UInt8]

    /// Takes `text` apart; `nil` unless it has the right shape.
    ///
    /// Says nothing about the tag.
    init?(_ text: String) {
        guard text.utf8.count == Self.byteCount / 3 * 4, let bytes = Base64.decode(text), bytes.count == Self.byteCount,
            bytes[0] == Self.version
        else { return nil }
        session = Session.ID(Self.number(bytes[1..<17]))
        secret = Array(bytes[17..<49])
        issued = Timestamp(milliseconds: Int64(bitPattern: Self.number(bytes[49..<57])))
        sealed = Array(bytes[..<65])
        tag = Array(bytes[65...])
    }

    private static func number<Number: FixedWidthInteger>(_ bytes: ArraySlice<UInt8>) -> Number {
        bytes.reduce(0) { $0 << 8 | Number($1) }
    }
}

/// What one session's tokens are sealed with.
struct WebTokenSeal: Sendable {
    let session: Session.ID
    let secret: [UInt8]
    private let key: SymmetricKey

    init(relayKey: [UInt8], session: Session.ID, secret: [UInt8]) {
        self.session = session
        self.secret = secret
        key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: relayKey),
            salt: secret,
            info: Array("zonecast web auth token 1".utf8),
            outputByteCount: 32
        )
    }

    /// The text of a new token of this session.
    ///
    /// `nonce`: 8 bytes.
    func token(issued: Timestamp, nonce: [UInt8]) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(WebToken.byteCount)
        bytes.append(WebToken.version)
        withUnsafeBytes(of: session.number.bigEndian) { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: secret)
        withUnsafeBytes(of: issued.milliseconds.bigEndian) { bytes.append(contentsOf: $0) }
        bytes.append(contentsOf: nonce)
        bytes.append(contentsOf: tag(over: bytes))
        return Base64.encode(bytes)
    }

    /// Whether this relay made `token` for this session.
    func made(_ token: WebToken) -> Bool {
        ConstantTime.areEqual(secret, token.secret) && ConstantTime.areEqual(tag(over: token.sealed), token.tag)
    }

    private func tag(over bytes: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key).prefix(16))
    }
}

/// Beginning a session: what the sign-in page and `zonecast user sign-in` do once they know who it is.
package enum SignIn {
    /// Starts a session and gives its first web auth token, and the name the container knows the person by.
    package static func start(
        for account: Account.ID,
        in home: ContainerEnvironment,
        kind: Session.Kind,
        directory: any Directory,
        time: TimeSource,
        random: RandomSource
    ) throws(DirectoryError) -> (webToken: String, user: UserID, session: Session.ID) {
        let user = try directory.user(of: account, in: home)
        let id = Session.ID(random.bytes(16).reduce(0) { $0 << 8 | UInt128($1) })
        let secret = random.bytes(32)
        let now = time.now()
        try directory.addSession(
            Session(
                id: id,
                secretHash: Array(SHA256.hash(data: secret)),
                account: account,
                home: home,
                kind: kind,
                created: now
            )
        )
        let seal = WebTokenSeal(relayKey: try directory.relayKey(), session: id, secret: secret)
        return (seal.token(issued: now, nonce: random.bytes(8)), user, id)
    }
}
