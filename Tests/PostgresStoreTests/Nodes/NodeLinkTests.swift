#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import RelaySystem
    import Synchronization
    import Testing

    /// Links over a real server.
    @Suite(needsPostgres)
    struct NodeLinkTests {
        /// A node that keeps what its link reports.
        // Unchecked: all mutable state is guarded by `condition`, which is a lock.
        private final class Node: @unchecked Sendable {
            let link: PostgresNodeLink
            private let condition = NSCondition()
            private var received: [String] = []
            private var interruptions = 0
            private var live: Set<String> = []

            init(
                _ name: String,
                run: UInt64 = 1,
                at address: PostgresAddress,
                _ timing: PostgresNodeLink.Timing = .quick,
                time: TimeSource = .system,
                start: Bool = true
            ) throws {
                link = PostgresNodeLink(
                    node: name,
                    run: run,
                    version: "test",
                    address: address,
                    timing: timing,
                    time: time,
                    prepare: { connection throws(PostgresError) in
                        try PostgresLayout(cluster: "test").prepare(connection)
                    }
                )
                if start { try self.start() }
            }

            func start() throws {
                try link.start(
                    NodeLinkEvents(
                        received: { [weak self] bytes in
                            self?.note { $0.received.append(String(decoding: bytes, as: UTF8.self)) }
                        },
                        wasInterrupted: { [weak self] in self?.note { $0.interruptions += 1 } },
                        nodesChanged: { [weak self] live in self?.note { $0.live = live } }
                    )
                )
            }

            private func note(_ change: (Node) -> Void) {
                condition.withLock {
                    change(self)
                    condition.broadcast()
                }
            }

            func send(_ message: String) { link.send(Array(message.utf8)) }

            /// Waits until `isTrue`; returns `false` after a minute.
            private func wait(until isTrue: () -> Bool) -> Bool {
                let deadline = Date(timeIntervalSinceNow: 60)
                condition.lock()
                defer { condition.unlock() }
                while !isTrue() {
                    guard condition.wait(until: deadline) else { return false }
                }
                return true
            }

            /// Asks repeatedly, since the state does not announce its changes.
            func waitForState(_ isTrue: (NodeLinkState) -> Bool) -> Bool {
                let deadline = Date(timeIntervalSinceNow: 60)
                while !isTrue(link.state) {
                    guard Date() < deadline else { return false }
                    condition.withLock { _ = condition.wait(until: Date(timeIntervalSinceNow: 0.02)) }
                }
                return true
            }

            func waitForMessages(_ messages: [String]) -> Bool { wait { received == messages } }
            func waitForMessage(_ message: String) -> Bool { wait { received.last == message } }
            func waitForNodes(_ nodes: Set<String>) -> Bool { wait { live == nodes } }
            func waitForInterruptions(_ count: Int) -> Bool { wait { interruptions >= count } }
        }

        @Test("messages reach all other nodes in order, and not the sender, whatever their length")
        func messages() throws {
            let address = try emptyDatabase()
            let nodes = try ["a", "b", "c"].map { try Node($0, at: address) }
            defer { nodes.forEach { $0.link.stop() } }
            let long = String(repeating: "ß", count: 40_000)
            let messages = (0..<300).map { "message \($0)" } + [long, "end"]
            for message in messages { nodes[0].send(message) }
            #expect(nodes[1].waitForMessages(messages))
            #expect(nodes[2].waitForMessages(messages))
            nodes[1].send("answer")
            #expect(nodes[0].waitForMessages(["answer"]))
            // The others may read a message before its sender knows that it is sent.
            #expect(nodes[0].waitForState { $0.sentMessages == 302 })
            let state = nodes[0].link.state
            #expect(state.sentBatches < 302, "what arrives while a NOTIFY is in flight must share the next one")
            #expect(state.hasLease && state.isListening && abs(state.clockOffset / .seconds(1)) < 5)
        }

        @Test("a clock that drifts while the node runs is seen with a sign of life")
        func driftingClock() throws {
            let drift = Mutex(Duration.zero)
            let time = TimeSource(
                now: { TimeSource.system.now() + drift.withLock { $0 } },
                uptime: TimeSource.system.uptime
            )
            let node = try Node("a", at: emptyDatabase(), time: time)
            defer { node.link.stop() }
            #expect(node.waitForState { abs($0.clockOffset / .seconds(1)) < 1_800 })
            for hours in [1, -1] {
                drift.withLock { $0 = .seconds(3_600 * hours) }
                #expect(node.waitForState { $0.clockOffset / .seconds(Double(hours)) > 1_800 })
            }
        }

        @Test("a node that lost its LISTEN connects again and says that messages may be lost")
        func lostListen() throws {
            let address = try emptyDatabase()
            let (first, second) = (try Node("a", at: address), try Node("b", at: address))
            defer { [first, second].forEach { $0.link.stop() } }
            #expect(second.waitForInterruptions(1))
            let observer = try PostgresConnection(to: address)
            let ended = try observer.query(
                "SELECT pg_terminate_backend(backend::int) FROM node WHERE name = 'b' AND backend IS NOT NULL"
            )
            #expect(ended.count == 1)
            #expect(second.waitForInterruptions(2))
            first.send("after")
            #expect(second.waitForMessage("after"))
            #expect(second.link.state.interruptions == 1)
        }

        @Test("a node whose connection hears nothing connects again")
        func silentConnection() throws {
            var timing = PostgresNodeLink.Timing.quick
            timing.silence = .milliseconds(600)
            let address = try emptyDatabase()
            let node = try Node("a", at: address, timing)
            defer { node.link.stop() }
            // A rule that swallows the signs of life, as a proxy does that forgot the connection.
            let observer = try PostgresConnection(to: address)
            try observer.query("CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''")
            try observer.query(
                "ALTER ROLE postgres IN DATABASE \(address.database) SET search_path = public, pg_catalog"
            )
            try observer.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
            #expect(node.waitForInterruptions(3))
        }

        @Test("a node learns which others are alive")
        func liveNodes() throws {
            let address = try emptyDatabase()
            let first = try Node("a", at: address)
            defer { first.link.stop() }
            #expect(first.waitForNodes(["a"]))
            let second = try Node("b", at: address)
            #expect(first.waitForNodes(["a", "b"]))
            second.link.stop()
            #expect(first.waitForNodes(["a"]))
        }

        @Test("a name that a live relay has is refused with one sentence, and free after that relay was killed")
        func names() throws {
            let address = try emptyDatabase()
            let first = try Node("a", at: address)
            let impostor = try Node("a", run: 2, at: address, start: false)
            let refusal = try #require(throws: DirectoryError.self) { try impostor.start() }
            #expect("\(refusal)".contains("Another relay with the name a is running."))
            first.link.stop()
            let observer = try PostgresConnection(to: address)
            // As a relay leaves it that was killed.
            try observer.query(
                "INSERT INTO node (name, run, version, backend, seen) VALUES ('a', 1, '', 999999, clock_timestamp() + interval '1 h')"
            )
            let second = try Node("a", run: 2, at: address)
            second.link.stop()
        }

        @Test("without its database, a node loses its lease and gets it back")
        func lease() throws {
            var timing = PostgresNodeLink.Timing.quick
            timing.lease = .seconds(1)
            let address = try emptyDatabase()
            let node = try Node("a", at: address, timing)
            defer { node.link.stop() }
            #expect(node.link.state.hasLease)
            let observer = try PostgresConnection(to: address)
            try observer.query("ALTER TABLE node RENAME TO hidden")
            #expect(node.waitForState { !$0.hasLease })
            try observer.query("ALTER TABLE hidden RENAME TO node")
            #expect(node.waitForState { $0.hasLease })
        }
    }

    extension PostgresNodeLink.Timing {
        fileprivate static var quick: Self {
            var timing = Self()
            (timing.heartbeat, timing.life, timing.pause) = (.milliseconds(100), .seconds(2), .milliseconds(50))
            return timing
        }
    }
#endif
