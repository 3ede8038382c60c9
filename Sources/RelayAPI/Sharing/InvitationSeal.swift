import Crypto
import Foundation
import Records
import RelayCore

/// The personal part of an invitation's link: proves that its holder is the one it was sent to, whatever address their
/// account has, as it went to that address only.
///
/// `{shortGUID}~{participantId}.{tag}`: the tag is 16 bytes of an HMAC with the relay's key, so nothing is stored, and it
/// ends with the invitation. See Wire.md, "Accepting shares".
struct InvitationSeal: Sendable {
    private let key: SymmetricKey

    init(relayKey: [UInt8]) {
        key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: relayKey),
            info: Array("zonecast invitations 1".utf8),
            outputByteCount: 32
        )
    }

    /// What stands in the link for this participant instead of the short GUID alone.
    func link(_ shortGUID: String, for participant: String) -> String {
        "\(shortGUID)~\(participant).\(Base64URL.encode(Array(tag(shortGUID, participant).prefix(16))))"
    }

    /// Takes a link apart: the short GUID, and the participant whom it proves its holder to be.
    func open(_ link: String) -> (shortGUID: String, participant: String?) {
        let parts = link.split(separator: "~", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let dot = parts[1].lastIndex(of: "."),
            let given = Base64URL.decode(parts[1][parts[1].index(after: dot)...].utf8), given.count == 16
        else { return (parts[0], nil) }
        let participant = String(parts[1][..<dot])
        let isOurs = ConstantTime.areEqual(given, Array(tag(parts[0], participant).prefix(16)))
        return (parts[0], isOurs ? participant : nil)
    }

    private func tag(_ shortGUID: String, _ participant: String) -> HMAC<SHA256>.MAC {
        HMAC<SHA256>.authenticationCode(for: Array("\(shortGUID)/\(participant)".utf8), using: key)
    }
}
