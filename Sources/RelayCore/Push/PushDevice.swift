package import Records

/// Where a push service finds a device.
package enum PushTarget: Hashable, Sendable {
    /// Apple's: the device token in hex digits, and the bundle identifier of the app that got it.
    case apns(token: String, topic: String, isSandbox: Bool)
    /// A browser's subscription, or UnifiedPush's: an address, and what only the receiver can decrypt with.
    ///
    /// RFC 8291: an uncompressed P-256 point (65 bytes) and 16 random bytes.
    case webPush(endpoint: String, key: [UInt8], secret: [UInt8])
    /// The address of an ntfy topic, which is told in plain text.
    case ntfy(topicURL: String)
    /// Firebase Cloud Messaging's registration token of one app on one device.
    case fcm(token: String)
}

/// A device that wants to be woken when it has no socket open.
package struct PushDevice: Hashable, Sendable {
    /// Drawn by the relay: names the registration.
    package var id: String
    package var home: ContainerEnvironment
    package var user: UserID
    /// As its requests and its socket name it: one registration for each.
    package var deviceID: String
    /// The sign-in that it stands and falls with; `nil` where that cannot be revoked.
    package var session: Session.ID?
    /// SHA-256 of the API token that it came by; empty: none, on a `--dev` relay.
    package var apiTokenHash: [UInt8]
    package var target: PushTarget
    package var registered: Timestamp
    /// What a push service last said against it, for people; `nil` after a push that was taken.
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

/// Where registrations are kept.
///
/// Calls block their thread as those of `Directory` do. Safe from any thread.
package protocol PushRegister: Sendable {
    /// Enters a device, in the place of an older registration of the same device of the user.
    ///
    /// Gives the identifiers of those that had to go: that one, and the oldest of the user's past `limit`.
    func addPushDevice(_ device: PushDevice, limit: Int) throws(DirectoryError) -> [String]
    /// All at once; passes over those that are not there.
    func removePushDevices(_ ids: [String]) throws(DirectoryError)
    /// Does nothing if it is not there.
    func notePushFault(_ fault: String?, of id: String) throws(DirectoryError)
    /// All of them, the oldest first.
    func pushDevices() throws(DirectoryError) -> [PushDevice]
}

/// One push.
package struct Push: Hashable, Sendable {
    /// CloudKit's payload as JSON.
    package var payload: [UInt8]
    /// What it is about, as text of no meaning to others: a service that still holds an older push about the same may
    /// replace it.
    package var topic: String
    /// The text to show; `nil`: nothing is shown.
    package var alert: String?

    package init(payload: [UInt8], topic: String, alert: String? = nil) {
        self.payload = payload
        self.topic = topic
        self.alert = alert
    }
}

/// What became of a push.
package enum PushOutcome: Hashable, Sendable {
    case taken
    /// The device is no longer there: nothing is to be sent to it again.
    case gone
    /// The service cannot now, or cannot be reached; it may say for how long.
    case later(Duration?, String)
    /// The service refuses this push or this relay; the text says why.
    case refused(String)
}

/// The way to the push services.
package protocol PushGateway: Sendable {
    /// Why a device of that kind cannot be registered here; `nil` if it can.
    func objection(to target: PushTarget) -> String?
    /// Sends one push; comes back when the service has answered, within half a minute.
    func send(_ push: Push, to target: PushTarget) async -> PushOutcome
    /// What browsers need to subscribe: the relay's public key, an uncompressed P-256 point; `nil` without Web Push.
    var webPushKey: [UInt8]? { get }
}

extension PushTarget {
    /// Which service is asked.
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
    /// A push that names no zone: the device asks for changes and finds none.
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
    /// What became of a test, for whoever asked for it.
    package var sentence: String {
        switch self {
        case .taken: "The push service took it."
        case .gone: "The push service no longer knows this device; the relay forgets it with the next push."
        case .later(_, let reason), .refused(let reason): reason
        }
    }
}
