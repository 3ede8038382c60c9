import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A diary entry with encrypted properties.
struct Diary: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var secret = ""
    var mood: Int?

    init() {}

    init(id: RecordName = RecordName(), title: String, secret: String) {
        self.id = id
        self.title = title
        self.secret = secret
    }

    static func describe(_ entity: inout Entity) {
        entity.attribute("secret") { $0.isEncrypted = true }
        entity.attribute("mood") { $0.isEncrypted = true }
        entity.displayAttribute = "title"
    }
}

/// Values that are not stored directly in their records: encrypted values, and values too large for a record.
@Suite(.timeLimit(.minutes(15))) struct ValueTests {
    let relay: TestRelay
    static let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")

    init() throws { relay = try TestRelay() }

    func diary(_ name: String, _ passphrase: String? = "open sesame") async throws -> Mirrored {
        let key = passphrase.map { PassphraseEncryptionKey($0, cost: .light) }
        let device = relay.device(of: "alice", named: name, encryptionKey: key)
        return try await Mirrored(device, model: MirrorModel(Diary.self))
    }

    func save(_ entry: Diary, _ mirror: Mirrored) throws {
        let context = mirror.context()
        try context.insert(entry)
        try context.save()
    }

    // MARK: Encryption

    @Test func encryptedAttributesAreSentEncrypted() async throws {
        let (phone, laptop) = (try await diary("phone"), try await diary("laptop"))
        var entry = Diary(id: "d", title: "in clear", secret: "the treasure is in the garden")
        entry.mood = 7
        try save(entry, phone)
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.context().object(Diary.self, "d") == entry)
        // A device without the key sees that there are values, but cannot read them.
        let raw = relay.device(of: "alice", named: "raw")
        let record = try await raw.privateDatabase.record(for: CKRecord.ID(recordName: "d", zoneID: Self.home))
        #expect(record["CD_title"] == "in clear")
        #expect(record["CD_secret"] as String? == nil)
        #expect(record.encryptedValues.allKeys().sorted() == ["CD_mood", "CD_secret"])
        #expect(record.encryptedValues["CD_secret"] as String? == nil)
        // Edits on both devices are merged, and the mirrors do not store the key records.
        let (here, there) = (phone.context(), laptop.context())
        try here.edit(Diary.self, "d") { $0.secret = "moved to the cellar" }
        try there.edit(Diary.self, "d") { $0.mood = 3 }
        try here.save()
        try there.save()
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            let found = try mirror.context().object(Diary.self, "d")
            #expect(found?.secret == "moved to the cellar")
            #expect(found?.mood == 3)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
            let keys = try await mirror.container.database(of: mirror.store)?.read { db in
                try Int.fetchOne(db, sql: "SELECT count(*) FROM mirror_record WHERE type = 'ZonecastZoneKey'")
            }
            #expect(keys == 0)
        }
    }

    @Test func aDeviceWithoutTheKeyKeepsEncryptedValues() async throws {
        let (phone, withoutKey) = (try await diary("phone"), try await diary("other", "wrong"))
        try save(Diary(id: "d", title: "1", secret: "hidden"), phone)
        try await phone.sync()
        try await withoutKey.sync()
        #expect(try withoutKey.context().object(Diary.self, "d")?.secret == "")
        let events = try await withoutKey.container.events(of: withoutKey.store)
        #expect(events.contains { $0.details.contains(.keyMissing(zone: Self.home.zoneName)) })
        let context = withoutKey.context()
        try context.edit(Diary.self, "d") { $0.title = "2" }
        try context.save()
        try await withoutKey.sync()
        try await phone.sync()
        let found = try phone.context().object(Diary.self, "d")
        #expect(found?.title == "2")
        #expect(found?.secret == "hidden")
    }

    /// The network fails during the request for the key; the values must not count as unreadable.
    @Test func aKeyThatCouldNotBeFetchedIsFetchedAgain() async throws {
        let (phone, laptop) = (try await diary("phone"), try await diary("laptop"))
        try save(Diary(id: "d", title: "1", secret: "hidden"), phone)
        try await phone.sync()
        let network = laptop.device.network
        for number in 1...20 { network.fail(request: number, of: "records/lookup", by: .unreachable) }
        await #expect(throws: MirrorError.self) { try await laptop.container.fetchChanges() }
        network.failNothing()
        try await laptop.container.fetchChanges()
        #expect(try laptop.context().object(Diary.self, "d")?.secret == "hidden")
    }

    @Test func withoutAKeyValuesAreSentUnencrypted() async throws {
        let (phone, laptop) = (try await diary("phone", nil), try await diary("laptop", nil))
        try save(Diary(id: "d", title: "1", secret: "readable"), phone)
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.context().object(Diary.self, "d")?.secret == "readable")
    }

    /// Participants get the zone's key; values fetched before become readable when the key arrives.
    @Test func participantsCanReadEncryptedValues() async throws {
        let phone = try await diary("phone")
        try save(Diary(id: "d", title: "1", secret: "for two"), phone)
        try await phone.sync()
        let key = PassphraseEncryptionKey("bob's own", cost: .light)
        let device = relay.device(of: "bob@example.org", named: "pc", encryptionKey: key)
        let bob = try await SharedDiary(device)
        let id = try phone.context().objectID(of: try #require(try phone.context().object(Diary.self, "d")))
        let share = try await phone.container.share([id], title: "Ours").share
        share.addParticipant(emailAddress: "bob@example.org", permission: .readWrite)
        try await phone.container.persistUpdatedShare(share, in: phone.store)
        let link = try #require(share.url)
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        #expect(try bob.entry?.title == "1")
        // The owner's device notices the new participant and shares the key.
        try await phone.sync()
        try await bob.container.fetchChanges()
        #expect(try bob.entry?.secret == "for two")
        let context = bob.container.newBackgroundContext()
        try context.edit(Diary.self, "d") { $0.secret = "answered" }
        try context.save()
        try await bob.container.sendChanges()
        try await phone.sync()
        #expect(try phone.context().object(Diary.self, "d")?.secret == "answered")
        // After sharing stops, the entry is encrypted with the home zone's key.
        try await phone.container.stopSharing(share, in: phone.store)
        let laptop = try await diary("laptop")
        try await laptop.sync()
        #expect(try laptop.context().object(Diary.self, "d")?.secret == "answered")
    }

    // MARK: Large values

    func notes(_ name: String) async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: name)) }

    @Test func largeValuesAreStoredAsAssets() async throws {
        let (phone, laptop) = (try await notes("phone"), try await notes("laptop"))
        var note = Note(id: "n", title: "large")
        note.body = String(repeating: "Grüße ", count: 200_000)
        note.photo = Data((0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
        try phone.save(note)
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.context().object(Note.self, "n") == note)
        let id = CKRecord.ID(recordName: "n", zoneID: Self.home)
        let record = try await phone.device.privateDatabase.record(for: id)
        #expect(record["CD_body"] as String? == nil && record["CD_photo"] as Data? == nil)
        let file = try #require((record["CD_photo_ckAsset"] as? CKAsset)?.fileURL)
        #expect(try Data(contentsOf: file) == note.photo)
        #expect(record["CD_body_ckAsset"] is CKAsset)
        // Unchanged values are not transferred again in either direction.
        for mirror in [phone, laptop] { mirror.device.network.forgetOperations() }
        let context = laptop.context()
        try context.edit(Note.self, "n") { $0.title = "renamed" }
        try context.save()
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "n")?.title == "renamed")
        #expect(try phone.context().object(Note.self, "n")?.photo == note.photo)
        let operations = phone.device.network.operations + laptop.device.network.operations
        #expect(!operations.contains { $0.contains("assets/upload") })
        // The values become small again.
        try context.edit(Note.self, "n") { $0.body = "short" }
        try context.edit(Note.self, "n") { $0.photo = nil }
        try context.save()
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "n")?.body == "short")
        #expect(try phone.context().object(Note.self, "n")?.photo == nil)
        let small = try await phone.device.privateDatabase.record(for: id)
        #expect(small["CD_body"] == "short")
        #expect(small["CD_body_ckAsset"] == nil && small["CD_photo_ckAsset"] == nil)
        #expect(try await laptop.container.rejectedWrites(laptop.store).isEmpty)
    }

    /// A model with a new attribute or type gets its values also from assets.
    @Test(arguments: [CKDatabase.Scope.private, .public], [true, false])
    func aNewAttributeGetsValuesFromAssets(_ scope: CKDatabase.Scope, _ knowsType: Bool) async throws {
        let (small, full) = (Attribute("title", .string), Attribute("photo", .data))
        let model = MirrorModel(entities: [Entity("Picture", attributes: [small, full])])
        let device = relay.device(of: "alice", named: "phone")
        let phone = try await Mirrored(device, model: model, scope: scope)
        _ = try? await phone.container.fetchChanges()
        let photo = Data((0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 &* 41) })
        let database = try #require(phone.container.database(of: phone.store))
        try await database.write { db in
            let sql = "INSERT INTO Picture(id, title, photo) VALUES ('p', 'large', ?)"
            try db.execute(sql: sql, arguments: [photo])
        }
        try await phone.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        let folder = try TemporaryFolder()
        let before = MirrorModel(entities: [Entity(knowsType ? "Picture" : "Other", attributes: [small])])
        let tablet = relay.device(of: "alice", named: "tablet")
        let old = try await Mirrored(tablet, model: before, scope: scope, folder: folder)
        try await old.container.fetchChanges()
        await old.container.close()
        let new = try await Mirrored(tablet, model: model, scope: scope, folder: folder)
        if scope == .private, knowsType {
            // A record that the relay temporarily fails to read does not count as deleted.
            let body = #"{"records":[{"recordName":"p","serverErrorCode":"INTERNAL_ERROR","reason":"broken"}]}"#
            tablet.network.fail(request: 1, of: "records/lookup", by: .answered(status: 200, body: body))
            await #expect(throws: MirrorError.self) { try await new.container.fetchChanges() }
        }
        try await new.container.fetchChanges()
        let found = try #require(new.container.database(of: new.store))
        #expect(try await found.read { try String.fetchOne($0, sql: "SELECT title FROM Picture") } == "large")
        #expect(try await found.read { try Data.fetchOne($0, sql: "SELECT photo FROM Picture") } == photo)
        // This causes no sends and no repeated fetches.
        #expect(try await new.container.pendingExportCount(new.store) == 0)
        tablet.network.forgetOperations()
        try await new.container.fetchChanges()
        #expect(!tablet.network.operations.contains { $0.hasSuffix("records/lookup") })
    }

    /// With memory for one such value at a time, all are synced: in a first listing, in a later page, and in a new
    /// listing of known records; deleted records are removed.
    @Test(arguments: [CKDatabase.Scope.private, .public])
    func largeValuesAreFetchedOneByOne(_ scope: CKDatabase.Scope) async throws {
        var conditions = MirrorConditions()
        conditions.room = 1_200_000
        func device(_ name: String) async throws -> Mirrored {
            try await Mirrored(relay.device(of: "alice", named: name), scope: scope, conditions: conditions)
        }
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        for mirror in [phone, laptop] { _ = try? await mirror.container.fetchChanges() }
        var notes: [Note] = []
        for number in 0..<4 {
            var note = Note(id: RecordName("n\(number)"), title: "\(number)")
            if number != 1 { note.photo = Data(repeating: UInt8(number), count: 920_000) }
            notes.append(note)
        }
        for batch in [notes[..<3], notes[3...]] {
            for note in batch { try phone.save(note) }
            try await phone.container.sendChanges()
            relay.clock.advance(by: .seconds(60))
            try await laptop.container.fetchChanges()
        }
        // The device does not fetch its own values, and stores the record's metadata after each save.
        let context = phone.context()
        try context.edit(Note.self, "n0") { $0.stars = 5 }
        notes[0].stars = 5
        try context.save()
        try await phone.container.sendChanges()
        let seen = try await phone.container.database(of: phone.store)?.read { db in
            try String.fetchAll(db, sql: "SELECT name FROM mirror_record WHERE state = 'outdated'")
        }
        #expect(seen == [])
        try await phone.container.fetchChanges()
        #expect(!phone.device.network.operations.contains("asset/1/download"))
        relay.clock.advance(by: .seconds(60))
        try await laptop.container.fetchChanges()
        func all(_ mirror: Mirrored) throws -> [Note] {
            try mirror.context().fetch(Note.self, sortedBy: .ascending(\.title))
        }
        #expect(try all(laptop) == notes)
        try phone.delete("n1")
        try context.edit(Note.self, "n3") { $0.photo = Data(repeating: 9, count: 920_001) }
        try context.save()
        try await phone.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await laptop.container.forgetTokens(in: laptop.store)
        try await laptop.container.fetchChanges()
        // Deletions in a public database are not synced.
        #expect(try all(laptop).filter { scope == .private || $0.id != "n1" } == all(phone))
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
    }

    /// The record is not applied before its file is downloaded.
    @Test(arguments: [401, 408, 429, 503]) func aFailedDownloadIsRetried(_ status: Int) async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        var note = Note(id: "n", title: "large")
        note.photo = Data((0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 &* 43) })
        try phone.save(note)
        try await phone.sync()
        laptop.device.network.fail(request: 1, of: "asset/1/download", by: .answered(status: status, body: ""))
        await #expect(throws: MirrorError.self) { try await laptop.container.fetchChanges() }
        try await laptop.container.fetchChanges()
        #expect(try laptop.context().object(Note.self, "n") == note)
    }

    /// The mirror's own download does not replace the file of an asset that the program has fetched.
    @Test func assetFilesFetchedByTheProgramAreKept() async throws {
        let (phone, laptop) = (try await notes("phone"), try await notes("laptop"))
        var note = Note(id: "n", title: "large")
        note.photo = Data((0..<2_000_000).map { UInt8(truncatingIfNeeded: $0 &* 37) })
        try phone.save(note)
        try await phone.sync()
        let id = CKRecord.ID(recordName: "n", zoneID: Self.home)
        let record = try await laptop.device.privateDatabase.record(for: id)
        let file = try #require((record["CD_photo_ckAsset"] as? CKAsset)?.fileURL)
        try await laptop.sync()
        #expect(try laptop.context().object(Note.self, "n")?.photo == note.photo)
        #expect(try Data(contentsOf: file) == note.photo)
    }

    /// As Core Data writes it: if the field is empty, the value is in the asset.
    @Test func assetsOfOtherProgramsAreRead() async throws {
        let laptop = try await notes("laptop")
        let folder = try TemporaryFolder()
        let file = folder.url.appendingPathComponent("body")
        try Data("small, but in a file".utf8).write(to: file)
        let database = laptop.device.privateDatabase
        try await database.save(CKRecordZone(zoneID: Self.home))
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: "n", zoneID: Self.home))
        record["CD_entityName"] = "Note"
        record["CD_title"] = "theirs"
        record["CD_body_ckAsset"] = CKAsset(fileURL: file)
        try await database.save(record)
        try await laptop.sync()
        #expect(try laptop.context().object(Note.self, "n")?.body == "small, but in a file")
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
    }

    @Test func theLargestValuesBecomeAssetsFirst() {
        let sizes = ["a": 500, "b": 400, "c": 100]
        #expect(LargeValues.moved(out: sizes, total: 1_000, limit: 1_000).isEmpty)
        #expect(LargeValues.moved(out: sizes, total: 1_000, limit: 999) == ["a"])
        #expect(LargeValues.moved(out: sizes, total: 1_000, limit: 499) == ["a", "b"])
        #expect(LargeValues.moved(out: sizes, total: 1_000, limit: 0) == ["a", "b", "c"])
    }

    /// A change by another device that the sharing device has not fetched yet moves with the object.
    @Test func unfetchedChangesMoveWithTheirObject() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let phone = try await Mirrored(device, model: MirrorModel(Diary.self))
        try save(Diary(id: "d", title: "1", secret: ""), phone)
        try await phone.sync()
        let record = try await device.privateDatabase.record(for: CKRecord.ID(recordName: "d", zoneID: Self.home))
        record["CD_title"] = "2"
        try await device.privateDatabase.save(record)
        let id = try phone.context().objectID(of: try #require(try phone.context().object(Diary.self, "d")))
        let zone = try await phone.container.share([id], title: "Ours").share.recordID.zoneID
        try await phone.sync()
        #expect(try phone.context().object(Diary.self, "d")?.title == "2")
        let moved = try await device.privateDatabase.record(for: CKRecord.ID(recordName: "d", zoneID: zone))
        #expect(moved["CD_title"] == "2")
    }

    /// Records and fields of a newer program move with an object out of a share.
    @Test(arguments: [true, false]) func unknownRecordsAndFieldsMoveToo(_ relayMoves: Bool) async throws {
        var conditions = MirrorConditions()
        conditions.relayMoves = relayMoves
        let device = relay.device(of: "alice", named: "phone")
        let phone = try await Mirrored(device, model: MirrorModel(Diary.self), conditions: conditions)
        try save(Diary(id: "d", title: "1", secret: ""), phone)
        try await phone.sync()
        let id = try phone.context().objectID(of: try #require(try phone.context().object(Diary.self, "d")))
        let share = try await phone.container.share([id], title: "Ours").share
        let zone = share.recordID.zoneID
        let unknown = CKRecord(recordType: "CD_Newer", recordID: CKRecord.ID(recordName: "new", zoneID: zone))
        unknown["CD_text"] = "kept"
        try await device.privateDatabase.save(unknown)
        let record = try await device.privateDatabase.record(for: CKRecord.ID(recordName: "d", zoneID: zone))
        record["CD_newField"] = "kept too"
        try await device.privateDatabase.save(record)
        try await phone.sync()
        try await phone.container.stopSharing(share, in: phone.store)
        let back = try await device.privateDatabase.record(for: CKRecord.ID(recordName: "new", zoneID: Self.home))
        #expect(back["CD_text"] == "kept")
        let own = try await device.privateDatabase.record(for: CKRecord.ID(recordName: "d", zoneID: Self.home))
        #expect(own["CD_newField"] == "kept too")
        let zones = try await device.privateDatabase.allRecordZones().map(\.zoneID.zoneName)
        #expect(!zones.contains(zone.zoneName))
        let requests = device.network.operations.filter { $0 == "private/records/move" }
        #expect(requests.isEmpty == !relayMoves)
    }
}

