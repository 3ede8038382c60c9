import Sockets
import Synchronization

/// A server with notice sockets: the relay, or the bare server in its place.
struct NoticeServer: Sendable {
    var listeners: Endpoint
    /// The request that opens listener `n`'s socket, and the listener's first message.
    var upgrade: @Sendable (Int) -> [UInt8]
    var hello: @Sendable (Int) -> [UInt8]
    /// The number of notices that a listener gets right after its hello, about earlier changes.
    var greetings = 0
}

/// A received notice.
struct Arrival: Sendable {
    var listener: Int
    /// Read from `Monotonic`.
    var time: Int
}

/// Many sockets that receive notices, on a few threads.
final class Listeners {
    private let shares: [ListenerShare]
    private let threads: [RunningThread<Void>]
    let count: Int

    /// The number of connections that became ready per second.
    private(set) var connectsPerSecond = 0.0

    /// Returns after every listener is ready and has received the notices about earlier changes.
    init(count: Int, threads threadCount: Int = 2, to server: NoticeServer) throws {
        self.count = count
        let start = Monotonic.nanoseconds
        shares = try (0..<threadCount).map { index in
            try ListenerShare(Array(stride(from: index, to: count, by: threadCount)))
        }
        threads = shares.map { share in RunningThread { try ListenerThread(share, server).run() } }
        do {
            try wait("\(count) listeners to be ready", until: count) { $0.ready.load(ordering: .acquiring) }
        } catch {
            for share in shares { share.end() }
            throw error
        }
        connectsPerSecond = Double(count) / Monotonic.seconds(since: start)
        _ = try arrivals(count * server.greetings)
    }

    /// Closes all connections.
    func close() throws {
        for share in shares { share.end() }
        for thread in threads { try thread.join() }
    }

    /// Waits for this many notices since the last call and returns them in order of arrival.
    func arrivals(_ expected: Int) throws -> [Arrival] {
        try wait("\(expected) notices", until: expected) { $0.noticed.load(ordering: .acquiring) }
        return shares.flatMap { $0.take() }.sorted { $0.time < $1.time }
    }

    private func wait(_ what: String, until enough: Int, _ value: (ListenerShare) -> Int) throws {
        let start = Monotonic.nanoseconds
        while shares.reduce(0, { $0 + value($1) }) < enough {
            let failure = shares.lazy.compactMap { $0.failure }.first
            if let failure { throw failure }
            guard Monotonic.seconds(since: start) < 60 else {
                throw LoadError.timedOut("\(what); there are \(shares.reduce(0) { $0 + value($1) })")
            }
            pause(microseconds: 200)
        }
    }
}

/// One thread's share of the listeners, and its state for other threads.
final class ListenerShare: Sendable {
    let listeners: [Int]
    let ready = Atomic<Int>(0)
    let noticed = Atomic<Int>(0)
    let isEnding = Atomic<Bool>(false)
    let wake: Wake
    private let came = Mutex<[Arrival]>([])
    private let problem = Mutex<(any Error)?>(nil)

    init(_ listeners: [Int]) throws {
        self.listeners = listeners
        wake = try Wake()
    }

    var failure: (any Error)? { problem.withLock { $0 } }

    func fail(_ error: any Error) { problem.withLock { $0 = error } }

    func add(_ arrivals: [Arrival]) {
        came.withLock { $0.append(contentsOf: arrivals) }
        noticed.add(arrivals.count, ordering: .releasing)
    }

    func take() -> [Arrival] {
        came.withLock { came in
            noticed.subtract(came.count, ordering: .relaxed)
            defer { came = [] }
            return came
        }
    }

    func end() {
        isEnding.store(true, ordering: .relaxed)
        wake.signal()
    }
}

/// Connects a share of the listeners and receives for all of them, with one epoll set and one read buffer.
final class ListenerThread {
    private enum Stage {
        case upgrading
        case greeting
        case listening
    }

    private struct Member {
        var listener: Int
        var socket: Socket
        var stage = Stage.upgrading
        /// The beginning of an incomplete frame, usually empty.
        var rest: [UInt8] = []
    }

    /// The maximum number of connections being established.
    private static let window = 100
    private static let wakeKey = -1

    private let share: ListenerShare
    private let server: NoticeServer
    private let poller: Poller
    private var members: [Member] = []
    private var connecting = 0
    private var buffer = ReceiveBuffer()
    private var arrivals: [Arrival] = []

    init(_ share: ListenerShare, _ server: NoticeServer) throws {
        self.share = share
        self.server = server
        poller = try Poller()
        try poller.add(share.wake.descriptor, key: Self.wakeKey)
    }

    func run() throws {
        do {
            while !share.isEnding.load(ordering: .relaxed) {
                while connecting < Self.window, members.count < share.listeners.count { try connect() }
                try poller.wait(milliseconds: -1) { key in
                    if key != Self.wakeKey { try read(key) }
                }
                guard !arrivals.isEmpty else { continue }
                share.add(arrivals)
                arrivals.removeAll(keepingCapacity: true)
            }
        } catch {
            share.fail(error)
            throw error
        }
    }

