#if Postgres
    import Dispatch
    import Foundation
    import Records
    package import RelayCore
    import Synchronization

    /// The link between nodes by LISTEN and NOTIFY.
    ///
    /// One thread listens on a connection of its own. Another one sends: each NOTIFY is a transaction of its own, which
    /// waits for no disk, and what arrives while one is in flight goes into the next one. The same thread tells the table
    /// `node` every two seconds that this node is alive and reads which others are, by the database's clock.
    ///
    /// Each sign of life is also a notification. A node that does not hear its own for some seconds connects anew.
    package final class PostgresNodeLink: NodeLink {
        package struct Timing: Sendable {
            /// How often a node says that it is alive.
            package var heartbeat = Duration.seconds(2)
            /// How long after that it counts as alive.
            package var life = Duration.seconds(10)
            /// How long after the database's latest answer this node still accepts requests.
            package var lease = Duration.seconds(30)
            /// How long nothing may be heard, not even the node's own signs of life.
            package var silence = Duration.seconds(8)
            /// How long to wait before the next attempt to connect.
            package var pause = Duration.milliseconds(500)
            /// How long an answer may take, less than on other connections: another server may answer.
            package var answer = Duration.seconds(4)

            package init() {}
        }

        package let node: String
        private let sender: NodeSender
        private let version: String
        private let address: PostgresAddress
        private let timing: Timing
        private let time: TimeSource
        private let prepare: @Sendable (PostgresConnection) throws(PostgresError) -> Void
        private let log: @Sendable (String) -> Void
        private let outbox = NodeOutbox()
        private let shared = Mutex(Shared())
        private let threads = DispatchGroup()

        private struct Shared {
            var state = NodeLinkState()
            /// The server's process of the listening connection.
            var listener: Int64?
            var latestAnswer: Duration?
            var isStopped = false
            /// What keeps the link from working, as last logged.
            var fault: String?
        }

        /// - Parameters:
        ///   - node: the name of this relay among those of the cluster.
        ///   - run: a number that no earlier run of the node had.
        ///   - version: the program's version, for people.
        ///   - address: the database.
        ///   - timing: how fast the link notices changes.
        ///   - time: the clock that is compared with the database's, and the one for waiting.
        ///   - log: called with a sentence when the link breaks and when it works again.
        ///   - prepare: called with each new connection before its first use.
        package init(
            node: String,
            run: UInt64,
            version: String,
            address: PostgresAddress,
            timing: Timing = Timing(),
            time: TimeSource,
            log: @escaping @Sendable (String) -> Void = { _ in },
            prepare: @escaping @Sendable (PostgresConnection) throws(PostgresError) -> Void = { _ in }
        ) {
            self.node = node
            sender = NodeSender(node: node, run: run)
            self.version = version
            self.address = address
            self.timing = timing
            self.time = time
            self.log = log
            self.prepare = prepare
        }

        package var state: NodeLinkState {
            shared.withLock { shared in
                var state = shared.state
                state.hasLease = shared.latestAnswer.map { time.uptime() - $0 < timing.lease } ?? false
                return state
            }
        }

        package func start(_ events: NodeLinkEvents) throws(DirectoryError) {
            for (name, body) in [("node-listen", listen), ("node-notify", notify)] {
                threads.enter()
                Thread { [threads] in
                    Thread.current.name = name
                    body(events)
                    threads.leave()
                }.start()
            }
            // An earlier run of this node may count as alive for a while.
            let patience = timing.life + .seconds(5)
            let isReady = outbox.wait(for: patience) { [self] in
                shared.withLock { $0.state.isListening && $0.latestAnswer != nil }
            }
            guard isReady else {
                let fault = shared.withLock { $0.fault }
                stop()
                throw .unavailable(fault ?? "The database \(address) does not answer.")
            }
        }

        package func send(_ message: [UInt8]) { outbox.add(message) }

        package func stop() {
            shared.withLock { $0.isStopped = true }
            outbox.close()
            threads.wait()
        }

        private var hasListened: Bool { shared.withLock { $0.listener != nil } }
        private var isStopped: Bool { shared.withLock { $0.isStopped } }

        private func connect() throws(PostgresError) -> PostgresConnection {
            var timeouts = PostgresConnection.Timeouts()
            timeouts.answer = timing.answer
            timeouts.lock = timing.answer / 2
            let connection = try PostgresConnection(to: address, for: .writing, timeouts: timeouts)
            try prepare(connection)
            // Neither messages nor signs of life wait for the disk or a standby.
            try connection.query("SET synchronous_commit = off")
            return connection
        }

        /// Logs a fault once, and its end.
        private func note(_ fault: String?) {
            let isNew = shared.withLock { shared in
                defer { shared.fault = fault }
                return shared.fault != fault
            }
            if isNew { log(fault ?? "The link to the other nodes works.") }
        }

        // MARK: Receiving

        private func listen(_ events: NodeLinkEvents) {
            var reader = NodePayloadReader()
            while !isStopped {
                do throws(PostgresError) {
                    let connection = try connect()
                    try connection.query("LISTEN zonecast")
                    shared.withLock { shared in
                        shared.listener = Int64(connection.serverProcess)
                        shared.state.isListening = true
                    }
                    reader.removeAll()
                    events.wasInterrupted()
                    outbox.wake()
                    try receive(from: connection, &reader, events)
                } catch {
                    note("The node \(node) does not hear the others. \(error)")
                }
                shared.withLock { shared in
                    if shared.state.isListening, !shared.isStopped { shared.state.interruptions += 1 }
                    shared.state.isListening = false
                    shared.listener = nil
                }
                if !isStopped { outbox.pause(timing.pause) }
            }
        }

        private func receive(
            from connection: PostgresConnection,
            _ reader: inout NodePayloadReader,
            _ events: NodeLinkEvents
        ) throws(PostgresError) {
            var heard = time.uptime()
            while !isStopped {
                for payload in try connection.notifications(within: .milliseconds(250)) {
                    heard = time.uptime()
                    guard let (sender, messages) = reader.read(payload), sender != self.sender else { continue }
                    for message in messages { events.received(message) }
                }
                guard time.uptime() - heard < timing.silence else {
                    throw PostgresError(.connectionLost, "Nothing was heard for \(timing.silence).")
                }
            }
        }

        // MARK: Sending

        private static let mostPayloads = 500

        private func notify(_ events: NodeLinkEvents) {
            var connection: PostgresConnection?
            // The first sign of life follows the first LISTEN, whose connection it names.
            var nextSign: Duration?
            var longMessages: UInt64 = 0
            var unsent: [[UInt8]] = []
            while true {
                let wait = nextSign.map { $0 - time.uptime() } ?? .milliseconds(20)
                if unsent.isEmpty { unsent = outbox.take(within: wait) }
                let isLast = isStopped
                let isDue = nextSign.map { time.uptime() >= $0 || connection == nil } ?? hasListened
                do throws(PostgresError) {
                    let live: PostgresConnection
                    if let connection { live = connection } else { live = try connect() }
                    connection = live
                    let payloads = NodePayload.payloads(of: unsent, from: sender, firstLong: longMessages)
                    longMessages += UInt64(unsent.count)
                    try send(payloads, on: live, withSign: isDue && !isLast, events)
                    shared.withLock { shared in
                        shared.state.sentMessages += unsent.count
                        shared.state.sentBatches += unsent.isEmpty ? 0 : 1
                    }
                    unsent = []
                    if isDue { nextSign = time.uptime() + timing.heartbeat }
                    if isLast {
                        try live.query("DELETE FROM node WHERE name = $1 AND run = $2", .text(node), runValue)
                        return
                    }
                } catch {
                    connection = nil
                    if isLast { return }
                    note(error.code == .nameTaken ? "\(error)" : "The node \(node) cannot reach its database. \(error)")
                    outbox.pause(timing.pause)
                }
            }
        }

        private var runValue: PostgresValue { .unsigned(sender.run) }

        private func send(
            _ payloads: [String],
            on connection: PostgresConnection,
            withSign hasSign: Bool,
            _ events: NodeLinkEvents
        ) throws(PostgresError) {
            var pipeline = PostgresPipeline()
            for (place, payload) in payloads.enumerated() {
                pipeline.add("SELECT pg_notify('zonecast', $1)", .text(payload))
                if (place + 1).isMultiple(of: Self.mostPayloads) {
                    try connection.run(pipeline)
                    pipeline = PostgresPipeline()
                }
            }
            guard hasSign else {
                if !pipeline.isEmpty { try connection.run(pipeline) }
                return
            }
            let place = addSign(to: &pipeline)
            let rows = try connection.run(pipeline)
            guard !rows[place].isEmpty else {
                throw PostgresError(.nameTaken, "Another relay with the name \(node) is running.")
            }
            noteNodes(rows[place + 1], events)
        }

        /// Adds the statements that claim the node's name, read the live nodes and the database's time, and notify.
        ///
        /// A name is free if its relay has not been seen for a while, or the server no longer has its connection, as
        /// after `kill -9`.
        ///
        /// - Returns: the place of the first one.
        private func addSign(to pipeline: inout PostgresPipeline) -> Int {
            let life = PostgresValue.int(timing.life.wholeMilliseconds)
            let place = pipeline.add(
                """
                INSERT INTO node (name, run, version, backend, seen) VALUES ($1, $2, $3, $4, clock_timestamp())
                ON CONFLICT (name) DO UPDATE SET run = excluded.run, version = excluded.version,
                    backend = excluded.backend, seen = excluded.seen,
                    started = CASE WHEN node.run = excluded.run THEN node.started ELSE excluded.seen END
                WHERE node.run = excluded.run OR node.seen < clock_timestamp() - $5 * interval '1 ms'
                    OR NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = node.backend)
                RETURNING 1
                """,
                .text(node),
                runValue,
                .text(version),
                .int(shared.withLock { $0.listener }),
                life
            )
            pipeline.add(
                """
                SELECT name, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM node
                WHERE seen > clock_timestamp() - $1 * interval '1 ms'
                """,
                life
            )
            pipeline.add("SELECT pg_notify('zonecast', $1)", .text(NodePayload.sign(of: sender)))
            return place
        }

        private func noteNodes(_ rows: PostgresRows, _ events: NodeLinkEvents) {
            let live = Set(rows.map { $0.text(0) }).union([node])
            let clock = rows.first.map { $0.int(1) }
            let (hasChanged, isListening) = shared.withLock { shared in
                let hasChanged = shared.state.liveNodes != live
                shared.state.liveNodes = live
                if let clock {
                    shared.state.clockOffset = .milliseconds(time.now().milliseconds - clock)
                }
                shared.latestAnswer = time.uptime()
                return (hasChanged, shared.state.isListening)
            }
            if isListening { note(nil) }
            if hasChanged { events.nodesChanged(live) }
            outbox.wake()
        }
    }

    /// The messages that wait for the next NOTIFY.
    // Unchecked: all mutable state is guarded by `condition`, which is a lock.
    private final class NodeOutbox: @unchecked Sendable {
        private let condition = NSCondition()
        private var messages: [[UInt8]] = []
        private var bytes = 0
        private var isClosed = false

        /// What waits while the database cannot be reached; the other nodes read from the stores what this drops.
        private static let maxBytes = 8 << 20

        func add(_ message: [UInt8]) {
            condition.withLock {
                guard bytes + message.count <= Self.maxBytes else { return }
                messages.append(message)
                bytes += message.count
                condition.broadcast()
            }
        }

        /// Waits for messages; returns none after `time` or at the end.
        func take(within time: Duration) -> [[UInt8]] {
            let deadline = Date(timeIntervalSinceNow: max(.zero, time) / .seconds(1))
            condition.lock()
            defer { condition.unlock() }
            while messages.isEmpty, !isClosed, condition.wait(until: deadline) {}
            defer { (messages, bytes) = ([], 0) }
            return messages
        }

        /// Waits, but not beyond the end.
        func pause(_ time: Duration) {
            let deadline = Date(timeIntervalSinceNow: time / .seconds(1))
            condition.lock()
            defer { condition.unlock() }
            while !isClosed, condition.wait(until: deadline) {}
        }

        /// Waits until `isTrue`, which is asked again after each `wake`; returns `false` after `time`.
        func wait(for time: Duration, until isTrue: () -> Bool) -> Bool {
            let deadline = Date(timeIntervalSinceNow: time / .seconds(1))
            condition.lock()
            defer { condition.unlock() }
            while !isTrue() {
                guard condition.wait(until: deadline) else { return isTrue() }
            }
            return true
        }

        func wake() { condition.withLock { condition.broadcast() } }

        func close() {
            condition.withLock {
                isClosed = true
                condition.broadcast()
            }
        }
    }
#endif
