import Records
import RelayCore
import StoreTesting
import Testing
import Wire

/// Records as they are written, and read by name.
@Suite struct RecordTests {
    private let store: any Store

    init() async throws {
        store = try TestStore.current.makeHome().store()
        try await store.makeZone()
    }

    @Test("a record is read back with all its values") func roundTrip() async throws {
        var draft = Draft("a", title: "milk \u{1F34E} \u{0} \"", parent: "p")
        draft.fields["blob"] = .bytes([0, 255, 1])
        draft.fields["tags"] = .list(.string, [.string(""), .string("x")])
        draft.shareReference = ShareReference(shortGUID: "link")
        let saved = try await store.put([draft])[0]
        #expect(try store.records(["a"]) == ["a": saved])
        let zone = try #require(try store.zone())
        let written = try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.records(named: ["a"], in: zone)
        }
        #expect(written == ["a": saved])
    }

    @Test("a change keeps the values of the creation, and takes the others from the new record") func replacement()
        async throws
    {
        try await store.put([Draft("a", title: "milk", parent: "p")])
        var draft = Draft("a")
        (draft.author, draft.at) = (.bob, 7)
        try await store.put([draft])
        let record = try #require(try store.records(["a"])["a"])
        #expect(record.created.by == .alice && record.created.at == Timestamp(milliseconds: 1))
        #expect(record.modified.by == .bob && record.modified.at == Timestamp(milliseconds: 7))
        #expect(record.parent == nil && record.fields == FieldsJSON.empty)
    }

    @Test("records that do not exist are left out, and tombstones are returned") func missingRecords() async throws {
        try await store.save(["a", "b"])
        try await store.put([.deleted("b")])
        let found = try store.records(["a", "b", "c"])
        #expect(Set(found.keys) == ["a", "b"] && found["a"]?.isDeleted == false && found["b"]?.isDeleted == true)
        #expect(try store.records([]).isEmpty)
    }

    @Test("names that differ in case or spaces are different records") func names() async throws {
        let names = [
            "a", "A", "\u{E9}", "a ", " a", "a'b", "a\"b", "%", "_", "\\", String(repeating: "n", count: 255),
        ]
        try await store.save(names)
        #expect(try Set(store.records(names).keys) == Set(names))
        #expect(try store.feed() == names)
    }

    @Test("records of the same name in different zones are different") func zones() async throws {
        let other = ZoneID("Other", owner: .alice)
        try await store.makeZone(other)
        try await store.put([Draft("a", title: "one")])
        try await store.put([Draft("a", title: "two")], in: other)
        try await store.put([.deleted("a")])
        #expect(try store.records(["a"])["a"]?.isDeleted == true)
        #expect(try store.records(["a"], in: other)["a"]?.isDeleted == false)
    }

    @Test("fields that are not needed are not read") func lightRecords() async throws {
        let saved = try await store.put([Draft("a", title: "x")])[0]
        let zone = try #require(try store.zone())
        let light = try store.look { try $0.records(named: ["a"], in: zone, withFields: false)["a"] }
        #expect(light?.fields == FieldsJSON.empty)
        #expect(light?.change == saved.change && light?.created == saved.created)
    }

    @Test("a record of a megabyte is read back") func largeRecord() async throws {
        let saved = try await store.put([Draft("a", title: String(repeating: "x", count: 1 << 20))])[0]
        #expect(try store.records(["a"])["a"]?.fields == saved.fields && saved.fields.count > 1 << 20)
    }

    // MARK: Many records in one write

    private func save(_ records: [(name: String, text: String)], passesExisting: Bool = true) async throws {
        try await store.write(touching: .alice) { writer throws(RelayError) in
            guard let zone = try writer.zone(.notes) else { throw .zoneNotFound }
            let before = passesExisting ? try writer.records(named: records.map(\.name), in: zone) : [:]
            let stored = records.map { name, text in
                var draft = text.isEmpty ? Draft.deleted(name) : Draft(name, title: text)
                draft.parent = name.hasSuffix("5") ? "a parent" : nil
                return draft.record(writer.takeChangeNumber())
            }
            try writer.put(stored, replacing: before, in: zone, by: "phone")
        }
    }

    private func names(_ count: Int) -> [(name: String, text: String)] {
        (0..<count).map { ("record \($0)", String(repeating: "x", count: $0 + 1)) }
    }

    private func expect(_ records: [(name: String, text: String)]) throws {
        let found = try store.records(records.map(\.name))
        #expect(found.count == records.count)
        for (name, text) in records {
            let expected = text.isEmpty ? Draft(name) : Draft(name, title: text)
            #expect(found[name]?.fields == expected.record(1).fields && found[name]?.isDeleted == text.isEmpty)
        }
    }

    @Test("all records of one write are saved, in its order", arguments: [1, 9, 10, 11, 20, 25, 113])
    func manyRecords(count: Int) async throws {
        let records = names(count)
        try await save(records)
        try expect(records)
        #expect(try store.feed() == records.map(\.name))
    }

    @Test("changes and deletions between new records are saved") func mixedRecords() async throws {
        try await save([("old", "{}"), ("gone", "{}")])
        var records = names(40)
        records.insert(("gone", ""), at: 27)
        records.insert(("old", "new"), at: 13)
        try await save(records)
        try expect(records)
    }

    @Test("if the store cannot insert one record, it saves none of the write") func failedInsert() async throws {
        try await save([("record 17", "{}")])
        await #expect(throws: RelayError.self) { try await save(names(40), passesExisting: false) }
        #expect(try store.feed() == ["record 17"])
        try await save(names(40))
        #expect(try store.feed().count == 40)
    }
}