/// A diary app with a private and a shared store.
final class SharedDiary: Sendable {
    let container: MirroredContainer
    let others: StoreID
    private let folder: TemporaryFolder

    init(_ device: TestDevice) async throws {
        folder = try TemporaryFolder()
        let own = StoreDescription(
            url: folder.url.appendingPathComponent("private.sqlite"),
            cloud: CloudOptions(container: device.container)
        )
        var shared = own
        shared.url = folder.url.appendingPathComponent("shared.sqlite")
        shared.cloud?.scope = .shared
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        container = MirroredContainer(model: MirrorModel(Diary.self), stores: [own, shared], conditions: conditions)
        others = container.store(at: shared.url)
        try await container.loadStores()
    }

    var entry: Diary? { get throws { try container.newBackgroundContext().object(Diary.self, "d") } }
}

private struct Gauge: SyncedRecord {
    var id = RecordName()
    var least = Double.infinity
    var most: Double?
    var count: UInt64 = 0
    var lowest: UInt64 = .max
    var former: UInt64?
    var width: CGFloat = 1
    var read = Date(timeIntervalSince1970: 0)
}

/// Numbers stored in records, and numbers that records cannot hold.
@Suite(.timeLimit(.minutes(15))) struct NumberTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func gauges(_ name: String) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name), model: MirrorModel(Gauge.self))
    }

    @Test func allKindsOfNumbersAreSynced() async throws {
        let (phone, laptop) = (try await gauges("phone"), try await gauges("laptop"))
        let read = Date(timeIntervalSince1970: 1_700_000_000)
        let gauge = Gauge(id: "g", least: 0.5, most: 7, count: UInt64(Int64.max), width: 2.5, read: read)
        try save(gauge, phone)
        try await phone.sync()
        try await laptop.sync()
        let found = try #require(try laptop.context().object(Gauge.self, "g"))
        #expect(found.least == 0.5 && found.most == 7 && found.count == UInt64(Int64.max))
        #expect(found.width == 2.5 && found.read == read)
        // A default that no field can hold is sent as a missing field.
        let context = laptop.context()
        try context.edit(Gauge.self, "g") { $0.least = .infinity }
        try context.save()
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try phone.context().object(Gauge.self, "g")?.least == .infinity)
    }

    @Test func aNumberThatNoRecordCanHoldIsRejected() async throws {
        let phone = try await gauges("phone")
        let wrong: [(Gauge, String)] = [
            (Gauge(id: "g", most: .infinity), "its property most is inf"),
            (Gauge(id: "g", least: .nan), "its property least is nan"),
            (Gauge(id: "g", count: .max), "its property count is 18446744073709551615"),
            (Gauge(id: "g", count: UInt64(Int64.max) + 1), "its property count is 9223372036854775808"),
            (Gauge(id: "g", former: .max), "its property former is 18446744073709551615"),
            (Gauge(id: "g", lowest: .max - 1), "its property lowest is 18446744073709551614"),
            (Gauge(id: "g", read: Date(timeIntervalSince1970: 1e17)), "its property read is a date out of range"),
            (Gauge(id: "g", read: Date(timeIntervalSince1970: -1e300)), "its property read is a date out of range"),
            (Gauge(id: "g", read: Date(timeIntervalSince1970: .nan)), "its property read is a date out of range"),
        ]
        for (gauge, words) in wrong {
            let error = #expect(throws: MirrorError.self) { try save(gauge, phone) }
            #expect(error?.explanation.contains(words) == true, "\(error?.explanation ?? "no error")")
        }
        #expect(try phone.context().object(Gauge.self, "g") == nil)
    }

    @Test("a default that no record can hold is read unchanged and omitted from records")
    func aDefaultThatNoRecordCanHoldIsKept() async throws {
        let (phone, laptop) = (try await gauges("phone"), try await gauges("laptop"))
        try save(Gauge(id: "g", most: 7), phone)
        for mirror in [phone, laptop] { try await mirror.sync() }
        let context = laptop.context()
        try context.edit(Gauge.self, "g") { $0.count = 3 }
        try context.save()
        for mirror in [laptop, phone] {
            try await mirror.sync()
            let found = try #require(try mirror.context().object(Gauge.self, "g"))
            #expect(found.lowest == .max && found.most == 7 && found.count == 3 && found.least == .infinity)
            let words = try await mirror.container.explain(.init(store: mirror.store, entity: "Gauge", name: "g"))
            #expect(!words.reason.contains("cannot read"))
        }
        try context.edit(Gauge.self, "g") { $0.lowest = UInt64(Int64.max) }
        try context.save()
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try phone.context().object(Gauge.self, "g")?.lowest == UInt64(Int64.max))
    }

    @Test("a condition compares with numbers that no column can hold")
    func conditionsCompareWithHugeNumbers() async throws {
        let phone = try await gauges("phone")
        try save(Gauge(id: "g", count: UInt64(Int64.max)), phone)
        let context = phone.context()
        #expect(try context.fetch(Gauge.self, \.count == UInt64.max).isEmpty)
        #expect(try context.fetch(Gauge.self, \.count == UInt64(Int64.max) + 1).isEmpty)
        #expect(try context.fetch(Gauge.self, \.count == UInt64(Int64.max)).count == 1)
        #expect(try context.fetch(Gauge.self, \.count < UInt64(Int64.max) + 1).count == 1)
        #expect(try context.fetch(Gauge.self, \.count >= UInt64.max).isEmpty)
    }

    private func save(_ gauge: Gauge, _ mirror: Mirrored) throws {
        let context = mirror.context()
        try context.insert(gauge)
        try context.save()
    }
}