    private func connect() throws {
        let listener = share.listeners[members.count]
        // Use several loopback addresses: a few rounds of 10,000 connections use up the ports of one.
        let source = UInt8(2 + members.count % 100)
        let socket = try Socket.connect(to: server.listeners, source: source, blocks: false)
        try socket.write(server.upgrade(listener))
        try poller.add(socket.descriptor, key: members.count)
        members.append(Member(listener: listener, socket: socket))
        connecting += 1
    }

    private func read(_ key: Int) throws {
        buffer.use(buffer.unread.count)
        if !members[key].rest.isEmpty {
            buffer.put(members[key].rest)
            members[key].rest = []
        }
        switch buffer.fill(from: members[key].socket) {
        case .nothingYet: return
        case .closed: throw LoadError.peer("The server closed listener \(members[key].listener)'s socket.")
        case .bytes: break
        }
        if members[key].stage == .upgrading, try !upgraded(key) {
            members[key].rest = Array(buffer.unread)
            return
        }
        try readFrames(key)
    }

    /// Whether the whole response to the upgrade has arrived; it must be a 101.
    private func upgraded(_ key: Int) throws -> Bool {
        guard let length = HTTPHead.length(in: buffer.unread) else { return false }
        guard HTTPHead.status(of: buffer.unread) == 101 else {
            throw LoadError.peer("No upgrade: \(String(decoding: buffer.unread.prefix(300), as: UTF8.self))")
        }
        buffer.use(length)
        members[key].stage = .greeting
        try members[key].socket.write(server.hello(members[key].listener))
        return true
    }

    private func readFrames(_ key: Int) throws {
        while let frame = WebSocketFrame.first(in: buffer.unread) {
            switch frame.kind {
            case .text: try receive(frame.payload, key)
            case .ping: try members[key].socket.write(WebSocketFrame.fromClient(.pong, Array(frame.payload)))
            case .close: throw LoadError.peer("The server said close to listener \(members[key].listener).")
            default: break
            }
            buffer.use(frame.length)
        }
        if !buffer.unread.isEmpty { members[key].rest = Array(buffer.unread) }
    }

    private func receive(_ text: UnsafeRawBufferPointer, _ key: Int) throws {
        if members[key].stage == .greeting {
            guard text.starts(with: #"{"ready""#.utf8) else {
                throw LoadError.peer("Not a ready: \(String(decoding: text.prefix(300), as: UTF8.self))")
            }
            members[key].stage = .listening
            connecting -= 1
            share.ready.add(1, ordering: .releasing)
        } else if text.starts(with: #"{"notice""#.utf8) {
            arrivals.append(Arrival(listener: members[key].listener, time: Monotonic.nanoseconds))
        }
    }
}

/// What notice rows need from a server, relay or bare: sockets to hold and commits to make.
struct NoticeTarget {
    var server: NoticeServer
    /// Where commits are sent.
    var requests: Endpoint
    var meter: ProcessMeter
    /// Returns the request that commits one record in a zone.
    var commit: (Int) -> NumberedRequest
}

extension Relay {
    /// Listener `n` is device `n` of one user; commits go to that user's zone `one`.
    func asOneUser() throws -> NoticeTarget {
        try makeZones(["one"])
        try subscribe()
        let (upgrade, create) = (upgrade(), create(1, in: "one"))
        let hello = helloMaker()
        return NoticeTarget(
            server: NoticeServer(
                listeners: endpoint,
                upgrade: { _ in upgrade },
                hello: { hello($0, nil) },
                greetings: 1
            ),
            requests: endpoint,
            meter: meter,
            commit: { _ in create }
        )
    }

    /// Creates users with a zone each; every `each` consecutive listeners belong to one user.
    func asManyUsers(_ count: Int, listenersEach each: Int) throws -> NoticeTarget {
        for user in 0..<count {
            try makeZones(["zone"], as: .dev(user))
            try subscribe(as: .dev(user))
        }
        let upgrade = upgrade()
        let hello = helloMaker()
        return NoticeTarget(
            server: NoticeServer(
                listeners: endpoint,
                upgrade: { _ in upgrade },
                hello: { hello($0, $0 / each) },
                greetings: 1
            ),
            requests: endpoint,
            meter: meter,
            commit: { self.create(1, in: "zone", as: .dev($0)) }
        )
    }
}

extension BareProcess {
    /// Listener `n` listens to zone `n / each`.
    ///
    /// With `syncs`, a commit is on the disk before its notices are sent.
    func asNoticeTarget(listenersEach each: Int, syncs: Bool) -> NoticeTarget {
        let (listeners, requests) = (listeners, requests)
        return NoticeTarget(
            server: NoticeServer(
                listeners: listeners,
                upgrade: { HTTPRequest("GET", "/listen/\($0 / each)", to: listeners).bytes },
                hello: { _ in WebSocketFrame.fromClient(.text, Array("hello".utf8)) }
            ),
            requests: requests,
            meter: meter,
            commit: { zone in
                NumberedRequest(
                    HTTPRequest(
                        "POST",
                        "/\(syncs ? "commit" : "notify")/\(zone)",
                        to: requests,
                        body: Array(SampleRecord.row.utf8)
                    )
                )
            }
        )
    }
}
