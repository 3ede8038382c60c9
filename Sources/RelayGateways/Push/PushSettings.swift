package import Crypto

/// Which push services the relay may call, and as whom.
package struct PushSettings: Sendable {
    /// Apple's push service.
    package struct APNs: Sendable {
        package var key: P256.Signing.PrivateKey
        /// Ten characters each, from Apple's developer pages.
        package var keyID: String
        package var teamID: String
        /// The bundle identifiers of the apps that may be woken.
        package var topics: [String]
        /// Where Apple's service is, without a slash at the end.
        package var production = "https://api.push.apple.com"
        package var sandbox = "https://api.sandbox.push.apple.com"

        package init(key: P256.Signing.PrivateKey, keyID: String, teamID: String, topics: [String]) {
            self.key = key
            self.keyID = keyID
            self.teamID = teamID
            self.topics = topics
        }
    }

    /// Web Push: browsers and UnifiedPush.
    package struct WebPush: Sendable {
        package var key: P256.Signing.PrivateKey
        /// A `mailto:` or `https:` address at which a push service finds the operator.
        package var contact: String

        package init(key: P256.Signing.PrivateKey, contact: String) {
            self.key = key
            self.contact = contact
        }
    }

    /// Firebase Cloud Messaging: Android.
    package struct FCM: Sendable {
        package var account: GoogleAccount
        /// Where the service is, without a slash at the end.
        package var service = "https://fcm.googleapis.com"

        package init(account: GoogleAccount) { self.account = account }
    }

    package var apns: APNs?
    package var fcm: FCM?
    package var webPush: WebPush?
    package var sendsToNtfy = false
    /// Hosts that a device may name for Web Push and ntfy: `push.example`, or with a star for all below it
    /// (`*.push.example`).
    ///
    /// Else a device could have the relay call whatever it can reach.
    package var hosts = Self.knownHosts

    package init() {}

    package static let knownHosts = [
        "fcm.googleapis.com", "updates.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com",
        "ntfy.sh",
    ]

    /// Whether a device may name this host.
    package func admits(host: String) -> Bool {
        let host = host.lowercased()
        return hosts.contains {
            $0.hasPrefix("*.") ? host.hasSuffix($0.dropFirst(1).lowercased()) : host == $0.lowercased()
        }
    }
}

extension P256.Signing.PrivateKey {
    /// The relay's own key for Web Push, the same for as long as the data folder lives: browsers are bound to it.
    package static func webPush(relayKey: [UInt8]) throws -> Self {
        let drawn = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: relayKey),
            info: Array("zonecast web push key 1".utf8),
            outputByteCount: 32
        )
        return try drawn.withUnsafeBytes { try Self(rawRepresentation: $0) }
    }
}