/// Writes: what they see, who hears of them, and what they may touch.
@Suite struct WriteTests {
    @Test("a write sees what it has written, and others only after the commit") func ownWrites() async throws {
        let store = try TestStore.current.makeHome().store()
        try await store.makeZone()
        let seen = try await store.write(touching: .alice) { writer throws(RelayError) in
            guard let zone = try writer.zone(.notes) else { throw .zoneNotFound }
            let record = Draft("a").record(writer.takeChangeNumber())
            try writer.put([record], replacing: [:], in: zone, by: "phone")
            let other = try writer.makeZone(ZoneID("Other", owner: .alice), by: "phone")
            return (
                try writer.records(named: ["a"], in: zone)["a"] == record,
                try writer.zone(.notes)?.lastChange == record.change, try writer.zone(other.id) == other,
                try writer.zoneCount(of: .alice)
            )
        }
        #expect(seen.0 && seen.1 && seen.2 && seen.3 == 2)
        #expect(try store.feed() == ["a"])
    }

    @Test("a refused write changes nothing and passes its error on") func refusal() async throws {
        let store = try TestStore.current.makeHome().store()
        try await store.makeZone()
        await #expect(throws: RelayError.zoneNotFound) {
            try await store.save(["x"], in: ZoneID("Nowhere", owner: .alice))
        }
        try await store.save(["y"])
        #expect(try store.feed() == ["y"])
    }

    @Test("many writers at once lose nothing, and each sees the writes before it") func concurrentWriters() async throws
    {
        let store = try TestStore.current.makeHome().store()
        try await store.makeZone()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<64 {
                group.addTask {
                    let saved = try await store.save(["n\(number)"])[0]
                    #expect(try store.records([saved.name])[saved.name] == saved, "the outcome is not durable")
                }
            }
            try await group.waitForAll()
        }
        #expect(try Set(store.feed()).count == 64)
    }

    /// Changes of bob's data.
    enum Change: CaseIterable {
        case makeZone, deleteZone, put, putSubscription, deleteSubscription, assignInvitations, addTransfer

        func run(in writer: any StoreWriter) throws(RelayError) {
            let id = WriteTests.theirs
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            switch self {
            case .makeZone: _ = try writer.makeZone(ZoneID("More", owner: .bob), by: "phone")
            case .deleteZone: try writer.deleteZone(zone, by: "phone")
            case .put:
                try writer.put([Draft("a").record(writer.takeChangeNumber())], replacing: [:], in: zone, by: "phone")
            case .putSubscription:
                try writer.put([Subscription(id: "new", kind: .database)], of: .bob, in: .private)
            case .deleteSubscription: try writer.deleteSubscriptions(ids: ["all"], of: .bob, in: .private)
            case .assignInvitations:
                let contact = Share.Contact.email("carol@example.org")
                try writer.assignInvitations(to: [contact], inZonesOf: .bob, to: .alice)
            case .addTransfer: try writer.addTransfer(1, in: CalendarMonth(of: Timestamp(milliseconds: 1)))
            }
        }
    }

    private static let theirs = ZoneID("Notes", owner: .bob)

    @Test(
        "only the write that touches an owner it does not name is refused",
        .disabled(if: TestStore.current.spreadsOwners, "a write does not see the data of owners on other databases"),
        arguments: Change.allCases
    )
    func foreignOwners(_ change: Change) async throws {
        let reports = Counter()
        var options = TestStoreOptions()
        options.foundForeignOwner = { _ in reports.add() }
        let store = try TestStore.current.makeHome().store(options)
        try await store.makeZone(Self.theirs)
        try await store.write(touching: .bob) { writer throws(RelayError) in
            try writer.put([Subscription(id: "all", kind: .database)], of: .bob, in: .private)
        }
        // The three may share a commit.
        let outcomes = await withTaskGroup(of: (String, RelayError?).self) { group in
            for name in ["A", "B", "C"] {
                group.addTask {
                    do throws(RelayError) {
                        try await store.write(touching: .alice) { writer throws(RelayError) in
                            _ = try writer.makeZone(ZoneID(name, owner: .alice), by: "phone")
                            if name == "B" { try change.run(in: writer) }
                        }
                        return (name, nil)
                    } catch {
                        return (name, error)
                    }
                }
            }
            return await group.reduce(into: [String: RelayError]()) { $0[$1.0] = $1.1 }
        }
        #expect(Array(outcomes.keys) == ["B"] && outcomes["B"]?.code == .internalError)
        #expect(reports.count == 1)
        try store.look { reader throws in
            #expect(try reader.liveZones(of: .alice).map(\.id.zoneName).sorted() == ["A", "C"])
            #expect(try reader.liveZones(of: .bob).map(\.id) == [Self.theirs])
            #expect(try reader.subscriptions(of: .bob, in: .private).map(\.id) == ["all"])
            #expect(try reader.transfer(in: CalendarMonth(of: Timestamp(milliseconds: 1))) == 0)
        }
        // The same change is allowed to a write that names the owner.
        try await store.write(touching: change == .addTransfer ? Zone.publicOwner : .bob) { writer throws(RelayError) in
            try change.run(in: writer)
        }
        #expect(reports.count == 1)
    }
}

