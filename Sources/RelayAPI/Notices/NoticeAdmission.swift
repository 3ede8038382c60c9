package import Records
import RelayCore
package import Wire

/// Authenticates notice connections and reads what they have missed; called once per connection.
package protocol NoticeAdmission: Sendable {
    /// Determines whether a browser page of this origin may open a socket, from the upgrade request alone.
    ///
    /// Called on the connection's event loop. Calls `then` exactly once: before it returns, or later from another thread
    /// if the directory's reads may block.
    func allowsUpgrade(_ request: APIRequest, origin: String, then: @escaping @Sendable (Bool) -> Void)

    /// Checks the credentials, the origin and the container.
    ///
    /// `request` is the upgrade request; its header fields and query take precedence over the hello. See
    /// Notices.md, "Connecting".
    func admit(_ request: APIRequest, hello: NoticeHello) async throws(NoticeClose) -> AdmittedDevice

    /// Like `admit`, but without suspending; returns `nil` if `admit` is needed, as for a user's very first device.
    ///
    /// Called on the connection's event loop, so it must not block for long.
    func admitAtOnce(_ request: APIRequest, hello: NoticeHello) throws(NoticeClose) -> AdmittedDevice?

    /// Reads the user's subscriptions and the changes since the tokens of the hello.
    ///
    /// Must be called after the hub has begun to queue notices for the device. A change is then in the result or in the
    /// queue, or in both, but never missing.
    func catchUp(_ device: AdmittedDevice, since: [DatabaseScope: String]) throws(NoticeClose) -> NoticeCatchUp

    /// Like `catchUp`, but reads where the stores' reads may block.
    func catchUpWaiting(
        _ device: AdmittedDevice,
        since: [DatabaseScope: String]
    ) async throws(NoticeClose) -> NoticeCatchUp

    /// Obtains a replacement for the device's token shortly before it expires; `nil` if there is none.
    ///
    /// Called on the connection's event loop. Calls `then` as `allowsUpgrade` does.
    func renewToken(of device: AdmittedDevice, then: @escaping @Sendable (RenewedToken?) -> Void)
}

extension NoticeAdmission {
    package func admitAtOnce(_ request: APIRequest, hello: NoticeHello) throws(NoticeClose) -> AdmittedDevice? { nil }

    package func catchUpWaiting(
        _ device: AdmittedDevice,
        since: [DatabaseScope: String]
    ) async throws(NoticeClose) -> NoticeCatchUp {
        try catchUp(device, since: since)
    }
}

/// A device that has been admitted.
package struct AdmittedDevice: Hashable, Sendable {
    package var address: NoticeAddress
    /// The device ID that the device's requests also contain; used to exclude the device's own changes.
    package var deviceID: String
    /// The credential of the device; `nil` if it cannot be revoked.
    package var credential: Credential?
    /// The remaining life of the token; `nil` if it does not expire.
    package var tokenLife: Duration?

    package init(address: NoticeAddress, deviceID: String, credential: Credential? = nil, tokenLife: Duration? = nil) {
        self.address = address
        self.deviceID = deviceID
        self.credential = credential
        self.tokenLife = tokenLife
    }
}

/// What a device receives right after `ready`.
package struct NoticeCatchUp: Hashable, Sendable {
    /// The changes in one database since a token.
    package enum News: Hashable, Sendable {
        /// The changed zones, each with its current token; empty if nothing changed.
        case zones([Zone])
        /// The token has expired, or too many zones have changed to list them.
        case manyZones
    }

    package struct Zone: Hashable, Sendable {
        package var zone: ZoneID
        package var syncToken: String?

        package init(_ zone: ZoneID, syncToken: String?) {
            self.zone = zone
            self.syncToken = syncToken
        }
    }

    package var subscriptions: NoticeSubscriptions
    package var news: [DatabaseScope: News]
    /// The missed notices that only query subscriptions cover.
    package var matches: [Notice]

    package init(
        subscriptions: NoticeSubscriptions,
        news: [DatabaseScope: News] = [:],
        matches: [Notice] = []
    ) {
        self.subscriptions = subscriptions
        self.news = news
        self.matches = matches
    }
}

/// The database tokens of a hello: everything that the read for a device depends on, apart from its user.
struct CatchUpTokens: Hashable, Sendable {
    private var own: String?
    private var shared: String?

    init(_ since: [DatabaseScope: String]) {
        own = since[.private]
        shared = since[.shared]
    }
}

package struct RenewedToken: Hashable, Sendable {
    package var webAuthToken: String
    /// The validity of the token from now on.
    package var life: Duration

    package init(webAuthToken: String, life: Duration) {
        self.webAuthToken = webAuthToken
        self.life = life
    }
}
