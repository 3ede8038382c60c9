import Foundation
import GRDB
import Observation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

private enum Mood: String, Codable { case happy, sad }

private enum LaterMood: String, Codable { case happy, sad, ecstatic }

private struct Place: Codable, Equatable { var street = "none" }

private struct LaterPlace: Codable, Equatable {
    var road = "none"
    var number = 0
}

private let homePage = URL(fileURLWithPath: "/")

private struct Entry: SyncedRecord {
    static let entityName = "Entry"
    var id = RecordName()
    var title = ""
    var mood = Mood.happy
    var former: Mood?
    var place = Place()
    var link = homePage
    var key: UUID?
    var small: Int8 = 1
    var count: UInt? = 7
    var ratio: Float = 0.5
    var words: [String] = ["none"]
    var on = false
}

/// The next version of `Entry`.
private struct LaterEntry: SyncedRecord {
    static let entityName = "Entry"
    var id = RecordName()
    var title = ""
    var mood = LaterMood.happy
    var former: LaterMood?
    var place = LaterPlace()
    var link = ""
    var key: String?
    var small = 1
    var count: Int?
    var ratio = 0.5
    var words: [String: Int] = [:]
    var on = false
}

/// A type with its own decoding code.
private struct Strict: SyncedRecord {
    static let entityName = "Strict"
    var id = RecordName()
    var title = ""
    var count = 0

    init() {}

    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        id = try values.decode(RecordName.self, forKey: .id)
        title = try values.decode(String.self, forKey: .title)
        count = try values.decode(Int.self, forKey: .count)
        guard count < 10 else { throw CancellationError() }
    }
}

private struct Price: SyncedRecord {
    struct Range: Codable {
        var least = Decimal(0)
        var most: [Decimal] = []
    }

    struct Percentage: Codable {
        var value = 0

        init(_ value: Int) { self.value = value }

        init(from decoder: any Decoder) throws {
            value = try decoder.singleValueContainer().decode(Int.self)
            guard value <= 100 else { throw CancellationError() }
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            try container.encode(value)
        }
    }

    var id = RecordName()
    var amount = Decimal(1)
    var former: Decimal?
    var range = Range()
    var reduction = Percentage(0)
}

