import Crypto
import Records
import RelayCore
import Wire

/// `push/keys`: what a browser or app needs to subscribe to pushes.
func fetchPushKeys(_ context: RequestContext) throws -> EndpointAnswer {
    let key = try context.pushDesk().webPushKey
    return EndpointAnswer { answer in
        guard let key else { return }
        answer.key("webPush")
        answer.object { $0.member("applicationServerKey", Base64URL.encode(key)) }
    }
}

/// `push/register`: wakes the caller's device through a push service while it has no socket open.
func registerForPush(_ context: RequestContext) async throws -> EndpointAnswer {
    let (desk, target) = (try context.pushDesk(), try PushTarget(context.body))
    let device = try await context.writing { try desk.add(target, for: $0.authentication, in: $0.home) }
    return EndpointAnswer {
        $0.member("registrationID", device.id)
        $0.member("deviceID", device.deviceID)
    }
}

/// `push/unregister`: the opposite.
func unregisterFromPush(_ context: RequestContext) async throws -> EndpointAnswer {
    let desk = try context.pushDesk()
    try await context.writing { try desk.remove(for: $0.authentication, in: $0.home) }
    return EndpointAnswer { _ in }
}

extension RequestContext {
    /// Writes to the directory away from the threads that serve connections: the disk may take its time.
    fileprivate func writing<Value: Sendable>(
        _ work: @escaping @Sendable (RequestContext) throws -> Value
    ) async throws -> Value {
        let result = try await authenticator.writingDesk.inTurn { [self] () throws(CredentialRefusal) in
            Result { try work(self) }
        }
        return try result.get()
    }

    fileprivate func pushDesk() throws -> PushDesk {
        guard let pushes else {
            throw RelayError(.notFound, "This relay sends no pushes; open a notice socket, or fetch changes at launch.")
        }
        return pushes
    }
}

extension PushTarget {
    /// Reads the one member that names a kind of push service.
    init(_ body: JSONValue) throws {
        if let apns = body["apns"] {
            let token = try apns.required("token").string().lowercased()
            guard token.utf8.count >= 64, token.utf8.count <= 200, Hex.isDigits(token, count: token.utf8.count) else {
                throw RelayError.badRequest("apns.token is the device token in hex digits.")
            }
            self = .apns(
                token: token,
                topic: try apns.required("topic").string(),
                isSandbox: try apns["environment"]?.string() == "development"
            )
        } else if let subscription = body["webPush"] {
            self = try Self.webPush(subscription)
        } else if let ntfy = body["ntfy"] {
            self = .ntfy(topicURL: try ntfy.required("topicURL").string())
        } else if let fcm = body["fcm"] {
            let token = try fcm.required("token").string()
            guard (1...4_096).contains(token.utf8.count), token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
                throw RelayError.badRequest("fcm.token is the registration token as Firebase gives it to the app.")
            }
            self = .fcm(token: token)
        } else {
            throw RelayError.badRequest("push/register wants one of apns, webPush, ntfy and fcm.")
        }
    }

    /// What a browser's `PushSubscription` gives as JSON.
    private static func webPush(_ subscription: JSONValue) throws -> PushTarget {
        let keys = try subscription.required("keys")
        let key = Base64URL.decode(try keys.required("p256dh").string().utf8.filter { $0 != UInt8(ascii: "=") })
        let secret = Base64URL.decode(try keys.required("auth").string().utf8.filter { $0 != UInt8(ascii: "=") })
        guard let key, let secret, secret.count == 16,
            (try? P256.KeyAgreement.PublicKey(x963Representation: key)) != nil
        else {
            throw RelayError.badRequest("webPush.keys holds p256dh and auth as PushSubscription.toJSON() gives them.")
        }
        return .webPush(endpoint: try subscription.required("endpoint").string(), key: key, secret: secret)
    }
}
