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