/// A value that a property's type cannot read affects no other values, and is kept until it can be read.
@Suite(.timeLimit(.minutes(15))) struct UnreadableValueTests {
    private let relay: TestRelay
    private let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func device(_ name: String, _ type: any SyncedRecord.Type, kept: Bool = false) async throws -> Mirrored {
        try await Mirrored(
            relay.device(of: "alice", named: name),
            model: MirrorModel(type),
            folder: kept ? folder : nil
        )
    }

    private func isDefault(_ entry: Entry) -> Bool {
        entry.mood == .happy && entry.former == nil && entry.place == Place() && entry.link == homePage
            && entry.key == nil && entry.small == 1 && entry.count == 7 && entry.ratio == 0.5 && entry.words == ["none"]
    }

    private func isLater(_ entry: LaterEntry) -> Bool {
        entry.mood == .ecstatic && entry.former == .ecstatic && entry.place == LaterPlace(road: "Elm", number: 3)
            && entry.link == "http://[" && entry.key == "no UUID" && entry.small == 300 && entry.count == -1
            && entry.ratio == 1e300 && entry.words == ["a": 1]
    }

    @Test("values of a newer version show their defaults, survive edits, and appear once the version knows them")
    func valuesOfANewerVersionAreKept() async throws {
        let newer = try await device("newer", LaterEntry.self)
        var entry = LaterEntry(id: "e", title: "1", mood: .ecstatic, former: .ecstatic)
        entry.place = LaterPlace(road: "Elm", number: 3)
        (entry.link, entry.key, entry.small, entry.count) = ("http://[", "no UUID", 300, -1)
        (entry.ratio, entry.words) = (1e300, ["a": 1])
        let there = newer.context()
        try there.insert(entry)
        try there.insert(LaterEntry(id: "plain", title: "plain"))
        try there.save()
        try await newer.sync()

        let older = try await device("older", Entry.self, kept: true)
        try await older.sync()
        let here = older.context()
        let found = try here.fetch(Entry.self, sortedBy: .ascending(\.title))
        #expect(found.map(\.title) == ["1", "plain"])
        #expect(isDefault(try #require(found.first)))
        for (number, edit) in ["2", "3"].enumerated() {
            if number == 0 {
                try here.edit(Entry.self, "e") { $0.title = edit }
            } else {
                var entry = try #require(try here.object(Entry.self, "e"))
                (entry.title, entry.on) = (edit, true)
                try here.update(entry)
            }
            try here.save()
            try await older.sync()
            try await newer.sync()
            let kept = try #require(try newer.context().object(LaterEntry.self, "e"))
            #expect(kept.title == edit && isLater(kept))
        }
        #expect(try await older.container.pendingExportCount(older.store) == 0)

        // Setting one of the properties does not change the others.
        try here.edit(Entry.self, "e") { $0.mood = .sad }
        try here.save()
        for mirror in [older, newer] { try await mirror.sync() }
        try there.edit(LaterEntry.self, "e") { entry in
            #expect(entry.mood == .sad)
            entry.mood = .ecstatic
            #expect(isLater(entry))
        }
        try there.save()
        for mirror in [newer, older] { try await mirror.sync() }
        await older.container.close()
        let updated = try await device("older", LaterEntry.self, kept: true)
        let last = try #require(try updated.context().object(LaterEntry.self, "e"))
        #expect(last.title == "3" && isLater(last))
    }

    static let garbage = [
        ("mood", "x'00ff'"), ("mood", "'text'"), ("mood", "x'226563737461746963220a'"), ("mood", "3"),
        ("former", "x'7b'"), ("place", "CAST('{}' AS BLOB)"), ("place", "CAST('[1]' AS BLOB)"),
        ("link", "'http://['"), ("link", "''"), ("link", "x'ff'"), ("key", "'123'"), ("small", "300"),
        ("small", "'abc'"),
        ("small", "1.5"), ("count", "-1"), ("ratio", "1e300"), ("ratio", "x'00'"),
        ("words", "CAST('{\"a\":1}' AS BLOB)"),
        ("on", "'maybe'"), ("title", "x'fffe'"),
    ]

    @Test("an object with any column value written by plain SQL is readable, and the value is kept", arguments: garbage)
    func garbageInAColumnIsKept(_ property: String, _ literal: String) async throws {
        let phone = try await device("phone", Entry.self)
        let context = phone.context()
        for name in ["a", "b"] { try context.insert(Entry(id: RecordName(name), title: name)) }
        try context.save()
        try await phone.sync()
        let database = try #require(phone.container.database(of: phone.store))
        let value = "SELECT quote(\"\(property)\") FROM Entry WHERE id = 'a'"
        let before = try await database.write { db in
            try db.execute(sql: "UPDATE Entry SET \"\(property)\" = \(literal) WHERE id = 'a'")
            return try String.fetchOne(db, sql: value)
        }
        let events = phone.container.events
        let found = try phone.context().fetch(Entry.self, sortedBy: .ascending(\.id))
        #expect(found.map(\.id) == ["a", "b"] && found.allSatisfy(isDefault))
        for await event in events where event.kind == .notice && event.message?.contains(property) == true {
            #expect(!event.succeeded && "\(event.details)".contains("\"a\""))
            break
        }
        let edited = phone.context()
        try edited.edit(Entry.self, "a") { entry in if property == "on" { entry.small = 2 } else { entry.on = true } }
        try edited.save()
        #expect(try await database.read { try String.fetchOne($0, sql: value) } == before)
        let words = try await phone.container.explain(ObjectID(store: phone.store, entity: "Entry", name: "a"))
        #expect(words.reason.contains(property) && words.reason.hasSuffix(".") && words.next.hasSuffix("."), "\(words)")
        let others = try await phone.container.explain(ObjectID(store: phone.store, entity: "Entry", name: "b"))
        #expect(!others.reason.contains("cannot read"))
        try await phone.sync()
        #expect(try phone.context().fetch(Entry.self).count == 2)
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
    }

    @Test("values that another program writes to a record are kept on the relay")
    func anotherProgramsValuesAreKept() async throws {
        let phone = try await device("phone", Entry.self)
        let context = phone.context()
        try context.insert(Entry(id: "e", title: "1"))
        try context.save()
        try await phone.sync()
        let database = phone.device.privateDatabase
        let id = CKRecord.ID(recordName: "e", zoneID: .init(zoneName: "com.apple.coredata.cloudkit.zone"))
        let record = try await database.record(for: id)
        record["CD_mood"] = Data([0, 255])
        record["CD_small"] = 1_000
        record["CD_key"] = "not one"
        try await database.save(record)
        try await phone.sync()
        #expect(isDefault(try #require(try phone.context().object(Entry.self, "e"))))
        let edited = phone.context()
        try edited.edit(Entry.self, "e") { $0.title = "2" }
        try edited.save()
        try await phone.sync()
        let after = try await database.record(for: id)
        #expect(after["CD_title"] == "2" && after["CD_mood"] == Data([0, 255]))
        #expect(after["CD_small"] as? Int == 1_000 && after["CD_key"] == "not one")
    }

    @Test("an object that its type fails to decode has all defaults, and can be edited by property")
    func anObjectThatFailsToDecodeIsKept() async throws {
        let phone = try await device("phone", Strict.self)
        let database = try #require(phone.container.database(of: phone.store))
        try await database.write {
            try $0.execute(sql: "INSERT INTO Strict(id, title, count) VALUES ('a', 'A', 99), ('b', 'B', 1)")
        }
        let context = phone.context()
        #expect(try context.fetch(Strict.self, sortedBy: .ascending(\.id)).map(\.title) == ["", "B"])
        try context.edit(Strict.self, "a") { $0.title = "new" }
        try context.save()
        let row = try await database.read {
            try String.fetchOne($0, sql: "SELECT title || count FROM Strict WHERE id = 'a'")
        }
        #expect(row == "new99")
    }

    @Test("saving a value that could not be read again throws")
    func aValueThatCannotBeReadAgainIsRejected() async throws {
        let phone = try await device("phone", Price.self)
        let wrong: [(String, (inout Price) -> Void)] = [
            ("amount", { $0.amount = .nan }), ("former", { $0.former = .nan }), ("range", { $0.range.least = .nan }),
            ("range", { $0.range.most = [1, .nan] }), ("reduction", { $0.reduction = .init(101) }),
        ]
        let context = phone.context()
        try context.insert(Price(id: "kept"))
        try context.save()
        for (property, change) in wrong {
            var price = Price(id: "p")
            change(&price)
            let error = #expect(throws: MirrorError.self) {
                let context = phone.context()
                try context.insert(price)
                try context.save()
            }
            #expect(error?.explanation.contains("property \(property) ") == true, "\(error?.explanation ?? "no error")")
            #expect(throws: MirrorError.self) {
                try context.edit(Price.self, "kept", change)
                try context.save()
            }
        }
        #expect(try phone.context().fetch(Price.self).map(\.amount) == [1])
        try context.edit(Price.self, "kept") { ($0.amount, $0.reduction) = (Decimal(string: "0.1") ?? 0, .init(100)) }
        try context.save()
        #expect(try phone.context().fetch(Price.self).map(\.amount.description) == ["0.1"])
    }

    @Test("a stream of objects reports an error and continues when its cause is gone")
    func aStreamContinuesAfterAnError() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let database = try #require(phone.container.database(of: phone.store))
        try await database.write { try $0.execute(sql: "CREATE TABLE own(word); INSERT INTO own VALUES ('a')") }
        var stream = phone.context().objects(Note.self, .sql("title IN (SELECT word FROM own)")).makeAsyncIterator()
        #expect(await stream.next()?.isEmpty == true)
        let events = phone.container.events
        try await database.write { try $0.execute(sql: "ALTER TABLE own RENAME TO away") }
        try phone.save(Note(id: "a", title: "a"))
        for await event in events where event.kind == .notice && event.message?.contains("own") == true { break }
        try await database.write { try $0.execute(sql: "ALTER TABLE away RENAME TO own") }
        #expect(await stream.next()?.map(\.id) == ["a"])
        try phone.save(Note(id: "b", title: "a"))
        #expect(await stream.next()?.count == 2)
        await phone.container.close()
        #expect(await stream.next() == nil)
    }

    @MainActor @Test("live objects keep their results, report the error, and continue when its cause is gone")
    func liveObjectsContinueAfterAnError() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "a", title: "a"))
        let database = try #require(phone.container.database(of: phone.store))
        try await database.write { try $0.execute(sql: "CREATE TABLE own(word); INSERT INTO own VALUES ('a')") }
        let request = FetchRequest(Note.self, .sql("title IN (SELECT word FROM own)"))
        let live = LiveObjects(request, in: phone.context())
        #expect(live.objects.map(\.id) == ["a"] && live.error == nil)
        try await database.write { try $0.execute(sql: "ALTER TABLE own RENAME TO away") }
        phone.container.noticeOutsideCommits()
        while live.error == nil { await change(of: live) }
        #expect(live.objects.map(\.id) == ["a"] && live.error?.localizedDescription.contains("own") == true)
        let late = LiveObjects(request, in: phone.context())
        #expect(late.objects.isEmpty && late.error != nil)
        try await database.write { try $0.execute(sql: "ALTER TABLE away RENAME TO own") }
        // Without a notification, they retry automatically.
        for live in [live, late] {
            while live.error != nil { await change(of: live) }
            #expect(live.objects.map(\.id) == ["a"])
        }
    }

    /// Waits for the next change of the objects or the error.
    @MainActor private func change(of live: LiveObjects<Note>) async {
        await withCheckedContinuation { continuation in
            withObservationTracking {
                _ = (live.objects, live.error)
            } onChange: {
                continuation.resume()
            }
        }
    }

    @Test("the event for unreadable values names objects and property once")
    func unreadableValuesAreReportedOnce() async throws {
        let phone = try await device("phone", Entry.self)
        let context = phone.context()
        for name in ["a", "b", "c"] { try context.insert(Entry(id: RecordName(name))) }
        try context.save()
        let database = try #require(phone.container.database(of: phone.store))
        try await database.write { try $0.execute(sql: "UPDATE Entry SET mood = x'00', key = 'none' WHERE id <> 'c'") }
        let events = phone.container.events
        for _ in 0..<3 { _ = try phone.context().fetch(Entry.self, sortedBy: .ascending(\.id)) }
        try await database.write { try $0.execute(sql: "UPDATE Entry SET mood = x'01' WHERE id = 'c'") }
        _ = try phone.context().fetch(Entry.self)
        var reported: [MirrorEvent.Detail] = []
        for await event in events where event.kind == .notice {
            reported += event.details
            if reported.count == 3 { break }
        }
        #expect(
            Set(reported) == [
                .unreadable(entity: "Entry", property: "key", objects: ["a", "b"]),
                .unreadable(entity: "Entry", property: "mood", objects: ["a", "b"]),
                .unreadable(entity: "Entry", property: "mood", objects: ["c"]),
            ]
        )
        let object = ObjectID(store: phone.store, entity: "Entry", name: "a")
        #expect(try await phone.container.explain(object).unreadProperties == ["mood", "key"])
    }
}

