import Records
import SyncCore
package import Wire

/// One notice connection to a relay, kept up for as long as `run()` runs.
///
/// What it decides is `NoticeLine`; this moves bytes and time. Events are delivered one at a time, in order.
package actor NoticeClient {
    package enum Event: Sendable {
        /// The relay has answered the hello: from now on it tells of changes.
        case live(NoticeReady)
        case lost
        case notice(Notice)
        /// A fresh web auth token, to be used from now on.
        case renewed(webAuthToken: String)
        /// The relay closes for a reason of its own.
        case goodbye(reason: String)
        /// The relay does not take these credentials; with `isRenewable`, fresh ones of the same user will do.
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
    private let time: Timekeeper
    private let hello: @Sendable () async -> NoticeHello
    private let deliver: @Sendable (Event) async -> Void
    private let inputs: AsyncStream<Input>
    private let input: AsyncStream<Input>.Continuation

    private var line = NoticeLine()
    private var random: Chance
    private var socket: (any Socket)?
    /// Tells the events of this connection from the last words of the one before.
    private var attempt = 0
    private var alarm = 0
    private var sleeper: Task<Void, Never>?
    private var ready: NoticeReady?

    /// A client that is not running yet; `hello` is asked at each connection how far everything has come by then.
    package init(
        address: SocketAddress,
        connector: any SocketConnector,
        time: Timekeeper = .system,
        random: Chance = .system,
        hello: @escaping @Sendable () async -> NoticeHello,
        deliver: @escaping @Sendable (Event) async -> Void
    ) {
        self.address = address
        self.connector = connector
        self.time = time
        self.random = random
        self.hello = hello
        self.deliver = deliver
        // Unbounded, but what fills it is what the relay's own queue, our few timers and our own requests let through.
        (inputs, input) = AsyncStream.makeStream()
    }

    /// Connects, and connects again, until the task is cancelled.
    package func run() async {
        await withTaskCancellationHandler {
            await perform(.started)
            for await next in inputs { await take(next) }
        } onCancel: {
            input.finish()
        }
        await perform(.stopped)
    }

    /// Somebody has signed in, or the token was renewed: a line that gave up tries again.
    package nonisolated func credentialsChanged() { input.yield(.credentialsChanged) }

    /// The system says that there is a network again: a line that waits for its next try does not wait longer.
    package nonisolated func networkReturned() { input.yield(.networkReturned) }

    /// A request was answered by the relay, or found none: a line that waits for one to be there goes by it.
    package nonisolated func requestEnded(wasAnswered: Bool) { input.yield(.requestEnded(wasAnswered: wasAnswered)) }

    private func take(_ next: Input) async {
        switch next {
        case .socket(let attempt, let event):
            if attempt == self.attempt { await take(event) }
        case .timer(let alarm):
            if alarm == self.alarm { await perform(.timerFired) }
        case .credentialsChanged: await perform(.credentialsChanged)
        case .networkReturned: await perform(.networkReturned)
        case .requestEnded(let wasAnswered): await perform(wasAnswered ? .requestAnswered : .requestUnanswered)
        }
    }

    private func take(_ event: SocketEvent) async {
        switch event {
        case .opened: await perform(.opened)
        case .pong: await perform(.heard)
        case .text(let bytes):
            await perform(.heard)
            // A frame that cannot be read is a later protocol's, or nonsense; tokens make up for what it said.
            if let frame = try? ServerFrame(decoding: bytes) { await take(frame) }
        case .closed(let code): await perform(.closed(code: code))
        case .refused(let status): await perform(.refused(status: status))
        }
    }

    private func take(_ frame: ServerFrame) async {
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

    private func perform(_ event: NoticeLine.Event) async {
        for effect in line.handle(event, at: time.now(), using: &random) {
            switch effect {
            case .connect: connect()
            case .sendHello: await sendHello()
            case .ping: socket?.ping()
            case .drop: drop()
            case .wake(let moment): wake(at: moment)
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
        // The connection may have gone while the hello was put together.
        guard attempt == self.attempt else { return }
        socket?.send(text: ClientFrame.hello(hello).encoded)
    }

    private func wake(at moment: Moment?) {
        alarm += 1
        sleeper?.cancel()
        sleeper = nil
        guard let moment else { return }
        let (alarm, time, input) = (alarm, time, input)
        sleeper = time.start {
            guard (try? await time.sleep(moment)) != nil else { return }
            input.yield(.timer(alarm))
        }
    }
}
