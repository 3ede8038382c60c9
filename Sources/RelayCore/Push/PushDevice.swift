package import Records

/// A device's address at a push service.
package enum PushTarget: Hashable, Sendable {
    /// APNs: the device token in hex digits, and the bundle identifier of the app that received it.
    case apns(token: String, topic: String, isSandbox: Bool)
    /// Web Push or UnifiedPush: the endpoint, and the keys for encryption to the receiver (RFC 8291).
    ///
    /// The key is an uncompressed P-256 point (65 bytes), the secret 16 random bytes.
    case webPush(endpoint: String, key: [UInt8], secret: [UInt8])
    /// The URL of an ntfy topic, which receives plain text.
    case ntfy(topicURL: String)
    /// The Firebase Cloud Messaging registration token of one app on one device.
    case fcm(token: String)
}

/// A device registered for pushes while it has no socket open.
package struct PushDevice: Hashable, Sendable {
    /// Random; identifies the registration.
    package var id: String
    package var home: ContainerEnvironment
    package var user: UserID
    /// The device ID of its requests and its socket; a device has at most one registration.
    package var deviceID: String
    /// The session whose revocation ends the registration; `nil` if the credential is not a session.
    package var session: Session.ID?
    /// SHA-256 of the API token used to register; empty on a `--dev` relay without one.
    package var apiTokenHash: [UInt8]
    package var target: PushTarget
    package var registered: Timestamp
    /// The latest error of the push service, for people; `nil` after a successful push.
    package var lastFault: String?

    package init(
        id: String,
        home: ContainerEnvironment,
        user: UserID,
        deviceID: String,
        session: Session.ID?,
        apiTokenHash: [UInt8],
        target: PushTarget,
        registered: Timestamp,
        lastFault: String? = nil
    ) {
        self.id = id
        self.home = home
        self.user = user
        self.deviceID = deviceID
        self.session = session
        self.apiTokenHash = apiTokenHash
        self.target = target
        self.registered = registered
        self.lastFault = lastFault
    }
}

/// Storage for push registrations.
///
/// Calls block their thread like those of `Directory`. Safe to call from any thread.
package protocol PushDeviceStore: Sendable {
    /// Adds a registration, replacing an earlier one of the same user and device.
    ///
    /// Returns the identifiers of the removed registrations: the replaced one, and the user's oldest beyond `limit`.
    func addPushDevice(_ device: PushDevice, limit: Int) throws(DirectoryError) -> [String]
    /// Removes registrations in one transaction; ignores those that do not exist.
    func removePushDevices(_ ids: [String]) throws(DirectoryError)
    /// Stores the latest push error; does nothing if the registration does not exist.
    func notePushFault(_ fault: String?, of id: String) throws(DirectoryError)
    /// Returns all registrations, oldest first.
    func pushDevices() throws(DirectoryError) -> [PushDevice]
    /// Returns the registrations of one user.
    func pushDevices(of user: UserID, in home: ContainerEnvironment) throws(DirectoryError) -> [PushDevice]
}

extension PushDeviceStore {
    package func pushDevices(of user: UserID, in home: ContainerEnvironment) throws(DirectoryError) -> [PushDevice] {
        try pushDevices().filter { $0.user == user && $0.home == home }
    }
}

/// A push notification.
package struct Push: Hashable, Sendable {
    /// The payload in CloudKit's JSON format.
    package var payload: [UInt8]
    /// An opaque key for collapsing: a service may replace an undelivered push with a newer one of the same topic.
    package var topic: String
    /// The text to show; `nil` for a silent push.
    package var alert: String?

    package init(payload: [UInt8], topic: String, alert: String? = nil) {
        self.payload = payload
        self.topic = topic
        self.alert = alert
    }
}

/// The result of sending a push.
package enum PushOutcome: Hashable, Sendable {
    case taken
    /// The device is no longer registered with the service; send it nothing more.
    case gone
    /// The service is busy or unreachable; it may say when to retry.
    case later(Duration?, String)
    /// The service rejects this push or this relay; the text says why.
    case refused(String)
}

/// The connection to the push services.
package protocol PushGateway: Sendable {
    /// Returns why a device of this kind cannot be registered; `nil` if it can.
    func objection(to target: PushTarget) -> String?
    /// Sends one push; returns when the service has answered, within 30 seconds.
    func send(_ push: Push, to target: PushTarget) async -> PushOutcome
    /// The relay's Web Push public key, an uncompressed P-256 point that browsers need to subscribe; `nil` without Web
    /// Push.
    var webPushKey: [UInt8]? { get }
}

extension PushTarget {
    /// A push service.
    package enum Service: Hashable, Sendable {
        case apns, fcm, webPush, ntfy
    }

    package var service: Service {
        switch self {
        case .apns: .apns
        case .webPush: .webPush
        case .ntfy: .ntfy
        case .fcm: .fcm
        }
    }
}

extension Push {
    /// Returns a push that names no zone: the device fetches changes and finds none.
    package static func test(for device: PushDevice) -> Push {
        Push(
            payload: Array(
                #"{"aps":{"content-available":1},"ck":{"cid":"\#(device.home.container.name)","met":{"dbs":2}}}"#.utf8
            ),
            topic: "test"
        )
    }
}

extension PushOutcome {
    /// The result of a test push as a sentence for the user.
    package var sentence: String {
        switch self {
        case .taken: "The push service accepted it."
        case .gone: "The push service no longer knows this device; the relay removes it with the next push."
        case .later(_, let reason), .refused(let reason): reason
        }
    }
}
