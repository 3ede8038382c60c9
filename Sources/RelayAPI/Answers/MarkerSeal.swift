import Crypto
import Foundation
import Records

/// Seals continuation markers: what a page ended with is not for everybody to read, as in a shared hierarchy names may be
/// shown that the zone keeps as others.
///
/// AES-GCM with the relay's key. The nonce is drawn from the content by HMAC, so that one place in one query always has
/// one marker.
struct MarkerSeal: Sendable {
    private let key: SymmetricKey
    private let nonceKey: SymmetricKey

    init(relayKey: [UInt8]) {
        func derived(_ info: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: relayKey),
                info: Array(info.utf8),
                outputByteCount: 32
            )
        }
        key = derived("zonecast markers 1")
        nonceKey = derived("zonecast markers 1 nonces")
    }

    /// Base64 of nonce, content and tag.
    func seal(_ content: [UInt8]) -> String {
        let tag = HMAC<SHA256>.authenticationCode(for: content, using: nonceKey)
        guard let nonce = try? AES.GCM.Nonce(data: Array(tag.prefix(12))),
            let box = try? AES.GCM.seal(content, using: key, nonce: nonce), let bytes = box.combined
        else { preconditionFailure("a nonce of 12 bytes and a key of 32 always seal") }
        return Base64.encode(Array(bytes))
    }

    /// The content, if we sealed it.
    func open(_ text: String) -> [UInt8]? {
        guard let bytes = Base64.decode(text), let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(box, using: key)
        else { return nil }
        return Array(content)
    }
}