/// A record whose values have more than one valid encoding.
private struct Recipe: SyncedRecord, Equatable {
    struct Details: Codable, Equatable, Sendable {
        var cook = ""
    }

    var id = RecordName()
    var title = ""
    var details = Details()
    var key: UUID?
    var weight: Float = 0

    init() {}
}

/// An edit changes only the properties that the program has changed.
///
/// See Sync.md, "Unknown records" and "Merging".
@Suite(.timeLimit(.minutes(15))) struct UntouchedTests {
    @Test func anotherEncodingOfAValueIsNotAChange() async throws {
        let relay = try TestRelay()
        let model = MirrorModel(Recipe.self)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), model: model)
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        try await raw.save(CKRecordZone(zoneID: zone))
        let record = CKRecord(recordType: "CD_Recipe", recordID: CKRecord.ID(recordName: "r", zoneID: zone))
        let details = Data(#"{"newer":1,"cook":"Ada"}"#.utf8)
        record["CD_entityName"] = "Recipe"
        record["CD_details"] = details
        record["CD_key"] = "8f0f2b6e-7f0a-4c55-9a0e-0a1b2c3d4e5f"
        record["CD_weight"] = 0.1
        try await raw.save(record)
        try await phone.container.fetchChanges()
        for change in [{ $0.title = "x" }, { $0.details.cook = "Bea" }] as [(inout Recipe) -> Void] {
            let context = phone.context()
            try context.edit(Recipe.self, "r", change)
            // The second edit in one context is based on the first.
            try context.edit(Recipe.self, "r") { $0.title += "y" }
            try context.save()
            try await phone.sync()
            let database = try #require(phone.container.database(of: phone.store))
            let (key, weight, kept) = try await database.read { db in
                (
                    try String.fetchOne(db, sql: "SELECT key FROM Recipe"),
                    try Double.fetchOne(db, sql: "SELECT weight FROM Recipe"),
                    try Data.fetchOne(db, sql: "SELECT details FROM Recipe")
                )
            }
            #expect(key == "8f0f2b6e-7f0a-4c55-9a0e-0a1b2c3d4e5f" && weight == 0.1)
            let title = try #require(try context.object(Recipe.self, "r")?.title)
            #expect(kept == (title == "xy" ? details : Data(#"{"cook":"Bea"}"#.utf8)))
        }
    }
}
