import Foundation
import GRDB
import Records
import Testing
import Wire
import ZoneKit
import ZoneMirror
import ZoneTesting

/// History, pinned reads, states and explanations.
@Suite(.timeLimit(.minutes(15))) struct StateTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    func device(_ name: String) async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: name)) }

    @Test func historyTellsWhoChangedWhat() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        let context = phone.context()
        context.transactionAuthor = "app"
        try context.insert(Note(id: "n", title: "a"))
        try context.save()
        let token = try await phone.container.currentHistoryToken()
        try context.edit(Note.self, "n") { ($0.title, $0.stars) = ("b", 2) }
        try context.save()
        try context.delete(Note.self, id: "n")
        try context.save()
        let history = try await phone.container.history(after: token)
        #expect(history.map(\.author) == ["app", "app"])
        #expect(history.flatMap(\.changes).map(\.kind) == [.update, .delete])
        #expect(history.first?.changes.first?.updatedProperties == ["title", "stars"])
        #expect(history.last?.changes.first?.preservedValues == ["title": "b"])
        // An import has an author of its own, plain SQL none.
        try phone.save(Note(id: "m", title: "x"))
        try await phone.sync()
        try await laptop.sync()
        let imported = try await laptop.container.history(author: MirroredContainer.importAuthor)
        #expect(imported.flatMap(\.changes).map(\.object.name) == ["m"])
        let database = try #require(laptop.container.database(of: laptop.store))
        let end = try await laptop.container.currentHistoryToken()
        try await database.write { try $0.execute(sql: "UPDATE Note SET done = 1") }
        let plain = try await laptop.container.history(after: end)
        #expect(plain.map(\.author) == [nil])
        // Forgetting the history forgets nothing that is to be sent.
        try await laptop.container.deleteHistory(before: try await laptop.container.currentHistoryToken())
        #expect(try await laptop.container.history().count <= 1)
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "m")?.done == true)
    }

    @Test func aPinnedContextSeesOneMoment() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"), Note(id: "gone", title: "2"))
        try await phone.sync()
        try await laptop.sync()
        let context = laptop.context()
        context.setQueryGeneration(.current)
        // The moment is that of the first read.
        #expect(try context.fetch(Note.self).count == 2)
        let there = phone.context()
        try there.delete(Note.self, id: "gone")
        try there.insert(Note(id: "b", title: "3"))
        try there.save()
        try await phone.sync()
        try await laptop.sync()
        #expect(try context.fetch(Note.self).map(\.id) == ["a", "gone"])
        #expect(try context.object(Note.self, "gone")?.title == "2")
        let other = laptop.context()
        other.setQueryGeneration(.of(try #require(context.queryGeneration)))
        #expect(try other.fetch(Note.self).map(\.id) == ["a", "gone"])
        #expect(try laptop.titles == ["a": "1", "b": "3"])
        context.refreshAll()
        #expect(try context.fetch(Note.self).map(\.id) == ["a", "b"])
        // A save moves on too; nil unpins.
        try context.edit(Note.self, "a") { $0.title = "mine" }
        try context.save()
        #expect(try context.object(Note.self, "a")?.title == "mine")
        context.setQueryGeneration(nil)
        #expect(try context.fetch(Note.self).count == 2)
    }

    @Test("any pinned context that merges moves on with imports and other contexts' saves, and one that does not stays")
    func pinnedContextsMerge() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try laptop.save(Note(id: "a", title: "a"))
        let (first, second, still) = (laptop.context(), laptop.context(), laptop.context())
        first.automaticallyMergesChangesFromParent = true
        first.setQueryGeneration(.current)
        #expect(try first.fetch(Note.self).count == 1)
        second.setQueryGeneration(.of(try #require(first.queryGeneration)))
        second.automaticallyMergesChangesFromParent = true
        still.setQueryGeneration(.current)
        #expect(try still.fetch(Note.self).count == 1)
        try first.edit(Note.self, "a") { $0.stars = 5 }
        // A save of another context.
        try laptop.save(Note(id: "b", title: "b"))
        for context in [first, second] { #expect(try context.fetch(Note.self).map(\.id) == ["a", "b"]) }
        #expect(try still.fetch(Note.self).map(\.id) == ["a"])
        #expect(try first.object(Note.self, "a")?.stars == 5, "its own change stays on top")
        // An import.
        try phone.save(Note(id: "c", title: "c"))
        try await phone.sync()
        try await laptop.sync()
        for context in [first, second] { #expect(try context.count(FetchRequest(Note.self)) == 3) }
        // A commit by plain SQL.
        let file = try #require(laptop.container.database(of: laptop.store))
        try await file.write { try $0.execute(sql: "INSERT INTO Note(id, title) VALUES ('d', 'd')") }
        for context in [first, second] { #expect(try context.count(FetchRequest(Note.self)) == 4) }
        // They are pinned still: each of those moments is one.
        second.automaticallyMergesChangesFromParent = false
        #expect(second.queryGeneration != nil)
        try laptop.save(Note(id: "e", title: "e"))
        #expect(try first.count(FetchRequest(Note.self)) == 5)
        #expect(try second.count(FetchRequest(Note.self)) == 4)
        #expect(try still.fetch(Note.self).map(\.id) == ["a"])
    }

    @Test("a context that merges goes on doing so after the container was closed and opened again")
    func mergesAfterReopening() async throws {
        let phone = try await device("phone")
        let context = phone.context()
        context.automaticallyMergesChangesFromParent = true
        await phone.container.close()
        try await phone.container.loadStores()
        context.setQueryGeneration(.current)
        #expect(try context.fetch(Note.self).isEmpty)
        try phone.save(Note(id: "a", title: "a"))
        #expect(try context.fetch(Note.self).count == 1)
    }

    @Test("to observe a pinned context does not move it")
    func observingDoesNotMove() async throws {
        let phone = try await device("phone")
        let context = phone.context()
        context.setQueryGeneration(.current)
        #expect(try context.fetch(Note.self).isEmpty)
        try phone.save(Note(id: "a", title: "a"))
        context.automaticallyMergesChangesFromParent = true
        for await found in context.objects(Note.self) {
            #expect(found.isEmpty)
            break
        }
        #expect(try context.fetch(Note.self).isEmpty)
        try phone.save(Note(id: "b", title: "b"))
        #expect(try context.fetch(Note.self).count == 2)
    }

    @Test func anObjectsStateIsExplained() async throws {
        let phone = try await device("phone")
        relay.limits.recordBytes = 2_000
        let large = String(repeating: "b", count: 3_000)
        try phone.save(Note(id: "n", title: "a"), Note(id: "x", title: large))
        let good = ObjectID(store: phone.store, entity: "Note", name: "n")
        #expect(try await phone.container.syncState(of: good) == .pending)
        phone.device.network.cut()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        let waiting = try await phone.container.explain(good)
        #expect(waiting.state == .pending)
        #expect(waiting.since != nil)
        #expect(waiting.reason.contains("network"))
        phone.device.network.heal()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try await phone.container.syncState(of: good) == .synced)
        let refused = try #require(try await phone.container.rejectedWrites(phone.store).first)
        #expect(try await phone.container.syncState(of: refused.object) == .refused)
        #expect(try phone.context().object(Note.self, refused.object.name) == nil)
        #expect(try await phone.container.export(refused).isEmpty == false)
        // Once more, with the same outcome; then given up.
        try await phone.container.retry(refused)
        #expect(try phone.context().object(Note.self, refused.object.name)?.title == large)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        let again = try #require(try await phone.container.rejectedWrites(phone.store).first)
        try await phone.container.discard(again)
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        let record = try #require(try await phone.container.record(for: good))
        #expect(record.recordType == "CD_Note")
        #expect(record["CD_title"] as? String == "a")
        #expect(record["CD_entityName"] as? String == "Note")
        try await phone.container.waitUntilUpToDate(timeout: .seconds(120))
        #expect(try await phone.container.isUpToDate(asOf: Date(timeIntervalSinceNow: -60)))
    }

    @Test func refusedDeletionsAndDroppedChangesComeBack() async throws {
        let phone = try await device("phone")
        try phone.save(Note(id: "n", title: "a"))
        try await phone.sync()
        let context = phone.context()
        try context.edit(Note.self, "n") { $0.title = "never mind" }
        try context.save()
        try await phone.container.dropPendingExport(of: ObjectID(store: phone.store, entity: "Note", name: "n"))
        #expect(try phone.titles == ["n": "a"])
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test func unknownTypesAndFieldsAreKeptForANewerModel() async throws {
        let phone = try await device("phone")
        let context = phone.context()
        var note = Note(id: "n", title: "a")
        note.stars = 5
        note.folder = ToOne(Folder(id: "f", name: ""))
        try context.insert(Folder(id: "f", name: "Home"))
        try context.insert(note)
        try context.save()
        try await phone.sync()
        // An older program knows neither folders nor stars.
        let old = Entity("Note", attributes: [Attribute("title", .string, isOptional: false, hasDefault: true)])
        let folder = try TemporaryFolder()
        let tablet = relay.device(of: "alice", named: "tablet")
        let before = try await Mirrored(tablet, model: MirrorModel(entities: [old]), folder: folder)
        try await before.sync()
        let database = try #require(before.container.database(of: before.store))
        try await database.write { try $0.execute(sql: "UPDATE Note SET title = 'old program'") }
        try await before.sync()
        await before.container.close()
        let after = try await Mirrored(tablet, folder: folder)
        #expect(try after.context().fetch(Folder.self).map(\.name) == ["Home"])
        let found = try #require(try after.context().object(Note.self, "n"))
        #expect(found.title == "old program")
        #expect(found.stars == 5)
        #expect(found.folder.target == "f")
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "n")?.stars == 5)
        #expect(try phone.context().object(Note.self, "n")?.title == "old program")
    }

    @Test func schemaIsPrintedAndMade() async throws {
        let phone = try await device("phone")
        let text = try #require(try await phone.container.initializeSchema(options: [.dryRun, .printSchema]))
        #expect(phone.device.network.operations.isEmpty)
        // The text is one that a relay takes: types, companions and indexes, pairs too.
        let parsed = SchemaText(parsing: text)
        #expect(parsed.isValid && parsed.issues.isEmpty)
        let note = try #require(parsed.schema.types["CD_Note"])
        #expect(note.fields["CD_at"]?.type == .scalar(.timestamp))
        #expect(note.fields["CD_title_ckAsset"]?.type == .scalar(.asset))
        #expect(note.fields["CD_photo_ckAsset"]?.type == .scalar(.asset))
        #expect(note.indexes(of: .system(.modified)).isSuperset(of: [.queryable, .sortable]))
        #expect(parsed.schema.types["CDMR"]?.fields.count == 3)
        try await phone.container.initializeSchema()
        try await phone.container.initializeSchema()
        // It leaves nothing behind, and what the relay has now can be asked of.
        for type in ["CD_Note", "CD_Folder", "CDMR"] {
            let query = CKQuery(recordType: type, predicate: NSPredicate(value: true))
            let found = try await phone.device.privateDatabase.records(matching: query, inZoneWith: .default)
            #expect(found.matchResults.isEmpty)
        }
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: "clash"))
        record["CD_title_ckAsset"] = "no file"
        await #expect(throws: CKError.self) { try await phone.device.privateDatabase.save(record) }
    }
}