private struct Appointment: SyncedRecord {
    var id = RecordName()
    var title = ""
    var at = Date(timeIntervalSince1970: 0)
    var end: Date?
    var secret: Date?
    var others: [Date] = []

    static func describe(_ entity: inout Entity) {
        entity.attribute("secret") { $0.isEncrypted = true }
    }
}

/// Dates are read back exactly as they were saved.
@Suite(.timeLimit(.minutes(15))) struct DateTests {
    private let relay: TestRelay
    private let phone: Mirrored
    private let laptop: Mirrored

    init() async throws {
        relay = try TestRelay()
        let key = PassphraseEncryptionKey("open sesame", cost: .light)
        let model = MirrorModel(Appointment.self)
        phone = try await Mirrored(relay.device(of: "alice", named: "phone", encryptionKey: key), model: model)
        laptop = try await Mirrored(relay.device(of: "alice", named: "laptop", encryptionKey: key), model: model)
    }

    /// Dates of many magnitudes that are exact in seconds since 1970, in seconds since 2001, or in neither.
    static let dates: [Date] = [
        Date(timeIntervalSinceReferenceDate: 0.1), Date(timeIntervalSinceReferenceDate: 712_345_678.123_456_7),
        Date(timeIntervalSinceReferenceDate: (712_345_678.123_456_7).nextUp), Date(timeIntervalSince1970: 0.1),
        Date(timeIntervalSince1970: 1_700_000_000.123), Date(timeIntervalSince1970: 1_700_000_000.123_456_789),
        Date(timeIntervalSince1970: -1_234_567_890.5), Date(timeIntervalSinceReferenceDate: -1e-9),
        Date(timeIntervalSinceReferenceDate: 1 / 3), Date(timeIntervalSinceReferenceDate: 978_307_200 / 7),
        .distantPast, .distantFuture, Date(timeIntervalSince1970: 9.2e15), Date(timeIntervalSinceReferenceDate: 1e-300),
    ]

    private func appointment(_ mirror: Mirrored, _ id: RecordName = "a") throws -> Appointment {
        try #require(try mirror.context().object(Appointment.self, id))
    }

    private func edit(_ mirror: Mirrored, _ change: (inout Appointment) -> Void) throws {
        let context = mirror.context()
        try context.edit(Appointment.self, "a", change)
        try context.save()
    }

    private func expect(_ date: Date, _ mirror: Mirrored, _ line: Int = #line) throws {
        let found = try appointment(mirror)
        let dates = [found.at, found.end, found.secret] + found.others
        #expect(dates == [date, date, date, date], "line \(line)")
    }

    @Test("a date is equal on every device, also after edits of other properties", arguments: dates)
    func aDateIsEqualEverywhere(_ date: Date) async throws {
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: date, end: date, secret: date, others: [date]))
        try context.save()
        try expect(date, phone)
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] { try expect(date, mirror) }
        for (mirror, other) in [(laptop, phone), (phone, laptop)] {
            try edit(mirror) { $0.title += "." }
            try expect(date, mirror)
            for device in [mirror, other] { try await device.sync() }
            for device in [mirror, other] { try expect(date, device) }
        }
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let record = try await phone.device.privateDatabase.record(for: .init(recordName: "a", zoneID: zone))
        #expect(record["CD_at"] == date)
        record["CD_title"] = "by CloudKit's API"
        try await phone.device.privateDatabase.save(record)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            try expect(date, mirror)
            #expect(try appointment(mirror).title == "by CloudKit's API")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        let fresh = try await Mirrored(phone.device, model: MirrorModel(Appointment.self))
        try await fresh.container.fetchChanges()
        try expect(date, fresh)
        #expect(try phone.context().fetch(Appointment.self, \.at == date).count == 1)
    }

    @Test("a change of less than a millisecond is synced, and so is its reversal")
    func theSmallestChangeIsSynced() async throws {
        let first = Date(timeIntervalSinceReferenceDate: 712_345_678.123_456_7)
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: first))
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        let seconds = first.timeIntervalSinceReferenceDate
        let next = [seconds.nextUp, seconds.nextDown, seconds + 0.000_3, seconds].map(
            Date.init(timeIntervalSinceReferenceDate:)
        )
        for date in next + [Date(timeIntervalSince1970: first.timeIntervalSince1970), first] {
            try edit(phone) { $0.at = date }
            #expect(try appointment(phone).at == date)
            for mirror in [phone, laptop] { try await mirror.sync() }
            for mirror in [phone, laptop] { #expect(try appointment(mirror).at == date) }
        }
    }

    @Test("plain SQL reads and writes seconds since 1970")
    func plainSQLUsesSeconds() async throws {
        let date = Date(timeIntervalSinceReferenceDate: 712_345_678.123_456_7)
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: date, end: date))
        try context.save()
        let database = try #require(phone.container.database(of: phone.store))
        let seconds = try await database.read { db in
            try Double.fetchAll(
                db,
                sql: #"SELECT at FROM Appointment WHERE typeof(at) = 'real' UNION ALL SELECT "end" FROM Appointment"#
            )
        }
        #expect(seconds == [date.timeIntervalSince1970, date.timeIntervalSince1970])
        try await phone.sync()
        try await database.write { try $0.execute(sql: "UPDATE Appointment SET at = at + 60, title = 'later'") }
        let later = Date(timeIntervalSince1970: date.timeIntervalSince1970 + 60)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try appointment(mirror).at == later && appointment(mirror).end == date)
        }
        try await database.write { try $0.execute(sql: "REPLACE INTO Appointment SELECT * FROM Appointment") }
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try appointment(phone).end == date)
        try await database.write { try $0.execute(sql: #"UPDATE Appointment SET at = 0.1, "end" = NULL"#) }
        for mirror in [phone, laptop, phone] {
            try await mirror.sync()
            #expect(abs(try appointment(mirror).at.timeIntervalSince1970 - 0.1) < 1e-6)
            #expect(try appointment(mirror).end == nil)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    @Test("a merge keeps the exact date of the winning side", arguments: [true, false])
    func aMergeKeepsTheExactDate(_ mineWins: Bool) async throws {
        let model = MirrorModel(Appointment.self)
        let merging = try await Mirrored(relay.device(of: "alice", named: "tablet"), model: model) { description in
            description.cloud?.propertyResolvers["Appointment.at"] = { _, mine, theirs in
                let isReal = Double.fromDatabaseValue(mine) != nil && Double.fromDatabaseValue(theirs) != nil
                return isReal ? (mineWins ? mine : theirs) : nil
            }
        }
        let (first, mine, theirs) = (Self.dates[1], Self.dates[9], Self.dates[8])
        let context = phone.context()
        try context.insert(Appointment(id: "a", at: first))
        try context.save()
        for mirror in [phone, merging] { try await mirror.sync() }
        try edit(merging) { $0.at = mine }
        try edit(phone) { $0.at = theirs }
        for mirror in [phone, merging, phone] { try await mirror.sync() }
        for mirror in [phone, merging] { #expect(try appointment(mirror).at == (mineWins ? mine : theirs)) }
    }
}
