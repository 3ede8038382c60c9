import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

private struct Tally: SyncedRecord {
    static let entityName = "Tally"
    var id = RecordName()
    var stars = 0
    var body: String?
    init() {}
}

/// The next version of `Tally`.
private struct LaterTally: SyncedRecord {
    static let entityName = "Tally"
    var id = RecordName()
    var stars: Int?
    var body = ""
    init() {}
}

/// Changed models, and several models for one file.
///
/// See FromCoreData.md, "Models change", and Sync.md, "Unknown records".
@Suite(.timeLimit(.minutes(15))) struct ModelChangeTests {
    let relay: TestRelay
    let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func device(_ name: String, _ model: MirrorModel, kept: Bool = false) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name), model: model, folder: kept ? folder : nil)
    }

    // MARK: Other containers

    /// A widget opens the app's file with a smaller model; the changes of both are sent.
    @Test(arguments: [[Note.self, Folder.self, Tag.self], [Tally.self]] as [[any SyncedRecord.Type]])
    func aWidgetKeepsTheAppsPendingChanges(_ types: [any SyncedRecord.Type]) async throws {
        let app = try await device("app", MirrorModel(Note.self, Folder.self, Tag.self, Tally.self), kept: true)
        let entities = types.compactMap { MirrorModel($0).entities.values.first }
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let url = folder.url.appendingPathComponent("private.sqlite")
        let widget = MirroredContainer(
            model: MirrorModel(entities: entities),
            stores: [StoreDescription(url: url)],
            conditions: conditions
        )
        try await widget.loadStores()
        try app.save(Note(id: "n", title: "by the app"))
        let context = widget.newBackgroundContext()
        if types.count == 1 {
            try context.insert(Tally())
        } else {
            try context.insert(Note(id: "w", title: "by the widget"))
        }
        try context.save()
        #expect(try await app.container.pendingExportCount(app.store) == 2)
        try await app.sync()
        let other = try await device("other", notesModel)
        try await other.sync()
        #expect(try other.titles["n"] == "by the app")
        #expect(try other.titles["w"] == (types.count == 1 ? nil : "by the widget"))
        await widget.close()
        await app.container.close()
    }

    // MARK: Optional or not

    @Test func aPropertyCanBecomeOptionalOrNonOptional() async throws {
        let before = try await device("phone", MirrorModel(Tally.self), kept: true)
        var tally = Tally()
        (tally.id, tally.stars) = ("t", 3)
        let context = before.context()
        try context.insert(tally)
        try context.save()
        try await before.sync()
        await before.container.close()
        let phone = try await device("phone", MirrorModel(LaterTally.self), kept: true)
        let laptop = try await device("laptop", MirrorModel(LaterTally.self))
        try await laptop.sync()
        let there = laptop.context()
        // NULL values of the former version are read as the default.
        #expect(try phone.context().fetch(LaterTally.self).map(\.body) == [""])
        #expect(try phone.context().fetch(LaterTally.self, .sql("body = ''")).count == 1)
        try there.edit(LaterTally.self, "t") { $0.stars = nil }
        try there.save()
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().fetch(LaterTally.self).map(\.stars) == [nil])
        await phone.container.close()
        // Back to the former version.
        let after = try await device("phone", MirrorModel(Tally.self), kept: true)
        #expect(try after.context().fetch(Tally.self).map(\.stars) == [0])
    }

    // MARK: Other types

    private static let linkEntity: Entity = {
        var entity = Entity("Tally", attributes: [Attribute("stars", .integer)])
        entity.relationships = [
            Relationship("body", to: "Tally", isToMany: false, inverse: "bodies"),
            Relationship("bodies", to: "Tally", isToMany: true, inverse: "body"),
        ]
        return entity
    }()

    static let changedTypes: [(Entity, String)] = [
        (Entity("Tally", attributes: [Attribute("stars", .string), Attribute("body", .string)]), "Tally.stars"),
        (Entity("Tally", attributes: [Attribute("stars", .double)]), "Tally.stars"),
        (Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .data)]), "Tally.body"),
        (Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .date)]), "Tally.body"),
        (Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .integer)]), "Tally.body"),
        (linkEntity, "Tally.body"),
    ]

    @Test(
        "loading a store throws if the type of a property has changed",
        arguments: changedTypes,
        [true, false]
    )
    func aChangedTypeIsRefused(_ change: (entity: Entity, place: String), _ isMirrored: Bool) async throws {
        let url = folder.url.appendingPathComponent("private.sqlite")
        let device = relay.device(of: "alice", named: "phone")
        func container(_ model: MirrorModel) -> MirroredContainer {
            let cloud = isMirrored ? CloudOptions(container: device.container) : nil
            var conditions = MirrorConditions()
            conditions.isAutomatic = false
            let store = StoreDescription(url: url, cloud: cloud)
            return MirroredContainer(model: model, stores: [store], conditions: conditions)
        }
        let before = container(MirrorModel(Tally.self))
        try await before.loadStores()
        let context = before.newBackgroundContext()
        try context.insert(Tally())
        try context.save()
        await before.close()
        let after = container(MirrorModel(entities: [change.entity]))
        let error = await #expect(throws: MirrorError.self) { try await after.loadStores() }
        #expect(
            error?.localizedDescription.contains(change.place) == true,
            "\(error?.localizedDescription ?? "no error")"
        )
        await after.close()
        // The file is unchanged.
        let again = container(MirrorModel(LaterTally.self))
        try await again.loadStores()
        #expect(try again.newBackgroundContext().fetch(LaterTally.self).map(\.stars) == [0])
        await again.close()
    }

    @Test("a type may change to another with the same type on the relay")
    func aTypeWithTheSameRelayTypeIsAccepted() async throws {
        let types: [[AttributeType]] = [
            [.integer, .string, .data], [.boolean, .uri, .transformable], [.integer, .uuid, .data],
        ]
        for types in types {
            let attributes = zip(["a", "b", "c"], types).map { Attribute($0, $1) }
            let phone = try await device(
                "phone",
                MirrorModel(entities: [Entity("Form", attributes: attributes)]),
                kept: true
            )
            await phone.container.close()
        }
    }

    // MARK: Removed and added again

    /// A property was removed from the model for a while, so its stored value is outdated.
    @Test func aPropertyAddedAgainHasTheRelaysValue() async throws {
        let whole = Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .string)])
        let less = Entity("Tally", attributes: [Attribute("stars", .integer)])
        let laptop = try await device("laptop", MirrorModel(Tally.self))
        var tally = Tally()
        (tally.id, tally.body) = ("t", "old")
        let there = laptop.context()
        try there.insert(tally)
        try there.save()
        try await laptop.sync()
        for (entity, body) in [(whole, "new"), (less, "newest"), (whole, nil)] as [(Entity, String?)] {
            let phone = try await device("phone", MirrorModel(entities: [entity]), kept: true)
            if body == nil {
                let database = try #require(phone.container.database(of: phone.store))
                try await database.write { try $0.execute(sql: "UPDATE Tally SET stars = 5") }
            }
            try await phone.sync()
            await phone.container.close()
            guard let body else { break }
            try there.edit(Tally.self, "t") { $0.body = body }
            try there.save()
            try await laptop.sync()
            let again = try await device("phone", MirrorModel(entities: [entity]), kept: true)
            try await again.sync()
            await again.container.close()
        }
        try await laptop.sync()
        let found = try #require(try laptop.context().object(Tally.self, "t"))
        #expect(found.stars == 5 && found.body == "newest")
    }

    /// An entity was removed for a while: deletions and changes made meanwhile apply, and a pending change is merged.
    @Test func anEntityAddedAgainHasTheRelaysObjects() async throws {
        let both = MirrorModel(Note.self, Folder.self, Tag.self, Tally.self)
        let laptop = try await device("laptop", both)
        let there = laptop.context()
        for name in ["gone", "changed", "waiting"] {
            var tally = Tally()
            (tally.id, tally.body) = (RecordName(name), "old")
            try there.insert(tally)
        }
        try there.save()
        try await laptop.sync()
        let before = try await device("phone", both, kept: true)
        try await before.sync()
        let here = before.context()
        try here.edit(Tally.self, "waiting") { $0.stars = 7 }
        try here.save()
        await before.container.close()
        let without = try await device("phone", notesModel, kept: true)
        try there.delete(Tally.self, id: "gone")
        for name in ["changed", "waiting"] as [RecordName] { try there.edit(Tally.self, name) { $0.body = "new" } }
        try there.save()
        try await laptop.sync()
        try await without.container.fetchChanges()
        await without.container.close()
        let after = try await device("phone", both, kept: true)
        try await after.container.fetchChanges()
        try await after.sync()
        try await laptop.sync()
        for mirror in [after, laptop] {
            let tallies = try mirror.context().fetch(Tally.self)
            #expect(tallies.map(\.id) == ["changed", "waiting"])
            #expect(tallies.map(\.body) == ["new", "new"] && tallies.map(\.stars) == [0, 7])
        }
    }
}