/// What a store keeps of repeated and signed requests.
@Suite struct RepeatedRequestTests {
    private func store(keepingRecords count: Int = 65_536) throws -> any Store {
        var options = TestStoreOptions()
        options.idempotencyRecordLimit = count
        return try TestStore.current.makeHome().store(options)
    }

    private func keep(_ ids: some Sequence<Int> & Sendable, in store: any Store) async throws {
        try await store.write(touching: .alice) { writer throws(RelayError) in
            for id in ids {
                let done = IdempotencyRecord(fingerprint: UInt64(id), completedOperations: [1])
                try writer.keep(done, as: "w\(id)", by: .alice)
            }
        }
    }

    private func known(_ id: String, by user: UserID = .alice, in store: any Store) async throws -> IdempotencyRecord? {
        try await store.write(touching: user) { writer throws(RelayError) in try writer.idempotencyRecord(id, by: user)
        }
    }

    @Test("an outcome is found by user and operation ID") func lookup() async throws {
        let store = try store()
        try await keep(1...3, in: store)
        #expect(try await known("w2", in: store) == IdempotencyRecord(fingerprint: 2, completedOperations: [1]))
        #expect(try await known("w4", in: store) == nil)
        #expect(try await known("w2", by: .bob, in: store) == nil)
    }

    @Test("the same operation ID of two users has two outcomes") func users() async throws {
        let store = try store()
        try await keep(1...1, in: store)
        try await store.write(touching: .bob) { writer throws(RelayError) in
            try writer.keep(IdempotencyRecord(fingerprint: .max), as: "w1", by: .bob)
        }
        #expect(try await known("w1", in: store)?.fingerprint == 1)
        #expect(try await known("w1", by: .bob, in: store)?.fingerprint == .max)
    }

    @Test("a later outcome replaces an earlier one") func replacement() async throws {
        let store = try store()
        try await keep(1...1, in: store)
        let later = IdempotencyRecord(fingerprint: 1, completedOperations: [3, 0, 255])
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.keep(later, as: "w1", by: .alice)
        }
        #expect(try await known("w1", in: store) == later)
    }

    @Test("the newest outcomes are kept, and the oldest are evicted") func eviction() async throws {
        let store = try store(keepingRecords: 50)
        for id in 1...400 {
            try await keep(id...id, in: store)
            let oldest = max(1, id - 49)
            #expect(try await known("w\(oldest)", in: store) != nil, "\(oldest) after \(id)")
        }
        #expect(try await known("w1", in: store) == nil)
    }

    @Test("a refused write leaves no outcome") func refusals() async throws {
        let store = try store()
        await #expect(throws: RelayError.self) {
            try await store.write(touching: .alice) { writer throws(RelayError) in
                let zone = try writer.makeZone(.notes, by: "phone")
                try writer.keep(IdempotencyRecord(fingerprint: 1), as: "w1", by: .alice)
                // The store refuses a second zone of the name.
                _ = try writer.makeZone(zone.id, by: "phone")
            }
        }
        #expect(try await known("w1", in: store) == nil)
        #expect(try store.zone() == nil)
    }

    @Test("a signature can be used once; another one of the same time is another") func signatures() async throws {
        let store = try store()
        func use(_ fingerprint: UInt128, signed: Int64 = 1_000) async throws -> Bool {
            let signature = UsedSignature(
                fingerprint: fingerprint,
                signed: Timestamp(milliseconds: signed),
                oldest: Timestamp(milliseconds: 500)
            )
            return try await store.write(touching: .alice) { writer throws(RelayError) in try writer.keep(signature) }
        }
        #expect(try await use(1))
        #expect(try await !use(1))
        #expect(try await use(2))
        #expect(try await use(1, signed: 1_001))
        #expect(try await use(.max))
        #expect(try await !use(.max))
    }

    @Test("a signature is remembered for as long as it is valid, whatever is used meanwhile") func validSignatures()
        async throws
    {
        let store = try store()
        func use(_ number: Int64, now: Int64) async throws -> Bool {
            let signature = UsedSignature(
                fingerprint: UInt128(number),
                signed: Timestamp(milliseconds: number),
                oldest: Timestamp(milliseconds: now - 100)
            )
            return try await store.write(touching: .alice) { writer throws(RelayError) in try writer.keep(signature) }
        }
        for number in Int64(0)..<300 {
            #expect(try await use(number, now: number))
            #expect(try await !use(max(0, number - 99), now: number), "after \(number)")
        }
    }
}
