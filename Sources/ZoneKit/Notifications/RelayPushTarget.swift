public import Foundation
import Records
import Wire

/// A push service through which the relay wakes this device when data change while the app is not running.
///
/// The relay's operator has to configure the push service. The relay then sends the payload of a `CKNotification`, but
/// not while a notice connection is open.
public enum RelayPushTarget: Hashable, Sendable {
    /// Apple's push service.
    ///
    /// The values are the token from `didRegisterForRemoteNotificationsWithDeviceToken`, the app's bundle identifier,
    /// and whether it is a development build.
    case apns(deviceToken: Data, bundleIdentifier: String, isDevelopment: Bool)
    /// UnifiedPush or Web Push: the endpoint, and the subscription's public key (65 bytes) and secret (16 bytes).
    case webPush(endpoint: URL, publicKey: Data, secret: Data)
    /// A topic on an ntfy server.
    case ntfy(topic: URL)

    /// The body of the registration request.
    package var body: [UInt8] {
        var writer = JSONWriter()
        writer.object { body in
            switch self {
            case .apns(let token, let bundle, let isDevelopment):
                body.key("apns")
                body.object {
                    $0.member("token", token.map { String(format: "%02x", $0) }.joined())
                    $0.member("topic", bundle)
                    $0.member("environment", isDevelopment ? "development" : "production")
                }
            case .webPush(let endpoint, let key, let secret):
                body.key("webPush")
                body.object {
                    $0.member("endpoint", endpoint.absoluteString)
                    $0.key("keys")
                    $0.object {
                        $0.member("p256dh", Base64URL.encode(key))
                        $0.member("auth", Base64URL.encode(secret))
                    }
                }
            case .ntfy(let topic):
                body.key("ntfy")
                body.object { $0.member("topicURL", topic.absoluteString) }
            }
        }
        return writer.bytes
    }
}

extension CKContainer {
    /// Registers this device for pushes, replacing an earlier registration of the same device.
    ///
    /// The registration ends with the sign-in, with `unregisterFromPushes()`, and when the push service reports that
    /// the device no longer exists. Call this method at each launch, as with Apple's push service.
    ///
    /// - Parameter target: The push service.
    /// - Throws: `invalidArguments` if the relay does not support the push service or the endpoint, and the errors of
    ///   any request.
    public func registerForPushes(_ target: RelayPushTarget) async throws {
        try await privateCloudDatabase.client.registerForPushes(target)
    }

    /// Ends the registration for pushes.
    ///
    /// - Throws: The errors of any request. Succeeds if the device was not registered.
    public func unregisterFromPushes() async throws {
        try await privateCloudDatabase.client.registerForPushes(nil)
    }
}
