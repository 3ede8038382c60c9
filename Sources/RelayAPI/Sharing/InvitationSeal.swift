import Crypto
import Foundation
import Records
import RelayCore

/// The personal part of an invitation link.
///
/// It proves that its holder is the invited person, whatever addresses their account has, because it was sent only to
/// the invited address. Format: `{shortGUID}~{participantId}.{tag}`. The tag is the first 16 bytes of an HMAC with a
/// key derived from the relay's key, so the relay stores nothing. It becomes invalid when the invitation ends. See
/// Wire.md, "Accepting shares".
struct InvitationSeal: Sendable {
    private let key: SymmetricKey

    init(relayKey: [UInt8]) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast invitations 1")
    }

    /// Returns the text that replaces the short GUID in this participant's link.
    func link(_ shortGUID: String, for participant: String) -> String {
        "\(shortGUID)~\(participant).\(Base64URL.encode(Array(tag(shortGUID, participant).prefix(16))))"
    }

    /// Splits a link into its short GUID and the participant it was issued to, if the tag is valid.
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