/// An entity unknown to the older version, with an encrypted property.
struct Keepsake: SyncedRecord, Equatable {
    var id = RecordName()
    var word = ""
    var whisper = ""

    static func describe(_ entity: inout Entity) {
        entity.attribute("whisper") { $0.isEncrypted = true }
    }
}

/// An older version of the app preserves data that a newer version has written.
@Suite(.timeLimit(.minutes(15))) struct NewerModelTests {
    let relay: TestRelay
    static let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
    /// The diary model before it had encrypted properties.
    static let old = MirrorModel(entities: [
        Entity("Diary", attributes: [Attribute("title", .string, isOptional: false, hasDefault: true)])
    ])

    init() throws { relay = try TestRelay() }

    func device(_ name: String, _ passphrase: String? = "open sesame") -> TestDevice {
        let key = passphrase.map { PassphraseEncryptionKey($0, cost: .light) }
        return relay.device(of: "alice", named: name, encryptionKey: key)
    }

    /// Writes data with the newer version, closes it, and returns a mirror with the older version that has fetched the
    /// data.
    func seen(_ passphrase: String? = "open sesame") async throws -> (Mirrored, TemporaryFolder) {
        let newer = try await Mirrored(device("newer", passphrase), model: MirrorModel(Diary.self, Keepsake.self))
        let context = newer.context()
        var entry = Diary(id: "d", title: "1", secret: "in the garden")
        entry.mood = 7
        try context.insert(entry)
        try context.insert(Keepsake(word: "kept", whisper: "sealed"))
        try context.save()
        try await newer.sync()
        await newer.container.close()
        let record = try await newer.device.privateDatabase.record(for: .init(recordName: "d", zoneID: Self.home))
        record["CD_plain"] = "kept too"
        try await newer.device.privateDatabase.save(record)
        let folder = try TemporaryFolder()
        let older = try await Mirrored(device("older", passphrase), model: Self.old, folder: folder)
        try await older.sync()
        return (older, folder)
    }

    func edit(_ mirror: Mirrored, _ title: String) async throws {
        let database = try #require(mirror.container.database(of: mirror.store))
        try await database.write { try $0.execute(sql: "UPDATE Diary SET title = ?", arguments: [title]) }
    }

    /// Checks the complete content on a device with the newer version.
    func expectAll(_ mirror: Mirrored, title: String) async throws {
        let found = try mirror.context().object(Diary.self, "d")
        #expect(found?.title == title)
        #expect(found?.secret == "in the garden")
        #expect(found?.mood == 7)
        #expect(try mirror.context().fetch(Keepsake.self).map { [$0.word, $0.whisper] } == [["kept", "sealed"]])
        #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        let record = try await mirror.device.privateDatabase.record(for: .init(recordName: "d", zoneID: Self.home))
        #expect(record["CD_plain"] == "kept too")
    }

    @Test(arguments: ["open sesame", nil])
    func anEditKeepsUnknownAndEncryptedValues(_ passphrase: String?) async throws {
        let (older, folder) = try await seen(passphrase)
        try await edit(older, "2")
        try await older.sync()
        await older.container.close()
        let updated = try await Mirrored(older.device, model: MirrorModel(Diary.self, Keepsake.self), folder: folder)
        try await expectAll(updated, title: "2")
        let context = updated.context()
        try context.edit(Diary.self, "d") { $0.title = "3" }
        try context.save()
        try await updated.sync()
        try await expectAll(updated, title: "3")
        let fresh = try await Mirrored(device("fresh", passphrase), model: MirrorModel(Diary.self, Keepsake.self))
        try await fresh.sync()
        try await expectAll(fresh, title: "3")
    }

    /// The encryption key is lost, and the only remaining device has the older version.
    @Test(arguments: ["open sesame", nil]) func aResetSendsUnknownValuesAgain(_ passphrase: String?) async throws {
        let (older, folder) = try await seen(passphrase)
        try await older.container.resetEncryptedData(in: older.store)
        try await older.sync()
        #expect(try await older.container.rejectedWrites(older.store).isEmpty)
        let fresh = try await Mirrored(device("fresh", passphrase), model: MirrorModel(Diary.self, Keepsake.self))
        try await fresh.sync()
        try await expectAll(fresh, title: "1")
        await older.container.close()
        let updated = try await Mirrored(older.device, model: MirrorModel(Diary.self, Keepsake.self), folder: folder)
        try await updated.sync()
        try await expectAll(updated, title: "1")
    }

    /// An object deleted on another device and edited locally is recreated with all of its values.
    @Test(arguments: ["open sesame", nil]) func aRecreatedObjectKeepsUnknownValues(_ passphrase: String?) async throws {
        let (older, _) = try await seen(passphrase)
        try await older.device.privateDatabase.deleteRecord(withID: .init(recordName: "d", zoneID: Self.home))
        try await edit(older, "2")
        for _ in 0..<2 { try await older.sync() }
        let fresh = try await Mirrored(device("fresh", passphrase), model: MirrorModel(Diary.self, Keepsake.self))
        try await fresh.sync()
        try await expectAll(fresh, title: "2")
    }

    /// A shared zone has its own key, whether the relay or the device moves the object.
    @Test(arguments: [true, false]) func sharingKeepsUnknownValues(_ relayMoves: Bool) async throws {
        let (older, folder) = try await seen()
        await older.container.close()
        var conditions = MirrorConditions()
        conditions.relayMoves = relayMoves
        let again = try await Mirrored(older.device, model: Self.old, folder: folder, conditions: conditions)
        let id = ObjectID(store: again.store, entity: "Diary", name: "d")
        let share = try await again.container.share([id], title: "Ours").share
        try await again.sync()
        let fresh = try await Mirrored(device("fresh"), model: MirrorModel(Diary.self, Keepsake.self))
        try await fresh.sync()
        let found = try fresh.context().object(Diary.self, "d")
        #expect(found?.secret == "in the garden")
        #expect(found?.mood == 7)
        #expect(try await again.container.rejectedWrites(again.store).isEmpty)
        try await again.container.stopSharing(share, in: again.store)
        try await again.sync()
        try await fresh.sync()
        try await expectAll(fresh, title: "1")
    }

    /// The program ends after the relay has moved an object and before it stores the response; values encrypted with
    /// the former zone's key are kept.
    @Test(arguments: [true, false]) func anInterruptedMoveKeepsEncryptedValues(_ isEnding: Bool) async throws {
        let (model, folder) = (MirrorModel(Diary.self), try TemporaryFolder())
        let device = device("phone")
        var conditions = MirrorConditions()
        let phone = try await Mirrored(device, model: model, folder: folder)
        let laptop = try await Mirrored(self.device("laptop"), model: model)
        let context = phone.context()
        try context.insert(Diary(id: "d", title: "1", secret: "in the garden"))
        try context.save()
        try await phone.sync()
        let id = ObjectID(store: phone.store, entity: "Diary", name: "d")
        let share = isEnding ? try await phone.container.share([id], title: "Ours").share : nil
        try await phone.sync()
        try await laptop.sync()
        await phone.container.close()
        conditions.crashPoint = { if $0 == .afterRelayMove { throw CancellationError() } }
        let cut = try await Mirrored(device, model: model, folder: folder, conditions: conditions)
        await #expect(throws: MirrorError.self) {
            if let share {
                try await cut.container.stopSharing(share, in: cut.store)
            } else {
                _ = try await cut.container.share([id], title: "Ours")
            }
        }
        await cut.container.close()
        try await laptop.sync()
        #expect(try laptop.context().object(Diary.self, "d")?.secret == "in the garden")
        let again = try await Mirrored(device, model: model, folder: folder)
        for mirror in [again, laptop, again] { try await mirror.sync() }
        let fresh = try await Mirrored(self.device("fresh"), model: model)
        try await fresh.sync()
        for mirror in [again, laptop, fresh] {
            #expect(try mirror.context().object(Diary.self, "d")?.secret == "in the garden")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }
}
