package import Crypto

/// The push services that the relay may use, with its credentials.
package struct PushSettings: Sendable {
    /// Apple's push service.
    package struct APNs: Sendable {
        package var key: P256.Signing.PrivateKey
        /// Ten characters each, from Apple's developer website.
        package var keyID: String
        package var teamID: String
        /// The bundle identifiers of the apps that may receive pushes.
        package var topics: [String]
        /// The URL of Apple's service without a trailing slash.
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
        /// A `mailto:` or `https:` address at which the operators of a push service can reach the relay's operator, in the
        /// form of `PushContact.canonical`.
        package var contact: String

        package init(key: P256.Signing.PrivateKey, contact: String) {
            self.key = key
            self.contact = contact
        }
    }

    /// Firebase Cloud Messaging: Android.
    package struct FCM: Sendable {
        package var account: GoogleAccount
        /// The URL of the service without a trailing slash.
        package var service = "https://fcm.googleapis.com"

        package init(account: GoogleAccount) { self.account = account }
    }

    package var apns: APNs?
    package var fcm: FCM?
    package var webPush: WebPush?
    package var sendsToNtfy = false
    /// The hosts that a device may use for Web Push and ntfy, in the form of `PushHost.canonical`: `push.example`, or
    /// `*.push.example` for all subdomains.
    ///
    /// Without this list, a device could make the relay send requests to any host that it can reach.
    package var hosts = Self.knownHosts

    package init() {}

    package static let knownHosts = [
        "fcm.googleapis.com", "updates.push.services.mozilla.com", "*.push.apple.com", "*.notify.windows.com",
        "ntfy.sh",
    ]

    /// Returns whether a device may use this host.
    package func admits(host: String) -> Bool {
        // The library that reads addresses leaves out the brackets of an IPv6 address.
        guard let host = PushHost.canonical(host) ?? PushHost.canonical("[\(host)]") else { return false }
        return hosts.contains { $0.hasPrefix("*.") ? host.hasSuffix($0.dropFirst(1)) : host == $0 }
    }
}

extension P256.Signing.PrivateKey {
    /// Derives the relay's Web Push key from the relay's key; must not change, because subscriptions of browsers depend
    /// on it.
    package static func webPush(relayKey: [UInt8]) throws -> Self {
        let drawn = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: relayKey),
            info: Array("zonecast web push key 1".utf8),
            outputByteCount: 32
        )
        return try drawn.withUnsafeBytes { try Self(rawRepresentation: $0) }
    }
}
