public import Foundation
import Records
import Wire

/// How this device is woken when something changes while the app does not run.
///
/// A relay whose operator has set up push services then sends the payload of `CKNotification` there. While a notice
/// connection is open nothing is sent.
public enum RelayPushTarget: Hashable, Sendable {
    /// Apple's push service: the token of `didRegisterForRemoteNotificationsWithDeviceToken`, the app's bundle
    /// identifier, and whether it is a development build.
    case apns(deviceToken: Data, bundleIdentifier: String, isDevelopment: Bool)
    /// UnifiedPush, or Web Push: the address, and the subscription's public key (65 bytes) and secret (16 bytes).
    case webPush(endpoint: URL, publicKey: Data, secret: Data)
    /// A topic of an ntfy server.
    case ntfy(topic: URL)

    /// As the relay reads it.
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
    /// Asks the relay to wake this device; takes the place of what it was told before for the same device.
    ///
    /// Ends with the sign-in, with `unregisterFromPushes()`, and when the push service says that the device is gone. To
    /// be called at each launch, as with Apple's push service.
    ///
    /// - Parameter target: Where to push.
    /// - Throws: `invalidArguments` when the relay sends no pushes of that kind or to that place, and what any call throws.
    public func registerForPushes(_ target: RelayPushTarget) async throws {
        try await call("push/register", target.body)
    }

    /// Wakes this device no longer.
    ///
    /// - Throws: What any call throws; nothing when it was not registered.
    public func unregisterFromPushes() async throws {
        try await call("push/unregister", Array("{}".utf8))
    }

    private func call(_ operation: String, _ body: [UInt8]) async throws {
        let connection = try session.connection()
        do throws(CallFailure) {
            _ = try await connection.send(RelayCall(.private, operation, body))
        } catch {
            throw error.error
        }
    }
}
