import Sockets
import Synchronization

/// A server that can be listened to: the relay, or the bare server in its place.
struct NoticeServer: Sendable {
    var listeners: Endpoint
    /// The request that opens listener `n`'s socket, and its first message.
    var upgrade: @Sendable (Int) -> [UInt8]
    var hello: @Sendable (Int) -> [UInt8]
    /// Notices that each listener gets right after its hello, about what was there before it came.
    var greetings = 0
}

/// One notice that came in.
struct Arrival: Sendable {
    var listener: Int
    /// By `Monotonic`.
    var time: Int
}

/// Many sockets that hear notices, on a few threads.
final class Listeners {
    private let shares: [ListenerShare]
    private let threads: [RunningThread<Void>]
    let count: Int

    /// How many connections stood at the level of `ready` per second.
    private(set) var connectsPerSecond = 0.0

    /// Returns once each listener has its `ready`, and has heard what was there before.
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

    /// Ends all connections.
    func close() throws {
        for share in shares { share.end() }
        for thread in threads { try thread.join() }
    }

    /// Waits until so many notices have come since the last call, and hands them over in the order of their coming.
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

/// One thread's part of the listeners, and what it tells the others.
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
