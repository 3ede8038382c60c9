import Records
import SyncCore
package import Wire

/// A notice connection to a relay, kept open for as long as `run()` runs.
///
/// `NoticeConnectionState` makes the decisions; this actor performs the I/O and the timers. Events are delivered one at a time, in
/// order.
package actor NoticeClient {
    package enum Event: Sendable {
        /// The relay has answered the hello and reports changes from now on.
        case live(NoticeReady)
        case lost
        case notice(Notice)
        /// A renewed web auth token that replaces the previous one.
        case renewed(webAuthToken: String)
        /// The relay closes the connection and states the reason.
        case goodbye(reason: String)
        /// The relay does not accept the credentials. With `isRenewable`, new credentials of the same user solve it.
        case needsCredentials(isRenewable: Bool)
    }

    private enum Input: Sendable {
        case socket(attempt: Int, SocketEvent)
        case timer(Int)
        case credentialsChanged
        case networkReturned
        case requestEnded(wasAnswered: Bool)
    }

    package static let subprotocol = "zonecast.notices.1"

    private let address: SocketAddress
    private let connector: any SocketConnector
    private let time: Scheduler
    private let hello: @Sendable () async -> NoticeHello
    private let deliver: @Sendable (Event) async -> Void
    private let inputs: AsyncStream<Input>
    private let input: AsyncStream<Input>.Continuation

    private var connectionState = NoticeConnectionState()
    private var random: RandomGenerator
    private var socket: (any Socket)?
    /// Number of the current connection, to ignore late events of earlier ones.
    private var attempt = 0
    private var timerID = 0
    private var timerTask: Task<Void, Never>?
    private var ready: NoticeReady?

    /// Creates a client that is not running yet.
    ///
    /// `hello` is called for each connection and returns the current positions of all zones.
    package init(
        address: SocketAddress,
        connector: any SocketConnector,
        time: Scheduler = .system,
        random: RandomGenerator = .system,
        hello: @escaping @Sendable () async -> NoticeHello,
        deliver: @escaping @Sendable (Event) async -> Void
    ) {
        self.address = address
        self.connector = connector
        self.time = time
        self.random = random
        self.hello = hello
        self.deliver = deliver
        // Unbounded. The number of inputs is limited by the relay's send queue, a few timers and this process's
        // requests.
        (inputs, input) = AsyncStream.makeStream()
    }

    /// Connects and reconnects until the task is cancelled.
    package func run() async {
        await withTaskCancellationHandler {
            await perform(.started)
            for await next in inputs { await handle(next) }
        } onCancel: {
            input.finish()
        }
        await perform(.stopped)
    }

    /// Reconnects if the client has given up for lack of credentials.
    ///
    /// Call after a sign-in or a token renewal.
    package nonisolated func credentialsChanged() { input.yield(.credentialsChanged) }

    /// Ends a wait for the next attempt to connect.
    ///
    /// Call when the system reports that the network is available again.
    package nonisolated func networkReturned() { input.yield(.networkReturned) }

    /// Reports the result of a request, from which a waiting client concludes whether the relay is reachable.
    package nonisolated func requestEnded(wasAnswered: Bool) { input.yield(.requestEnded(wasAnswered: wasAnswered)) }

    private func handle(_ next: Input) async {
        switch next {
        case .socket(let attempt, let event):
            if attempt == self.attempt { await handle(event) }
        case .timer(let timerID):
            if timerID == self.timerID { await perform(.timerFired) }
        case .credentialsChanged: await perform(.credentialsChanged)
        case .networkReturned: await perform(.networkReturned)
        case .requestEnded(let wasAnswered): await perform(wasAnswered ? .requestAnswered : .requestUnanswered)
        }
    }

    private func handle(_ event: SocketEvent) async {
        switch event {
        case .opened: await perform(.opened)
        case .pong: await perform(.dataReceived)
        case .text(let bytes):
            await perform(.dataReceived)
            // An unreadable frame belongs to a later protocol or is corrupt. Change tokens recover what it would have
            // reported.
            if let frame = try? ServerFrame(decoding: bytes) { await handle(frame) }
        case .closed(let code): await perform(.closed(code: code))
        case .refused(let status): await perform(.refused(status: status))
        }
    }

    private func handle(_ frame: ServerFrame) async {
        switch frame {
        case .ready(let ready):
            self.ready = ready
            await perform(.ready)
        case .notice(let notice): await deliver(.notice(notice))
        case .renewed(let token): await deliver(.renewed(webAuthToken: token))
        case .goodbye(let reason, let retryAfter):
            await deliver(.goodbye(reason: reason))
            await perform(.goodbye(retryAfter: retryAfter.flatMap { Duration(waitOf: $0) }))
        case .pong, .unknown: break
        }
    }

    private func perform(_ event: NoticeConnectionState.Event) async {
        for effect in connectionState.handle(event, at: time.now(), using: &random) {
            switch effect {
            case .connect: connect()
            case .sendHello: await sendHello()
            case .ping: socket?.ping()
            case .drop: drop()
            case .wake(let instant): wake(at: instant)
            case .isLive(true):
                if let ready { await deliver(.live(ready)) }
            case .isLive(false): await deliver(.lost)
            case .needsCredentials(let isRenewable): await deliver(.needsCredentials(isRenewable: isRenewable))
            }
        }
    }

    private func connect() {
        drop()
        let (attempt, input) = (attempt, input)
        socket = connector.connect(to: address, subprotocol: Self.subprotocol) { event in
            input.yield(.socket(attempt: attempt, event))
        }
    }

    private func drop() {
        socket?.drop()
        socket = nil
        attempt += 1
    }

    private func sendHello() async {
        let attempt = attempt
        let hello = await hello()
        // The connection may have ended while the hello was assembled.
        guard attempt == self.attempt else { return }
        socket?.send(text: ClientFrame.hello(hello).encoded)
    }

    private func wake(at instant: Instant?) {
        timerID += 1
        timerTask?.cancel()
        timerTask = nil
        guard let instant else { return }
        let (timerID, time, input) = (timerID, time, input)
        timerTask = time.start {
            guard (try? await time.sleep(instant)) != nil else { return }
            input.yield(.timer(timerID))
        }
    }
}
