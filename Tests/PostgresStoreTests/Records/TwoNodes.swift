#if Postgres
    import ChildProcesses
    import Foundation
    import PostgresStore
    import Records
    import RelayCore
    import Testing

    /// Two stores of one container, as two nodes of a cluster have them, and a connection that looks at the server.
    struct TwoNodes {
        static let alice = UserID("_00000000000000000000000000000001")
        static let notes = ZoneID("Notes", owner: alice)

        let first: PostgresStore
        let second: PostgresStore
        let observer: PostgresConnection

        init(_ address: PostgresAddress) throws {
            // Tests hold transactions open while they look at the server.
            var timeouts = PostgresConnection.Timeouts()
            timeouts.idle = .seconds(600)
            func open() throws -> PostgresStore {
                guard let container = ContainerID("iCloud.org.example.one") else { preconditionFailure("a good name") }
                return try PostgresStore(
                    ContainerEnvironment(container, .development),
                    in: PostgresDatabase(address, cluster: "test", timeouts: timeouts),
                    draw: { UInt64.random(in: 1 ... .max) }
                )
            }
            (first, second) = (try open(), try open())
            observer = try PostgresConnection(to: address)
        }

        /// Waits until so many transactions wait for a lock.
        func waiters(_ count: Int) async throws {
            while try observer.query(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).first?.int(0) != Int64(count) {
                await Task.yield()
            }
        }

        /// Ends the nodes' connections, and returns how many deadlocks the server has found in their transactions.
        ///
        /// A connection is certain to have reported its deadlocks only when it has ended.
        func deadlocks() async throws -> Int64? {
            let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            try observer.query("SELECT pg_terminate_backend(pid) \(others)")
            while try !observer.query("SELECT 1 \(others)").isEmpty { await Task.yield() }
            return try observer.query("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
                .first?.int(0)
        }

        func lastChange() throws -> UInt64 {
            try observer.query("SELECT max(last_change) FROM owner").first?.unsigned(0) ?? 0
        }

        static func makeZone(_ store: PostgresStore) async throws {
            _ = try await store.write(touching: alice) { writer throws(RelayError) in
                try writer.makeZone(notes, by: "phone")
            }
        }

        static func record(_ name: String, _ change: UInt64, type: String = "Note") -> StoredRecord {
            let stamp = StoredRecord.Stamp(
                at: Timestamp(milliseconds: 1),
                by: alice,
                device: DeviceFingerprint(bits: 1)
            )
            return StoredRecord(
                name: name,
                type: type,
                change: change,
                created: stamp,
                modified: stamp,
                fields: Array("{}".utf8)
            )
        }

        /// Writes one record and an outcome under the record's name, and returns its change number.
        static func save(_ name: String, in store: PostgresStore) async throws -> UInt64 {
            try await store.write(touching: alice) { writer throws(RelayError) in
                guard let zone = try writer.zone(notes) else { throw .zoneNotFound }
                let record = record(name, writer.takeChangeNumber())
                try writer.put([record], replacing: [:], in: zone, by: "phone")
                try writer.keep(IdempotencyRecord(fingerprint: 7, completedOperations: [1]), as: name, by: alice)
                return record.change
            }
        }
    }

    /// Stops a thread of a store, in the middle of a write, until it is opened.
    final class WriteGate: Sendable {
        private let reached = DispatchSemaphore(value: 0)
        private let opened = DispatchSemaphore(value: 0)

        /// Called by the write.
        func pass() {
            reached.signal()
            opened.wait()
        }

        /// Returns when the write has come to the gate.
        func arrival() async {
            await withCheckedContinuation { continuation in
                DispatchQueue.global().async { [self] in
                    reached.wait()
                    continuation.resume()
                }
            }
        }

        func open() { opened.signal() }
    }
#endif
