import Crypto
import Foundation
import Records
import RelayCore

/// Encrypts the content of upload addresses, receipts and download addresses with the relay's key.
///
/// Only this relay can create or read them, and it stores nothing. Uses AES-GCM; the purpose is authenticated, so that
/// a text for one purpose is invalid for another. See Wire.md, "Asset operations".
struct AssetSeal: Sendable {
    enum Purpose: String {
        case upload, receipt, download
    }

    private let key: SymmetricKey
    private let random: RandomSource

    init(relayKey: [UInt8], random: RandomSource) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast assets 1")
        self.random = random
    }

    /// Returns nonce, ciphertext and tag in Base64URL.
    ///
    /// No part may contain a line feed; names of records, zones and fields cannot.
    func seal(_ parts: [String], for purpose: Purpose, until end: Timestamp) -> String {
        let text = ([String(end.milliseconds)] + parts).joined(separator: "\n")
        guard let nonce = try? AES.GCM.Nonce(data: random.bytes(12)),
            let box = try? AES.GCM.seal(
                Array(text.utf8),
                using: key,
                nonce: nonce,
                authenticating: Array(purpose.rawValue.utf8)
            ), let bytes = box.combined
        else { preconditionFailure("a nonce of 12 bytes and a key of 32 always seal") }
        return Base64URL.encode(Array(bytes))
    }

    /// Returns the parts; `nil` if this relay has not sealed them for this purpose or they have expired.
    func open(_ text: String, for purpose: Purpose, count: Int, at now: Timestamp) -> [String]? {
        guard text.utf8.count <= 4096, let bytes = Base64URL.decode(text.utf8),
            let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(box, using: key, authenticating: Array(purpose.rawValue.utf8))
        else { return nil }
        let parts = String(decoding: content, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == count + 1, let end = Int64(parts[0]), now.milliseconds < end else { return nil }
        return Array(parts.dropFirst())
    }
}
