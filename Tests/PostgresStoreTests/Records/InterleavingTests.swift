#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import Synchronization
    import Testing

    /// Writes of two nodes at once, in the orders in which mistakes would show.
    ///
    /// Each order is tried with the mistake that it finds planted, too, in a process of its own.
    @Suite(needsPostgres)
    struct InterleavingTests {
        // MARK: Change numbers

        @Test("a write that waited for an owner's lock gets greater numbers than the one for which it waited")
        func numbersGrow() async throws {
            #expect(try await Self.numbersGrow())
        }

        @Test("numbers that are taken in front of the lock are found")
        func numbersBeforeLock() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.numbersBeforeLock)
                let holds = try await Self.numbersGrow()
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func numbersGrow() async throws -> Bool {
            let nodes = try TwoNodes(emptyDatabase())
            try await TwoNodes.makeZone(nodes.first)
            let gate = WriteGate()
            async let early = nodes.first.write(touching: TwoNodes.alice) { writer throws(RelayError) -> UInt64 in
                gate.pass()
                guard let zone = try writer.zone(TwoNodes.notes) else { throw .zoneNotFound }
                // More than were taken with the lock.
                let records = (0..<100).map { TwoNodes.record("early \($0)", writer.takeChangeNumber()) }
                try writer.put(records, replacing: [:], in: zone, by: "phone")
                return records.last?.change ?? 0
            }
            await gate.arrival()
            async let late = TwoNodes.save("late", in: nodes.second)
            try await nodes.waiters(1)
            gate.open()
            let (last, next) = try await (early, late)
            return next > last
        }

        // MARK: Schema

        @Test("a write sees the schema that another node has changed before")
        func schemaIsFresh() async throws {
            #expect(try await Self.schemaIsFresh())
        }

        @Test("a schema that a node keeps is found")
        func schemaKept() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.schemaKept)
                let holds = try await Self.schemaIsFresh()
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func define(_ name: String, in store: PostgresStore, at gate: WriteGate? = nil) async throws {
            try await store.write(touching: TwoNodes.alice) { writer throws(RelayError) in
                if try writer.schema.types[name] == nil {
                    gate?.pass()
                    try writer.define([name: RecordType()])
                }
            }
        }

        private static func schemaIsFresh() async throws -> Bool {
            let nodes = try TwoNodes(emptyDatabase())
            try await define("Note", in: nodes.first)
            let seen = try await nodes.second.write(touching: TwoNodes.alice) { writer throws(RelayError) in
                try writer.schema.types.keys.sorted()
            }
            let read = try nodes.second.read { reader throws(RelayError) in try reader.schema.types.keys.sorted() }
            return seen == ["Note"] && read == ["Note"]
        }

        @Test("two nodes that grow the schema at once wait for each other without a deadlock")
        func schemaGrowsTwice() async throws {
            #expect(try await Self.growsWithoutDeadlock())
        }

        @Test("a lock that is upgraded from shared to exclusive is found")
        func schemaLockUpgraded() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.schemaLockUpgraded)
                let holds = try await Self.growsWithoutDeadlock()
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func growsWithoutDeadlock() async throws -> Bool {
            let nodes = try TwoNodes(emptyDatabase())
            let bob = UserID("_00000000000000000000000000000002")
            let gates = [WriteGate(), WriteGate()]
            func grow(_ name: String, of owner: UserID, in store: PostgresStore, at gate: WriteGate) async throws {
                let hasPassed = Mutex(false)
                try await store.write(touching: owner) { writer throws(RelayError) in
                    // The write may run again, under the exclusive lock.
                    let isFirst = hasPassed.withLock { passed in
                        defer { passed = true }
                        return !passed
                    }
                    if isFirst { gate.pass() }
                    try writer.define([name: RecordType()])
                }
            }
            async let first: Void = grow("A", of: TwoNodes.alice, in: nodes.first, at: gates[0])
            async let second: Void = grow("B", of: bob, in: nodes.second, at: gates[1])
            // Both hold the lock shared now.
            for gate in gates { await gate.arrival() }
            for gate in gates { gate.open() }
            _ = try await (first, second)
            let types = try nodes.first.read { reader throws(RelayError) in try reader.schema.types.keys.sorted() }
            let deadlocks = try await nodes.deadlocks()
            return types == ["A", "B"] && deadlocks == 0
        }

        // MARK: Commits

        @Test("a commit that the server confirms with a warning is answered as unknown, and its outcome is kept")
        func warning() async throws {
            #expect(try await Self.warningIsUnknown())
        }

        @Test("a warning of a commit that is ignored is found")
        func commitWarningIgnored() async {
            await #expect(processExitsWith: .success) {
                PostgresFault.plant(.commitWarningIgnored)
                let holds = try await Self.warningIsUnknown()
                exit(holds ? EXIT_FAILURE : EXIT_SUCCESS)
            }
        }

        private static func warningIsUnknown() async throws -> Bool {
            let server = try PostgresServer(settings: ["fsync=off", "synchronous_commit=on"])
            let nodes = try TwoNodes(PostgresAddress(server.makeDatabase()))
            try await TwoNodes.makeZone(nodes.first)
            // From now on each commit waits for a standby that does not exist.
            try server.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            try server.execute("SELECT pg_reload_conf()")
            while try nodes.observer.query("SHOW synchronous_standby_names").first?.text(0) != "nobody" {
                await Task.yield()
            }
            let isAnswered = Mutex(false)
            async let outcome = failure {
                defer { isAnswered.withLock { $0 = true } }
                return try await TwoNodes.save("a", in: nodes.first)
            }
            while !isAnswered.withLock({ $0 }) {
                // Cancels whatever waits for the standby.
                try nodes.observer.query(
                    """
                    SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event = 'SyncRep'
                    """
                )
                await Task.yield()
            }
            let isUnknown = await outcome?.fineCode == .serverResponseLost
            try server.execute("ALTER SYSTEM RESET synchronous_standby_names")
            try server.execute("SELECT pg_reload_conf()")
            // The repeated request finds that the first one was carried out.
            let kept = try await nodes.second.write(touching: TwoNodes.alice) { writer throws(RelayError) in
                try writer.idempotencyRecord("a", by: TwoNodes.alice)
            }
            return isUnknown && kept == IdempotencyRecord(fingerprint: 7, completedOperations: [1])
        }

        private static func failure(_ body: @Sendable () async throws -> UInt64) async -> RelayError? {
            do {
                _ = try await body()
                return nil
            } catch {
                return error as? RelayError
            }
        }
    }
#endif
