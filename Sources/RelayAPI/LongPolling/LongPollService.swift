import HTTPTypes
import Records
import RelayCore
import Wire

/// Long polling: issues and verifies tokens, registers devices, and answers requests to `webcourierURL`.
///
/// See Wire.md, "Long polling", and Notices.md, "Without a WebSocket".
final class LongPollService: Sendable {
    /// The validity of a token from its creation on.
    static let tokenLife = Duration.seconds(30 * 24 * 3_600)
    /// The maximum number of devices per user; adding another one removes the oldest.
    static let limitPerUser = 20

    private let hub: NoticeHub?
    private let sessions: LongPollSessions
    private let workerNumber: Int
    private let seal: LongPollToken.Seal
    private let authenticator: Authenticator
    private let stores: any StoreCatalog
    private let time: TimeSource
    private let random: RandomSource
    private let longestWait: Duration

    init(
        hub: NoticeHub?,
        authenticator: Authenticator,
        stores: any StoreCatalog,
        longestWait: Duration,
        time: TimeSource,
        random: RandomSource
    ) {
        self.hub = hub
        self.authenticator = authenticator
        self.stores = stores
        self.longestWait = longestWait
        self.time = time
        self.random = random
        // Weak because the hub retains its executors.
        sessions = LongPollSessions(limits: hub?.limits ?? NoticeLimits(), uptime: time.uptime) { [weak hub] in
            hub?.leave($0, as: $1)
        }
        workerNumber = hub?.add(sessions) ?? 0
        seal = LongPollToken.Seal(relayKey: authenticator.relayKey)
    }

    func stop() { sessions.stop() }

    // MARK: Tokens

    /// Registers a new device of the caller and returns its token.
    func create(for authentication: Authentication, in home: ContainerEnvironment) throws(RelayError) -> String {
        guard let user = authentication.caller.user else { throw authentication.signInRequired }
        let token = LongPollToken(
            user: user,
            deviceID: authentication.caller.deviceID,
            credential: authentication.credential,
            expires: time.now() + Self.tokenLife,
            id: random.hex(byteCount: 16)
        )
        try listen(token, in: home, isReturning: false)
        return seal.text(of: token, in: home)
    }

    /// Registers a device again by its token; the error for tokens of other users and for invalid ones is the same.
    func register(
        _ text: String,
        for authentication: Authentication,
        in home: ContainerEnvironment
    ) throws(RelayError) {
        guard let token = validToken(text, in: home), token.user == authentication.caller.user else {
            throw .badRequest(
                "apnsToken was not issued to this user by tokens/create, or it has expired. Create a new one."
            )
        }
        if !sessions.isKnown(token.id) { try listen(token, in: home, isReturning: true) }
    }

    private func validToken(_ text: String, in home: ContainerEnvironment) -> LongPollToken? {
        guard let token = seal.token(text, in: home), token.expires > time.now() else { return nil }
        return token
    }

    /// Registers a device with the hub.
    ///
    /// It is unknown what a returning device has missed, so it is notified to fetch everything.
    private func listen(_ token: LongPollToken, in home: ContainerEnvironment, isReturning: Bool) throws(RelayError) {
        guard let hub else {
            throw RelayError(
                .tryAgainLater,
                "This relay sends no notices; fetch changes instead.",
                retryAfter: .seconds(60)
            )
        }
        let address = NoticeAddress(store: home, user: token.user)
        let connection = hub.newConnectionID()
        for (device, older) in sessions.add(token, at: address, as: connection, limit: Self.limitPerUser) {
            hub.leave(device, as: older)
        }
        var device = AdmittedDevice(address: address, deviceID: "courier-\(token.id)")
        if case .session = token.credential { device.credential = token.credential }
        do throws(NoticeClose) {
            let revision = try hub.join(device, as: connection, on: workerNumber)
            hub.bus.follow(address)
            let known = try subscriptions(of: token.user, in: home)
            hub.subscriptionsRead(known, of: address, revision: revision)
            if isReturning { sessions.put(summaryNotices(known, address, hub), for: token.id) }
        } catch {
            sessions.post(.end(connection, of: address, error))
            throw RelayError(
                .tryAgainLater,
                "The relay cannot register another device of this user now.",
                retryAfter: .seconds(60)
            )
        }
    }

    private func subscriptions(
        of user: UserID,
        in home: ContainerEnvironment
    ) throws(NoticeClose) -> NoticeSubscriptions {
        do throws(RelayError) {
            return try stores.store(of: home).read { reader throws(RelayError) in
                try reader.noticeSubscriptions(of: user)
            }
        } catch {
            throw .tryLater
        }
    }

    /// Returns one notice without a zone for each database that a database or zone subscription covers.
    private func summaryNotices(
        _ subscriptions: NoticeSubscriptions,
        _ address: NoticeAddress,
        _ hub: NoticeHub
    ) -> [OutgoingNotice] {
        [DatabaseScope.private, .shared].compactMap {
            hub.notice(
                about: NoticeSubject(scope: $0, zone: nil),
                syncToken: nil,
                for: address,
                subscriptions: subscriptions
            )
        }
    }

    // MARK: Polls

    /// Answers one poll with a notice, or with an empty body if there is none in time.
    ///
    /// Needs no credentials except the token in the URL, so any page that has the token may read the response.
    private func respond(to request: APIRequest, in home: ContainerEnvironment) async throws -> APIResponse {
        let text = request.query.flatMap { Self.token(inQuery: $0) } ?? ""
        guard let token = validToken(text, in: home) else { throw RelayError.longPollTokenExpired }
        if !sessions.isKnown(token.id) {
            guard try authenticator.isStillValid(token.credential) else { throw RelayError.longPollTokenExpired }
            try listen(token, in: home, isReturning: true)
        }
        var response = APIResponse(status: .ok)
        response.headers[.contentType] = "application/json; charset=UTF-8"
        response.headers[.cacheControl] = "no-store"
        switch await sessions.next(for: token.id, longest: longestWait) {
        case .notice(let frame): response.body = frame.payload
        case .nothing: break
        case .gone: throw RelayError.longPollTokenExpired
        }
        return response
    }

    private static func token(inQuery query: String) -> String? {
        query.split(separator: "&").first { $0.hasPrefix("tok=") }.map { String($0.dropFirst(4)) }
    }

    static let pathEnd = "/webcourier"

    /// The address of long polls.
    var entries: [RouteEntry] {
        [
            .page("webcourier", .ending("device/1/{}/{}\(Self.pathEnd)"), [.get], origins: .any()) { request, _ in
                guard let home = request.head.parsedHead.home else { return nil }
                return try await self.respond(to: request, in: home)
            }
        ]
    }
}

extension NoticeFrame {
    /// The notice without the enclosing object that names its kind; also the payload of push messages.
    var payload: [UInt8] { Array(text.dropFirst(Self.opening.count).dropLast()) }

    private static let opening = Array(#"{"notice":"#.utf8)
}

extension RelayError {
    /// The same error for expired tokens and for tokens that were never issued.
    static let longPollTokenExpired = RelayError(
        .notFound,
        "This webcourierURL has expired. Create one with tokens/create."
    )
}
