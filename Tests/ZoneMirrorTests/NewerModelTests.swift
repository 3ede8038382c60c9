import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
