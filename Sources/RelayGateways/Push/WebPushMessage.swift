package import Crypto
import Foundation

/// Encrypts a push for the browser that subscribed.
///
/// RFC 8291 (Message Encryption for Web Push) over RFC 8188 (`aes128gcm`), one record.
package enum WebPushMessage {
    /// The maximum payload: push services must accept 4,096 bytes, of which header, padding delimiter and tag take 103.
    package static let maximumPayload = 3_993
    private static let recordSize: UInt32 = 4_096

    /// Returns the body of the request to the push service.
    ///
    /// `payload` has at most `maximumPayload` bytes; `key` and `secret` are the subscription's `p256dh` (65 bytes, an
    /// uncompressed point) and `auth` (16 bytes); `ours` and `salt` (16 bytes) must be new for each message. Throws if
    /// `key` is not a point on the curve.
    package static func encrypt(
        _ payload: [UInt8],
        key: [UInt8],
        secret: [UInt8],
        ours: P256.KeyAgreement.PrivateKey,
        salt: [UInt8]
    ) throws -> [UInt8] {
        let theirs = try P256.KeyAgreement.PublicKey(x963Representation: key)
        let ourPoint = ours.publicKey.x963Representation
        let shared = try ours.sharedSecretFromKeyAgreement(with: theirs)
        let material = shared.hkdfDerivedSymmetricKey(
            using: SHA256.self,
            salt: secret,
            sharedInfo: Array("WebPush: info\0".utf8) + key + ourPoint,
            outputByteCount: 32
        )
        let contentKey = derive("Content-Encoding: aes128gcm\0", 16, from: material, salt)
        let nonce = derive("Content-Encoding: nonce\0", 12, from: material, salt)
        // The delimiter 2 marks the last record.
        let sealed = try AES.GCM.seal(
            payload + [2],
            using: contentKey,
            nonce: nonce.withUnsafeBytes { try AES.GCM.Nonce(data: $0) }
        )
        let size = withUnsafeBytes(of: recordSize.bigEndian) { Array($0) }
        return salt + size + [UInt8(ourPoint.count)] + ourPoint + sealed.ciphertext + sealed.tag
    }

    private static func derive(
        _ purpose: String,
        _ count: Int,
        from material: SymmetricKey,
        _ salt: [UInt8]
    ) -> SymmetricKey {
        HKDF<SHA256>.deriveKey(
            inputKeyMaterial: material,
            salt: salt,
            info: Array(purpose.utf8),
            outputByteCount: count
        )
    }
}
