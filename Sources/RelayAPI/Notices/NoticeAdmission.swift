package import Records
import RelayCore
package import Wire

/// Who may listen, and what they have missed: asked once for each notice connection.
package protocol NoticeAdmission: Sendable {
    /// Whether a browser page of this origin may open a socket at all, judged from the upgrade request alone.
    ///
    /// Called on the connection's lane, so it must not block for long.
    func allowsUpgrade(_ request: APIRequest, origin: String) -> Bool

    /// Checks the credentials, the origin and the container.
    ///
    /// `request` is the upgrade request, whose header and query come before what the hello says. See
    /// Notices.md, "Connecting".
    func admit(_ request: APIRequest, hello: NoticeHello) async throws(NoticeClose) -> AdmittedDevice

    /// The same without a wait, where none is needed, as for all but a user's first device ever; `nil` where one is.
    ///
    /// Called on the connection's lane, so it must not block for long.
    func admitAtOnce(_ request: APIRequest, hello: NoticeHello) throws(NoticeClose) -> AdmittedDevice?

    /// Reads the user's subscriptions, and what has changed since the tokens of the hello.
    ///
    /// Called only after the hub has begun to keep notices for the device, so that a change is in the answer or among
    /// those, never in neither.
    func catchUp(_ device: AdmittedDevice, since: [DatabaseScope: String]) throws(NoticeClose) -> NoticeCatchUp

    /// A successor of the token the device came with, shortly before that ends; `nil` where there is none to have.
    ///
    /// Called on the connection's lane, so it must not block.
    func renewedToken(for device: AdmittedDevice) -> RenewedToken?
}

extension NoticeAdmission {
    package func admitAtOnce(_ request: APIRequest, hello: NoticeHello) throws(NoticeClose) -> AdmittedDevice? { nil }
}

/// A device that may listen.
package struct AdmittedDevice: Hashable, Sendable {
    package var address: NoticeAddress
    /// As requests name it too, so that its own changes can be told apart.
    package var deviceID: String
    /// What it came with; `nil` where that cannot be revoked.
    package var credential: Credential?
    /// How much longer the token is good; `nil`: it does not end.
    package var tokenLife: Duration?

    package init(address: NoticeAddress, deviceID: String, credential: Credential? = nil, tokenLife: Duration? = nil) {
        self.address = address
        self.deviceID = deviceID
        self.credential = credential
        self.tokenLife = tokenLife
    }
}

/// What a device is told right after `ready`.
package struct NoticeCatchUp: Hashable, Sendable {
    /// What happened in one database since a token.
    package enum News: Hashable, Sendable {
        /// These zones, each with its token now.
        ///
        /// Empty: nothing.
        case zones([Zone])
        /// The token has expired, or more zones than are worth naming.
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
    /// What only the user's query subscriptions speak of.
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

package struct RenewedToken: Hashable, Sendable {
    package var webAuthToken: String
    /// How long it is good.
    package var life: Duration

    package init(webAuthToken: String, life: Duration) {
        self.webAuthToken = webAuthToken
        self.life = life
    }
}
