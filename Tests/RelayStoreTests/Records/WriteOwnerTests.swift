import Records
import RelayCore
import RelayStore
import Synchronization
import Testing

/// A write touches the data of the owner that it names, and of no other.
@Suite struct WriteOwnerTests {
    private static let alice = UserID("_00000000000000000000000000000001")
    private static let bob = UserID("_00000000000000000000000000000002")
    private static let theirs = ZoneID("Notes", owner: bob)

    enum Change: CaseIterable {
        case makeZone, deleteZone, put, putSubscription, deleteSubscription, assignInvitations, addTransfer

        func run(in writer: any StoreWriter) throws(RelayError) {
            let (user, id) = (WriteOwnerTests.bob, WriteOwnerTests.theirs)
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            let subscription = Subscription(id: "new", kind: .database)
            switch self {
            case .makeZone: _ = try writer.makeZone(ZoneID("More", owner: user), by: "phone")
            case .deleteZone: try writer.deleteZone(zone, by: "phone")
            case .put:
                let stamp = StoredRecord.Stamp(
                    at: Timestamp(milliseconds: 1),
                    by: user,
                    device: DeviceFingerprint(bits: 1)
                )
                let record = StoredRecord(
                    name: "a",
                    type: "Note",
                    change: writer.takeChangeNumber(),
                    created: stamp,
                    modified: stamp,
                    fields: Array("{}".utf8)
                )
                try writer.put([record], replacing: [:], in: zone, by: "phone")
            case .putSubscription: try writer.put([subscription], of: user, in: .private)
            case .deleteSubscription: try writer.deleteSubscriptions(ids: ["all"], of: user, in: .private)
            case .assignInvitations:
                let contact = Share.Contact.email("carol@example.org")
                try writer.assignInvitations(to: [contact], inZonesOf: user, to: WriteOwnerTests.alice)
            case .addTransfer: try writer.addTransfer(1, in: CalendarMonth(of: Timestamp(milliseconds: 1)))
            }
        }
    }

    /// Three writes share a commit, and the second one touches another owner.
    @Test(arguments: Change.allCases) func onlyTheWriteThatTouchesAnotherOwnerFails(_ change: Change) throws {
        let work = Mutex<[@Sendable () -> Void]>([])
        let reports = Mutex<[String]>([])
        let outcomes = Mutex<[Result<Void, RelayError>]>([])
        let store = try SQLiteStore(
            .memory,
            draw: { 7 },
            onForeignOwner: { report in reports.withLock { $0.append(report) } },
            scheduler: { body in work.withLock { $0.append(body) } }
        )
        defer { store.close() }
        func settle() {
            while let next = work.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) { next() }
        }
        func write(
            touching owner: UserID,
            _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Void
        ) {
            store.write(touching: owner, body) { outcome in outcomes.withLock { $0.append(outcome) } }
        }
        write(touching: Self.bob) { writer throws(RelayError) in
            try writer.define(["Note": RecordType()])
            _ = try writer.makeZone(Self.theirs, by: "phone")
            try writer.put([Subscription(id: "all", kind: .database)], of: Self.bob, in: .private)
        }
        settle()
        let own = ["A", "B", "C"].map { ZoneID($0, owner: Self.alice) }
        for id in own {
            write(touching: Self.alice) { writer throws(RelayError) in
                _ = try writer.makeZone(id, by: "phone")
                if id.zoneName == "B" { try change.run(in: writer) }
            }
        }
        settle()
        #expect(outcomes.withLock { $0.map { (try? $0.get()) != nil } } == [true, true, false, true])
        #expect(throws: RelayError.self) { try outcomes.withLock { $0[2] }.get() }
        if case .failure(let error) = outcomes.withLock({ $0[2] }) { #expect(error.code == .internalError) }
        #expect(reports.withLock { $0.count } == 1)
        try store.read { reader throws(RelayError) in
            #expect(try reader.liveZones(of: Self.alice).map(\.id.zoneName) == ["A", "C"])
            #expect(try reader.liveZones(of: Self.bob).map(\.id) == [Self.theirs])
            #expect(try reader.subscriptions(of: Self.bob, in: .private).map(\.id) == ["all"])
            #expect(try reader.transfer(in: CalendarMonth(of: Timestamp(milliseconds: 1))) == 0)
        }
        // The same change is allowed to a write that names the owner.
        write(touching: change == .addTransfer ? Zone.publicOwner : Self.bob) { writer throws(RelayError) in
            try change.run(in: writer)
        }
        settle()
        #expect(outcomes.withLock { $0.last.map { (try? $0.get()) != nil } } == true)
    }
}
