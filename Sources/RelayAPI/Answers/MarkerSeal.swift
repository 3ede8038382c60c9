import Crypto
import Foundation
import Records

/// Encrypts continuation markers.
///
/// A marker contains the last record of a page, which clients must not read: in a shared hierarchy, clients may see
/// other record names than the zone stores. Uses AES-GCM with a key derived from the relay's key. The nonce is an HMAC
/// of the content, so that the same position in a query always has the same marker.
struct MarkerSeal: Sendable {
    private let key: SymmetricKey
    private let nonceKey: SymmetricKey

    init(relayKey: [UInt8]) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast markers 1")
        nonceKey = SymmetricKey(relayKey: relayKey, purpose: "zonecast markers 1 nonces")
    }

    /// Returns nonce, ciphertext and tag in Base64.
    func seal(_ content: [UInt8]) -> String {
        let tag = HMAC<SHA256>.authenticationCode(for: content, using: nonceKey)
        guard let nonce = try? AES.GCM.Nonce(data: Array(tag.prefix(12))),
            let box = try? AES.GCM.seal(content, using: key, nonce: nonce), let bytes = box.combined
        else { preconditionFailure("a nonce of 12 bytes and a key of 32 always seal") }
        return Base64.encode(Array(bytes))
    }

    /// Returns the content; `nil` if this relay has not sealed it.
    func open(_ text: String) -> [UInt8]? {
        guard let bytes = Base64.decode(text), let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(box, using: key)
        else { return nil }
        return Array(content)
    }
}
