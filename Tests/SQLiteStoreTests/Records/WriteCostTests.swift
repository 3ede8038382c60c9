import Records
import RelayCore
import SQLiteStore
import Synchronization
import Testing
import Wire

/// What counts against a user in the order of writes; StoreKit's `CommitOrderTests` test the order itself.
@Suite struct WriteCostTests {
    /// A store that commits when the test says, and the events of its writes; `|` is a commit.
    private final class World: Sendable {
        private let work = Mutex<[@Sendable () -> Void]>([])
        private let events = Mutex<[String]>([])
        private let opened = Mutex<SQLiteStore?>(nil)
        let id = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

        init() throws {
            let store = try SQLiteStore(
                .memory,
                draw: { 7 },
                onCommit: { [weak self] _ in self?.note("|") },
                scheduler: { [weak self] body in self?.work.withLock { $0.append(body) } }
            )
            opened.withLock { $0 = store }
            let id = id
            ask("zone", for: nil) { writer throws(RelayError) in
                try writer.define(["Note": RecordType()])
                _ = try writer.makeZone(id, by: "phone")
            }
            settle()
            _ = takeEvents()
        }

        private func note(_ event: String) { events.withLock { $0.append(event) } }

        func takeEvents() -> [String] {
            events.withLock { events in
                defer { events = [] }
                return events
            }
        }

        func settle() {
            while let next = work.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { next() }
        }

        func close() { opened.withLock { $0?.close() } }

        func ask(
            _ name: String,
            for user: UserID?,
            _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Void
        ) {
            opened.withLock {
                $0?.write(TestWrite(user, id.owner, body) { self.note($0 == nil ? name : "\(name) failed") })
            }
        }

        /// Writes `count` records of a megabyte.
        func save(_ name: String, _ count: Int, for user: UserID) {
            let id = id
            ask(name, for: user) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                let stamp = StoredRecord.Stamp(
                    at: Timestamp(milliseconds: 1),
                    by: user,
                    device: DeviceFingerprint(bits: 1)
                )
                let title = FieldsJSON.Entry(name: "title", value: .string(String(repeating: "x", count: 1 << 20)))
                let fields = FieldsJSON.encode([title])
                let records = (0..<count).map {
                    StoredRecord(
                        name: "\(name)-\($0)",
                        type: "Note",
                        change: writer.takeChangeNumber(),
                        created: stamp,
                        modified: stamp,
                        fields: fields
                    )
                }
                try writer.put(records, replacing: [:], in: zone, by: "phone")
            }
        }

        func read(_ name: String, _ count: Int, of other: String, for user: UserID) {
            let id = id
            ask(name, for: user) { writer throws(RelayError) in
                guard let zone = try writer.zone(id) else { throw .zoneNotFound }
                _ = try writer.records(named: (0..<count).map { "\(other)-\($0)" }, in: zone)
                throw .badRequest("No.")
            }
        }
    }

    // Unchecked, because only one thread uses the stored closures.
    private final class TestWrite: StoreWrite, @unchecked Sendable {
        let user: UserID?
        let owner: UserID?
        var prefetch: Prefetch { Prefetch() }
        private let body: @Sendable (any StoreWriter) throws(RelayError) -> Void
        private let then: @Sendable (RelayError?) -> Void

        init(
            _ user: UserID?,
            _ owner: UserID,
            _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Void,
            then: @escaping @Sendable (RelayError?) -> Void
        ) {
            (self.user, self.owner, self.body, self.then) = (user, owner, body, then)
        }

        func run(in writer: any StoreWriter) { try? body(writer) }
        func finish(_ failure: RelayError?) { then(failure) }
    }

    private let heavy = UserID("_00000000000000000000000000000002")
    private let other = UserID("_00000000000000000000000000000003")

    /// Reading for a write that is refused occupies the writer as well.
    @Test func readsOfAWriteCountToo() throws {
        let world = try World()
        world.save("a", 17, for: heavy)
        world.settle()
        _ = world.takeEvents()
        for name in ["b", "c"] { world.read(name, 17, of: "a", for: heavy) }
        world.save("d", 1, for: other)
        world.settle()
        #expect(world.takeEvents() == ["b", "|", "d", "c"])
        world.close()
    }
}
