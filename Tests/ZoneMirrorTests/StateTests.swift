import Foundation
import GRDB
import Records
import TestSupport
import Testing
import Wire
import ZoneKit
import ZoneMirror
import ZoneTesting

/// History, query generations, sync states and explanations.
@Suite(.timeLimit(.minutes(15))) struct StateTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    func device(_ name: String) async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: name)) }

    @Test func historyContainsAuthorsAndChanges() async throws {
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
        // Imports have their own author, plain SQL has none.
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
        // Deleting the history does not affect pending changes.
        try await laptop.container.deleteHistory(before: try await laptop.container.currentHistoryToken())
        #expect(try await laptop.container.history().count <= 1)
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().object(Note.self, "m")?.done == true)
    }

    @Test func aPinnedContextReadsOneGeneration() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"), Note(id: "gone", title: "2"))
        try await phone.sync()
        try await laptop.sync()
        let context = laptop.context()
        context.setQueryGeneration(.current)
        // The first read determines the generation.
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
        // A save advances the generation too; `nil` unpins the context.
        try context.edit(Note.self, "a") { $0.title = "mine" }
        try context.save()
        #expect(try context.object(Note.self, "a")?.title == "mine")
        context.setQueryGeneration(nil)
        #expect(try context.fetch(Note.self).count == 2)
    }

    @Test("pinned contexts advance with imports and other saves only if they merge automatically")
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
        #expect(try first.object(Note.self, "a")?.stars == 5, "the context's own change is kept")
        // An import.
        try phone.save(Note(id: "c", title: "c"))
        try await phone.sync()
        try await laptop.sync()
        for context in [first, second] { #expect(try context.count(FetchRequest(Note.self)) == 3) }
        // A commit by plain SQL.
        let file = try #require(laptop.container.database(of: laptop.store))
        try await file.write { try $0.execute(sql: "INSERT INTO Note(id, title) VALUES ('d', 'd')") }
        for context in [first, second] { #expect(try context.count(FetchRequest(Note.self)) == 4) }
        // The contexts are still pinned, each to one generation.
        second.automaticallyMergesChangesFromParent = false
        #expect(second.queryGeneration != nil)
        try laptop.save(Note(id: "e", title: "e"))
        #expect(try first.count(FetchRequest(Note.self)) == 5)
        #expect(try second.count(FetchRequest(Note.self)) == 4)
        #expect(try still.fetch(Note.self).map(\.id) == ["a"])
    }

    @Test("a merging context continues to merge after the container is closed and opened again")
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

    @Test("observing a pinned context does not advance it")
    func observingDoesNotAdvance() async throws {
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

    @Test func anObjectsSyncStateIsExplained() async throws {
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
        // A retry has the same result; then the write is discarded.
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

    @Test func droppingAChangeRestoresTheRelaysValue() async throws {
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

    @Test func unknownTypesAndFieldsAreKeptForALaterModel() async throws {
        let phone = try await device("phone")
        let context = phone.context()
        var note = Note(id: "n", title: "a")
        note.stars = 5
        note.folder = ToOne(Folder(id: "f", name: ""))
        try context.insert(Folder(id: "f", name: "Home"))
        try context.insert(note)
        try context.save()
        try await phone.sync()
        // The older model has neither folders nor stars.
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

    @Test func initializeSchemaPrintsAndCreatesTheSchema() async throws {
        let phone = try await device("phone")
        let text = try #require(try await phone.container.initializeSchema(options: [.dryRun, .printSchema]))
        #expect(phone.device.network.operations.isEmpty)
        // The text is valid for the relay, with types, companion fields, indexes and pairs.
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
        // No sample records are left, and the types can be queried.
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

/// Each sync state of an object is explained: since when, why, and what happens next.
@Suite(.timeLimit(.minutes(15))) struct ExplanationTests {
    private let relay: TestRelay
    private let phone: Mirrored
    private let laptop: Mirrored
    private let note: ObjectID

    init() async throws {
        relay = try TestRelay()
        phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        note = ObjectID(store: phone.store, entity: "Note", name: "n")
    }

    private func edit(_ mirror: Mirrored, _ title: String) throws {
        let context = mirror.context()
        try context.edit(Note.self, "n") { $0.title = title }
        try context.save()
    }

    /// Checks the state and that both the reason and the next step are full sentences.
    private func check(_ words: Explanation, _ state: SyncState, _ why: String, hasBegun: Bool = true) {
        #expect(words.state == state, "\(words)")
        #expect(words.reason.contains(why), "\(words)")
        for sentence in [words.reason, words.next] {
            #expect(sentence.hasSuffix(".") && sentence.first?.isUppercase == true && sentence.count > 15, "\(words)")
        }
        #expect(words.description == "\(words.reason) \(words.next)")
        #expect((words.since != nil) == hasBegun, "\(words)")
    }

    @Test func eachStateOfAnObjectsSyncIsExplained() async throws {
        let unsaved = ObjectID(store: nil, entity: "Note", name: "n")
        #expect(unsaved.isTemporary && !note.isTemporary)
        check(try await phone.container.explain(unsaved), .localOnly, "not been saved", hasBegun: false)
        await #expect(throws: MirrorError.self) { try await phone.container.explain(note) }
        try phone.save(Note(id: "n", title: "1"))
        check(try await phone.container.explain(note), .pending, "not been sent yet")
        // While the request is in progress.
        let (asked, answer) = (Gate(), Gate())
        phone.device.network.fail(
            request: 1,
            of: "records/modify",
            by: .meanwhile {
                asked.open()
                await answer.wait()
            }
        )
        let sending = Task { try await phone.container.sendChanges() }
        await asked.wait()
        check(try await phone.container.explain(note), .sending, "being sent")
        #expect(try await phone.container.pendingExports(phone.store, in: [.sending]) == [note])
        answer.open()
        try await sending.value
        check(try await phone.container.explain(note), .synced, "the relay's version")
        #expect(try await phone.container.pendingExports(phone.store).isEmpty)
        // Offline.
        try edit(phone, "2")
        phone.device.network.cut()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        check(try await phone.container.explain(note), .pending, "network")
        phone.device.network.heal()
        // Changed on another device as well; the second attempt does not reach the relay.
        try await laptop.sync()
        try edit(laptop, "theirs")
        try await laptop.sync()
        phone.device.network.fail(request: 2, of: "records/modify", by: .unreachable)
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        check(try await phone.container.explain(note), .conflicted, "merged")
        #expect(try await phone.container.pendingExports(phone.store, in: [.conflicted]) == [note])
        try await phone.sync()
        check(try await phone.container.explain(note), .synced, "the relay's version")
        #expect(try phone.titles == ["n": "2"])
    }

    @Test func anExceededQuotaIsExplained() async throws {
        try await phone.sync()
        relay.fillQuota()
        try phone.save(Note(id: "n", title: "1"))
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        check(try await phone.container.explain(note), .pending, "quota on the relay is exhausted")
    }

    @Test func aRejectedWriteIsExplained() async throws {
        relay.limits.recordBytes = 2_000
        try phone.save(Note(id: "n", title: String(repeating: "x", count: 3_000)))
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        let refused = try #require(try await phone.container.rejectedWrites(phone.store).first)
        check(try await phone.container.explain(refused.object), .refused, "refused")
        #expect(refused.explanation.contains("2000"), "\(refused.explanation)")
        // After `retry` the change is pending again.
        try await phone.container.retry(refused)
        check(try await phone.container.explain(refused.object), .pending, ".", hasBegun: false)
    }

    /// The objects of a store that becomes mirrored are sent automatically.
    @Test func objectsFromBeforeMirroringAreExplained() async throws {
        let folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("private.sqlite")
        let before = MirroredContainer(model: notesModel, stores: [StoreDescription(url: url)])
        try await before.loadStores()
        let context = before.newBackgroundContext()
        try context.insert(Note(id: "n", title: "old"))
        try context.save()
        let id = try context.objectID(of: try #require(try context.object(Note.self, "n")))
        check(try await before.explain(id), .localOnly, "local only", hasBegun: false)
        await before.close()
        let after = try await Mirrored(relay.device(of: "alice", named: "tablet"), folder: folder)
        let words = try await after.container.explain(id)
        check(words, .pending, "does not have it", hasBegun: false)
        #expect(words.next.contains("sent automatically"))
    }

    /// An object in a shared store belongs to no share unless it is linked or assigned.
    @Test func anObjectWithoutAShareIsExplained() async throws {
        let app = try await NotesApp(relay.device(of: "bob", named: "pc"))
        let context = app.context()
        let memo = SharedNote(title: "whose?")
        try context.insert(memo)
        try context.assign(memo, to: app.others)
        try await app.sync()
        try context.save()
        try? await app.container.sendChanges()
        let id = try context.objectID(of: memo)
        check(try await app.container.explain(id), .pending, "assigned to a share")
    }
}
