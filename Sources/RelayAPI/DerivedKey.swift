package import Crypto

extension SymmetricKey {
    /// Derives a key of 256 bits from the relay's key, by HKDF (RFC 5869) with SHA-256.
    ///
    /// Keys for different purposes are independent: none reveals another one or the relay's key.
    package init(relayKey: [UInt8], purpose: String, salt: [UInt8] = []) {
        self = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: relayKey),
            salt: salt,
            info: Array(purpose.utf8),
            outputByteCount: 32
        )
    }
}
