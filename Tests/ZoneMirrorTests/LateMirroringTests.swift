import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A local store that gets cloud options: its objects are sent once.
@Suite(.timeLimit(.minutes(15))) struct LateMirroringTests {
    let relay: TestRelay
    let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    /// Opens the store without cloud options.
    private func local(
        scope: CKDatabase.Scope = .private,
        model: MirrorModel = notesModel,
        tracksHistory: Bool = true
    ) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: "old"), model: model, scope: scope, folder: folder) {
            $0.cloud = nil
            $0.tracksHistory = tracksHistory
        }
    }

    /// Creates a folder, two notes in it, a tag, and a link between the tag and a note.
    private func fill(_ mirror: Mirrored) throws {
        let context = mirror.context()
        let (inbox, tag) = (Folder(id: "inbox", name: "Inbox"), Tag(word: "urgent"))
        try context.insert(inbox)
        try context.insert(tag)
        for name in ["a", "b"] {
            var note = Note(id: RecordName(name), title: name)
            note.folder = ToOne(inbox)
            try context.insert(note)
        }
        let note = try #require(try context.object(Note.self, "a"))
        try context.link(note, \.tags, tag)
        try context.save()
    }

    private func records(_ device: TestDevice) async throws -> [String: String] {
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        var tags: [String: String] = [:]
        var token: CKServerChangeToken?
        while true {
            let page = try await device.privateDatabase.recordZoneChanges(inZoneWith: zone, since: token)
            for (id, result) in page.modificationResultsByID {
                tags[id.recordName] = try result.get().record.recordChangeTag
            }
            guard page.moreComing else { return tags }
            token = page.changeToken
        }
    }

    @Test("objects of a store that gets cloud options are pending, reported, and sent once")
    func privateStore() async throws {
        let before = try await local()
        try fill(before)
        await before.container.close()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        #expect(try await phone.container.pendingExportCount(phone.store) == 5)
        #expect(phone.container.localObjects == [phone.store: 4])
        let note = ObjectID(store: phone.store, entity: "Note", name: "a")
        let words = try await phone.container.explain(note)
        #expect(words.state == .pending && words.next.contains("automatically"), "\(words)")
        let events = try await phone.container.events(of: phone.store)
        #expect(events.map(\.kind) == [.setup] && events.flatMap(\.details) == [.localData(4)])
        try await phone.sync()
        #expect(phone.container.localObjects.isEmpty)
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try await phone.container.syncState(of: note) == .synced)
        let exports = try await phone.container.events(of: phone.store).filter { $0.kind == .export }
        #expect(exports.map(\.done).reduce(0, +) == 5)
        let sent = try await records(phone.device)
        #expect(sent.count == 5)
        await phone.container.close()
        // They are neither sent nor reported again after a restart.
        let again = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        #expect(try await again.container.pendingExportCount(again.store) == 0)
        try await again.sync()
        #expect(try await records(again.device) == sent)
        #expect(try await again.container.events(of: again.store).count { $0.kind == .setup } == 1)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try await laptop.sync()
        let there = laptop.context()
        #expect(try there.fetch(Note.self, sortedBy: .ascending(\.title)).map(\.folder.target) == ["inbox", "inbox"])
        let found = try #require(try there.object(Note.self, "a"))
        #expect(try there.related(to: found, \.tags).map(\.word) == ["urgent"])
    }

    @Test("a program with automatic sync sends them without a call")
    func automatically() async throws {
        let before = try await local()
        try fill(before)
        await before.container.close()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder, isAutomatic: true)
        try await phone.container.waitUntilUpToDate(timeout: .seconds(60))
        #expect(try await records(phone.device).count == 5)
        await phone.container.close()
    }

    @Test("a public store sends its objects")
    func publicStore() async throws {
        let model = MirrorModel(Post.self)
        let before = try await local(scope: .public, model: model)
        let context = before.context()
        for name in ["x", "y"] { try context.insert(Post(id: RecordName(name), text: name)) }
        try context.save()
        await before.container.close()
        let phone = try await Mirrored(
            relay.device(of: "alice", named: "phone"),
            model: model,
            scope: .public,
            folder: folder
        )
        #expect(try await phone.container.pendingExportCount(phone.store) == 2)
        try await phone.container.sendChanges()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        let ids = ["x", "y"].map { CKRecord.ID(recordName: $0) }
        let found = try await phone.device.container.publicCloudDatabase.records(for: ids)
        #expect(try found.values.allSatisfy { try $0.get()["CD_text"] != nil } && found.count == 2)
    }

    /// Rows written without a history by a program that does not use this module.
    @Test("any number of rows written by SQL in a store without history are sent")
    func plainSQL() async throws {
        let before = try await local(tracksHistory: false)
        let writer = try #require(before.container.database(of: before.store))
        try await writer.write { db in
            for number in 0..<450 {
                try db.execute(
                    sql: "INSERT INTO Note(id, title) VALUES (?, ?)",
                    arguments: ["n\(number)", "\(number)"]
                )
            }
            try db.execute(sql: "DELETE FROM Note WHERE id = 'n7'")
        }
        await before.container.close()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        #expect(try await phone.container.pendingExportCount(phone.store) == 449)
        try await phone.container.sendChanges()
        #expect(try await records(phone.device).count == 449)
    }

    static let places: [CrashPoint] = [.beforeSend, .afterSend, .insideConfirm, .afterConfirm]

    @Test("a crash while sending loses nothing and sends nothing twice", arguments: places, [1, 2])
    func crash(at point: CrashPoint, _ pass: Int) async throws {
        let harness = try CrashHarness()
        func open(_ name: String, _ conditions: MirrorConditions, isLocal: Bool = false) async throws -> (
            TestDevice, MirroredContainer, StoreID
        ) {
            let device = relay.device(of: "alice", named: name)
            let url = harness.folder.appendingPathComponent("private.sqlite")
            let cloud = CloudOptions(container: device.container)
            let description = StoreDescription(url: url, cloud: isLocal ? nil : cloud)
            let container = MirroredContainer(model: notesModel, stores: [description], conditions: conditions)
            try await container.loadStores()
            return (device, container, container.store(at: url))
        }
        let device = relay.device(of: "alice", named: "first")
        let (_, before, _) = try await open("first", harness.begin(device, until: nil), isLocal: true)
        let context = before.newBackgroundContext()
        for number in 0..<300 { try context.insert(Note(id: RecordName("n\(number)"), title: "\(number)")) }
        try context.save()
        await before.close()
        let second = relay.device(of: "alice", named: "second")
        let conditions = harness.begin(second, until: (point, pass))
        let url = harness.folder.appendingPathComponent("private.sqlite")
        let crashing = MirroredContainer(
            model: notesModel,
            stores: [StoreDescription(url: url, cloud: CloudOptions(container: second.container))],
            conditions: conditions
        )
        try await crashing.loadStores()
        try? await crashing.sendChanges()
        #expect(harness.isOver || pass == 2)
        if !harness.isOver { await crashing.close() }
        let third = relay.device(of: "alice", named: "third")
        let (_, last, store) = try await open("third", harness.begin(third, until: nil))
        try await last.sendChanges()
        try await last.fetchChanges()
        #expect(try await last.pendingExportCount(store) == 0)
        #expect(try await records(third).count == 300)
        let notes = try last.newBackgroundContext().fetch(Note.self)
        #expect(notes.count == 300 && notes.allSatisfy { "n" + $0.title == $0.id.text })
        await last.close()
    }

    @Test("an object that another device also has stays a single object")
    func sameNames() async throws {
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try laptop.save(Note(id: "a", title: "theirs"), Note(id: "z", title: "z"))
        try await laptop.sync()
        let before = try await local()
        try before.save(Note(id: "a", title: "mine"), Note(id: "b", title: "b"))
        await before.container.close()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        #expect(try phone.titles == laptop.titles)
        #expect(try phone.titles.keys.sorted() == ["a", "b", "z"])
    }

    @Test("an object whose ID is not a valid record name is sent under another, with its links")
    func oddNames() async throws {
        let before = try await local()
        let context = before.context()
        let inbox = Folder(id: "Eingang für Zürich", name: "Inbox")
        var note = Note(id: RecordName(String(repeating: "long", count: 80)), title: "long")
        note.folder = ToOne(inbox)
        try context.insert(inbox)
        try context.insert(note)
        try context.save()
        await before.container.close()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        try await phone.sync()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        #expect(try phone.context().object(Note.self, note.id)?.folder.target == inbox.id)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try await laptop.sync()
        let there = laptop.context()
        let found = try #require(try there.fetch(Note.self).first)
        #expect(try there.fetch(Folder.self).map(\.id) == [found.folder.target])
    }

    @Test("an error names two objects with one ID, and the store can still be opened as local")
    func twoOfOneName() async throws {
        let before = try await local()
        let context = before.context()
        try context.insert(Note(id: "1", title: "one"))
        try context.insert(Folder(id: "1", name: "one"))
        try context.save()
        await before.container.close()
        do {
            _ = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
            Issue.record("The store was opened.")
        } catch let error as MirrorError {
            #expect(error.explanation.contains("a Folder and a Note with the id 1"), "\(error)")
        }
        let again = try await local()
        let repair = again.context()
        try repair.delete(Folder.self, id: "1")
        try repair.save()
        await again.container.close()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
        try await phone.sync()
        #expect(try await records(phone.device).keys.sorted() == ["1"])
    }
}
