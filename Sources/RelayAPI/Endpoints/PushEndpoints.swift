import Crypto
import Records
import RelayCore
import Wire

extension RouteEntry {
    static let pushes: [RouteEntry] = [
        .reading(.databaseOrDevice("tokens/create"), createToken),
        .reading(.databaseOrDevice("tokens/register"), registerToken),
        .reading(.databaseOrDevice("push/keys"), methods: .getOrPost, fetchPushKeys),
        .waiting(.databaseOrDevice("push/register"), registerForPush),
        .waiting(.databaseOrDevice("push/unregister"), unregisterFromPush),
    ]
}

/// `push/keys`: returns the key with which a browser subscribes to Web Push.
private func fetchPushKeys(_ context: RequestContext) throws -> EndpointAnswer {
    let key = try context.pushService().webPushKey
    return EndpointAnswer { answer in
        guard let key else { return }
        answer.key("webPush")
        answer.object { $0.member("applicationServerKey", Base64URL.encode(key)) }
    }
}

/// `push/register`: registers the caller's device for push notifications while it has no open socket.
private func registerForPush(_ context: RequestContext) async throws -> EndpointAnswer {
    let (service, target) = (try context.pushService(), try PushTarget(context.body))
    let device = try await context.writing { try service.add(target, for: $0.authentication, in: $0.home) }
    return EndpointAnswer {
        $0.member("registrationID", device.id)
        $0.member("deviceID", device.deviceID)
    }
}

/// `push/unregister`: ends the registration.
private func unregisterFromPush(_ context: RequestContext) async throws -> EndpointAnswer {
    let service = try context.pushService()
    try await context.writing { try service.remove(for: $0.authentication, in: $0.home) }
    return EndpointAnswer { _ in }
}

extension RequestContext {
    /// Writes to the directory outside the threads of the connections, because the disk may be slow.
    fileprivate func writing<Value: Sendable>(
        _ work: @escaping @Sendable (RequestContext) throws -> Value
    ) async throws -> Value {
        let result = try await authenticator.accountQueue.enqueue { [self] () throws(CredentialRefusal) in
            Result { try work(self) }
        }
        return try result.get()
    }

    fileprivate func pushService() throws -> PushService {
        guard let pushes else {
            throw RelayError(.notFound, "This relay sends no pushes; open a notice socket, or fetch changes at launch.")
        }
        return pushes
    }
}

extension PushTarget {
    /// Reads the member that names the kind of push service.
    init(_ body: JSONValue) throws {
        if let apns = body["apns"] {
            let token = try apns.required("token").string().lowercased()
            guard token.utf8.count >= 64, token.utf8.count <= 200, Hex.isDigits(token, count: token.utf8.count) else {
                throw RelayError.badRequest("apns.token must be the device token in hex digits.")
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
                throw RelayError.badRequest("fcm.token must be the registration token from Firebase.")
            }
            self = .fcm(token: token)
        } else {
            throw RelayError.badRequest("push/register requires one of apns, webPush, ntfy and fcm.")
        }
    }

    /// Reads the JSON of a browser's `PushSubscription`.
    private static func webPush(_ subscription: JSONValue) throws -> PushTarget {
        let keys = try subscription.required("keys")
        let key = Base64URL.decode(try keys.required("p256dh").string().utf8.filter { $0 != UInt8(ascii: "=") })
        let secret = Base64URL.decode(try keys.required("auth").string().utf8.filter { $0 != UInt8(ascii: "=") })
        guard let key, let secret, secret.count == 16,
            (try? P256.KeyAgreement.PublicKey(x963Representation: key)) != nil
        else {
            throw RelayError.badRequest("webPush.keys must contain p256dh and auth of PushSubscription.toJSON().")
        }
        return .webPush(endpoint: try subscription.required("endpoint").string(), key: key, secret: secret)
    }
}

/// `tokens/create`.
///
/// See Wire.md, "Long polling".
private func createToken(_ context: RequestContext) throws -> EndpointAnswer {
    let environment = try apnsEnvironment(context)
    let token = try context.longPolls.create(for: context.authentication, in: context.home)
    let home = context.home
    let base = context.authentication.signIn.base
    let path = "/device/1/\(home.container.name)/\(home.environment.rawValue)/webcourier"
    return EndpointAnswer {
        $0.member("apnsEnvironment", environment)
        $0.member("apnsToken", token)
        $0.member("webcourierURL", "\(base)\(path)?tok=\(token)")
    }
}

/// `tokens/register`.
///
/// See Wire.md, "Long polling".
private func registerToken(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try apnsEnvironment(context)
    let text = try context.body.required("apnsToken").string()
    try context.longPolls.register(text, for: context.authentication, in: context.home)
    return EndpointAnswer { _ in }
}

/// Reads and validates `apnsEnvironment`, which has no effect and is only returned.
private func apnsEnvironment(_ context: RequestContext) throws -> String {
    let word = try context.body["apnsEnvironment"]?.string() ?? context.home.environment.rawValue
    guard Environment(rawValue: word) != nil else {
        throw RelayError.badRequest("apnsEnvironment must be development or production.")
    }
    return word
}
