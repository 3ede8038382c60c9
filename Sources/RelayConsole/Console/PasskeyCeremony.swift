import Crypto
import CryptoExtras
import Foundation
import Records
import RelayAPI
import RelayCore

/// Verifies what a browser sends when a passkey is created or used.
///
/// Web Authentication level 2, sections 7.1 and 7.2. User verification by the device (PIN, finger, face) is required,
/// so that a passkey is as strong as a password.
struct PasskeyCeremony: Sendable {
    /// The origin of the console's page: `https://sync.example.org`.
    var origin: String

    /// The identifier of the relying party.
    var host: String { URLComponents(string: origin)?.host ?? "" }

    /// An error with a text for the operator.
    struct Fault: Error {
        var reason: String
    }

    private struct ClientData: Decodable {
        var type: String
        var challenge: String
        var origin: String
        var crossOrigin: Bool?
    }

    /// The part of the authenticator data that is always present.
    struct AuthenticatorData {
        private static let isPresent: UInt8 = 0x01
        private static let isVerified: UInt8 = 0x04
        private static let hasKey: UInt8 = 0x40

        let hostHash: [UInt8]
        let flags: UInt8
        let signCount: UInt32
        private let rest: [UInt8]

        init?(_ bytes: [UInt8]) {
            guard bytes.count >= 37 else { return nil }
            hostHash = Array(bytes[..<32])
            flags = bytes[32]
            signCount = bytes[33..<37].reduce(0) { $0 << 8 | UInt32($1) }
            rest = Array(bytes[37...])
        }

        var isVerifiedPerson: Bool { flags & (Self.isPresent | Self.isVerified) == Self.isPresent | Self.isVerified }

        /// The ID of the new credential: after the authenticator's AAGUID, preceded by its length.
        var keyID: [UInt8]? {
            guard flags & Self.hasKey != 0, rest.count >= 18 else { return nil }
            let length = Int(rest[16]) << 8 | Int(rest[17])
            guard length > 0, length <= 1_023, rest.count >= 18 + length else { return nil }
            return Array(rest[18..<(18 + length)])
        }
    }

    /// Verifies a new passkey; returns its ID and signature counter.
    ///
    /// The key comes from the same page as the rest and has no attestation: a signed-in operator may add any key.
    /// `isIssued` must return whether a challenge was issued by this relay and is unused.
    func verifyRegistration(
        clientData: [UInt8],
        authenticatorData: [UInt8],
        algorithm: Int,
        publicKey: [UInt8],
        isIssued: ([UInt8]) -> Bool
    ) throws(Fault) -> (id: [UInt8], signCount: UInt32) {
        try check(clientData, type: "webauthn.create", isIssued)
        let data = try check(authenticatorData, host: host)
        guard let id = data.keyID else { throw Fault(reason: "The browser sent no key.") }
        guard Self.key(algorithm, publicKey) != nil else {
            throw Fault(reason: "This kind of key is not supported; try another device.")
        }
        return (id, data.signCount)
    }

    /// Verifies the use of a passkey; returns its new signature counter.
    func verifyAssertion(
        of passkey: Passkey,
        clientData: [UInt8],
        authenticatorData: [UInt8],
        signature: [UInt8],
        isIssued: ([UInt8]) -> Bool
    ) throws(Fault) -> UInt32 {
        try check(clientData, type: "webauthn.get", isIssued)
        let data = try check(authenticatorData, host: passkey.host)
        let signed = authenticatorData + Array(SHA256.hash(data: clientData))
        guard let key = Self.key(passkey.algorithm, passkey.publicKey), key.isGood(signature, of: signed) else {
            throw Fault(reason: "The passkey's signature is wrong.")
        }
        guard data.signCount > passkey.signCount || (data.signCount == 0 && passkey.signCount == 0) else {
            throw Fault(reason: "This passkey seems to have been copied. Sign in with your password and delete it.")
        }
        return data.signCount
    }

    private func check(_ clientData: [UInt8], type: String, _ isIssued: ([UInt8]) -> Bool) throws(Fault) {
        guard let content = try? JSONDecoder().decode(ClientData.self, from: Data(clientData)), content.type == type
        else {
            throw Fault(reason: "The browser's response does not match the request.")
        }
        guard content.origin == origin, content.crossOrigin != true else {
            throw Fault(
                reason: "The page is at \(content.origin), but the relay expects \(origin): set public-url."
            )
        }
        guard let challenge = Base64URL.decode(content.challenge.utf8), isIssued(challenge) else {
            throw Fault(reason: "The request has expired. Retry.")
        }
    }

    @discardableResult
    private func check(_ bytes: [UInt8], host: String) throws(Fault) -> AuthenticatorData {
        guard let data = AuthenticatorData(bytes),
            ConstantTime.areEqual(data.hostHash, Array(SHA256.hash(data: Array(host.utf8))))
        else { throw Fault(reason: "This passkey is for another address.") }
        guard data.isVerifiedPerson else {
            throw Fault(reason: "The device did not verify you. Set up a PIN, fingerprint or face on it first.")
        }
        return data
    }

    // MARK: Keys

    private enum Key {
        case p256(P256.Signing.PublicKey)
        case ed25519(Curve25519.Signing.PublicKey)
        case rsa(_RSA.Signing.PublicKey)

        func isGood(_ signature: [UInt8], of data: [UInt8]) -> Bool {
            switch self {
            case .p256(let key):
                guard let parsed = try? P256.Signing.ECDSASignature(derRepresentation: signature) else { return false }
                return key.isValidSignature(parsed, for: data)
            case .ed25519(let key): return key.isValidSignature(signature, for: data)
            case .rsa(let key):
                let parsed = _RSA.Signing.RSASignature(rawRepresentation: signature)
                return key.isValidSignature(parsed, for: SHA256.hash(data: data), padding: .insecurePKCS1v1_5)
            }
        }
    }

    /// The supported COSE algorithms in order of preference.
    static let algorithms = [-7, -8, -257]

    /// Parses a public key; returns `nil` if it is invalid for the algorithm.
    private static func key(_ algorithm: Int, _ info: [UInt8]) -> Key? {
        switch algorithm {
        case -7: return (try? P256.Signing.PublicKey(derRepresentation: info)).map { .p256($0) }
        case -8:
            // RFC 8410, section 4: these twelve bytes precede the key.
            let head: [UInt8] = [0x30, 0x2A, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x03, 0x21, 0x00]
            guard info.count == head.count + 32, info.starts(with: head) else { return nil }
            return (try? Curve25519.Signing.PublicKey(rawRepresentation: info.dropFirst(head.count))).map {
                .ed25519($0)
            }
        case -257: return (try? _RSA.Signing.PublicKey(derRepresentation: info)).map { .rsa($0) }
        default: return nil
        }
    }
}
