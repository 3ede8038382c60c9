import Crypto
import Foundation
package import Records
package import RelayCore

/// A parsed web auth token: 81 bytes, in Base64 on the wire.
///
/// version (1) | session (16) | session secret (32) | issued, ms since 1970 (8) | nonce (8) | tag (16), numbers
/// big-endian. The tag is a truncated HMAC-SHA256 over the rest. Its key is derived from the relay's key **and** the
/// session's secret: the data folder alone lacks the secret, and a token alone lacks the relay's key, so neither is
/// sufficient to create a token. The relay can issue any number of tokens without storing them.
struct WebToken: Hashable {
    static let byteCount = 81
    static let version: UInt8 = 1

    var session: Session.ID
    var secret: [UInt8]
    var issued: Timestamp
    /// The bytes that the tag authenticates: all but the tag.
    var sealed: [UInt8]
    var tag: [UInt8]

    /// Parses `text`; returns `nil` if it does not have the format of a token.
    ///
    /// Does not verify the tag.
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

/// Issues and verifies the tokens of one session.
struct WebTokenSeal: Sendable {
    let session: Session.ID
    let secret: [UInt8]
    private let key: SymmetricKey

    init(relayKey: [UInt8], session: Session.ID, secret: [UInt8]) {
        self.session = session
        self.secret = secret
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast web auth token 1", salt: secret)
    }

    /// Returns a new token of this session.
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

    /// Returns whether this relay issued `token` for this session.
    func made(_ token: WebToken) -> Bool {
        ConstantTime.areEqual(secret, token.secret) && ConstantTime.areEqual(tag(over: token.sealed), token.tag)
    }

    private func tag(over bytes: [UInt8]) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: bytes, using: key).prefix(16))
    }
}

/// Starts sessions, for the sign-in page and `zonecast user sign-in`, after the person is authenticated.
package enum SignIn {
    /// Starts a session; returns its first web auth token and the record name of the user in the container.
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
