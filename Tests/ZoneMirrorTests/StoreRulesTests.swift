import Foundation
import GRDB
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Records the paths and bodies of all requests.
private final class RecordingTransport: RelayTransport {
    private let network: TestNetwork
    private let recorded = Mutex<[String]>([])

    init(_ network: TestNetwork) { self.network = network }

    var bodies: [String] { recorded.withLock { $0 } }

    func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        recorded.withLock { $0.append(request.path + " " + String(decoding: request.content, as: UTF8.self)) }
        return try await network.send(request)
    }
}

/// Valid combinations of stores, and the choice of a store for objects.
///
/// See StoresAndModels.md, "Stores".
@Suite(.timeLimit(.minutes(15))) struct StoreRulesTests {
    let relay: TestRelay
    let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func store(
        _ name: String,
        _ container: CKContainer? = nil,
        scope: CKDatabase.Scope = .private,
        configuration: String? = nil
    ) -> StoreDescription {
        StoreDescription(
            url: folder.url.appendingPathComponent(name + ".sqlite"),
            configuration: configuration,
            cloud: container.map { CloudOptions(container: $0, scope: scope) }
        )
    }

    private func container(_ stores: StoreDescription..., model: MirrorModel = notesModel) -> MirroredContainer {
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        return MirroredContainer(model: model, stores: stores, conditions: conditions)
    }

    private func code(_ work: () async throws -> Void) async -> MirrorError.Code? {
        do {
            try await work()
            return nil
        } catch {
            return (error as? MirrorError)?.code
        }
    }

    // MARK: Loading

    @Test func onlyOneContainerSyncsAFile() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let first = container(store("mine", device.container))
        try await first.loadStores()
        let second = container(store("mine", device.container))
        #expect(await code { try await second.loadStores() } == .storeSyncedElsewhere)
        // A container without cloud options may read and write the file, and is notified of the other's commits.
        let local = container(store("mine"))
        try await local.loadStores()
        let id = local.store(at: store("mine").url)
        let changes = local.remoteChanges
        let context = first.newBackgroundContext()
        try context.insert(Note(id: "n", title: "by the first"))
        try context.save()
        local.noticeOutsideCommits()
        for await change in changes {
            #expect(change.store == id)
            break
        }
        #expect(try local.newBackgroundContext().fetch(Note.self).map(\.title) == ["by the first"])
        await first.close()
        // After the first container has closed, the second may sync the file.
        try await second.loadStores()
        await second.close()
        await local.close()
    }

    @Test func aSharedStoreNeedsAPrivateOne() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let alone = container(store("theirs", device.container, scope: .shared))
        #expect(await code { try await alone.loadStores() } == .sharedStoreNeedsPrivateStore)
        // A private store of another CloudKit container does not count.
        let other = relay.device(of: "alice", named: "phone", container: "iCloud.other")
        let mixed = container(store("mine", other.container), store("theirs", device.container, scope: .shared))
        #expect(await code { try await mixed.loadStores() } == .sharedStoreNeedsPrivateStore)
    }

    @Test func copiesGoToAnotherStoreOfTheContainer() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let mine = store("mine", device.container)
        for target in ["elsewhere", "theirs"] {
            var theirs = store("theirs", device.container, scope: .shared)
            theirs.cloud?.losingAccess = .keepCopy(in: store(target).url)
            let wrong = container(mine, theirs)
            #expect(await code { try await wrong.loadStores() } == .unknownStore, "\(target)")
        }
        var theirs = store("theirs", device.container, scope: .shared)
        theirs.cloud?.losingAccess = .keepCopy(in: mine.url)
        let right = container(mine, theirs)
        try await right.loadStores()
        await right.close()
    }

    @Test func aDatabaseCanBeMirroredOnlyOnce() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let twice = container(store("one", device.container), store("two", device.container))
        #expect(await code { try await twice.loadStores() } == .databaseAlreadyMirrored)
        // Stores may mirror different containers, and different accounts of one.
        let other = relay.device(of: "alice", named: "phone", container: "iCloud.other")
        let bob = relay.device(of: "bob", named: "phone")
        let three = container(
            store("one", device.container),
            store("two", other.container),
            store("three", bob.container)
        )
        try await three.loadStores()
        let context = three.newBackgroundContext()
        for (name, file) in [("a", "one"), ("b", "two"), ("c", "three")] {
            let note = Note(id: RecordName(name), title: name)
            try context.insert(note)
            try context.assign(note, to: three.store(at: store(file).url))
        }
        try context.save()
        try await three.sendChanges()
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        for (name, device) in [("a", device), ("b", other), ("c", bob)] {
            let page = try await device.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil)
            #expect(page.modificationResultsByID.keys.map(\.recordName) == [name])
        }
        await three.close()
    }

    @Test func onlyOpenWritableStoresAcceptObjects() async throws {
        var first = store("first")
        first.isReadOnly = true
        let writer = container(store("first"))
        try await writer.loadStores()
        let reader = container(first, store("second"))
        try await reader.loadStores()
        let (one, two) = (reader.store(at: first.url), reader.store(at: store("second").url))
        let nowhere = reader.store(at: store("nowhere").url)
        #expect(!reader.canModifyManagedObjects(in: one) && reader.canModifyManagedObjects(in: two))
        let context = reader.newBackgroundContext()
        // The first writable store.
        try context.insert(Note(id: "a", title: "a"))
        try context.save()
        #expect(try context.store(of: try #require(try context.object(Note.self, "a"))) == two)
        let note = Note(id: "b", title: "b")
        try context.insert(note)
        try context.assign(note, to: one)
        #expect(await code { try context.save() } == .noStoreForEntity)
        context.rollback()
        var request = FetchRequest(Note.self)
        request.affectedStores = [nowhere]
        #expect(await code { _ = try context.fetch(request) } == .unknownStore)
        #expect(await code { _ = try await reader.rejectedWrites(nowhere) } == .unknownStore)
        #expect(await code { _ = try await reader.limits(of: two) } == .wrongStore)
        await reader.close()
        await writer.close()
    }

    // MARK: Selective sync

    /// No request contains data of an entity outside the mirrored configuration.
    @Test func localObjectsAreNeverSent() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let recorder = RecordingTransport(device.network)
        let connection = RelayConnection(
            container: TestRelay.containerIdentifier,
            url: nil,
            credentials: RelayCredentials(apiToken: nil, webAuthToken: "dev-alice"),
            deviceID: "phone",
            transport: recorder
        )
        let model = MirrorModel(
            Note.self,
            Folder.self,
            Tag.self,
            Draft.self,
            configurations: ["cloud": ["Note", "Folder", "Tag"], "local": ["Draft"]]
        )
        let (cloud, local) = (
            store("cloud", CKContainer(connection: connection), configuration: "cloud"),
            store("local", configuration: "local")
        )
        let container = container(cloud, local, model: model)
        try await container.loadStores()
        let context = container.newBackgroundContext()
        let draft = Draft(text: "for this device only")
        try context.insert(draft)
        try context.insert(Note(id: "n", title: "for all of mine"))
        try context.save()
        #expect(try context.store(of: draft) == container.store(at: local.url))
        try await container.sendChanges()
        try context.delete(draft)
        try context.save()
        try await container.sendChanges()
        try await container.fetchChanges()
        try await container.initializeSchema()
        let traffic = recorder.bodies.joined(separator: "\n")
        #expect(traffic.contains("for all of mine") && traffic.contains("CD_Note"))
        #expect(!traffic.contains("this device only") && !traffic.contains("Draft") && !traffic.contains(draft.id.text))
        await container.close()
    }

    /// With an entity in two stores, an object can be assigned to the local store, and moved between the two.
    @Test func anObjectCanStayLocal() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let (cloud, local) = (store("cloud", device.container), store("local"))
        let container = container(cloud, local)
        try await container.loadStores()
        let (above, below) = (container.store(at: cloud.url), container.store(at: local.url))
        let context = container.newBackgroundContext()
        let (sent, kept) = (Note(id: "sent", title: "sent"), Note(id: "kept", title: "kept"))
        try context.insert(sent)
        try context.insert(kept)
        try context.assign(kept, to: below)
        try context.save()
        try await container.sendChanges()
        #expect(try await names(device) == ["sent"])
        // Moving it out of the mirrored store makes a copy with another name and deletes the original.
        let copy = try container.move(try #require(try context.object(Note.self, "sent")), to: below)
        #expect(copy.id != "sent" && copy.title == "sent")
        #expect(try context.store(of: copy) == below)
        try await container.sendChanges()
        #expect(try await names(device) == [])
        // Back to the mirrored store.
        let up = try container.move(copy, to: above)
        try await container.sendChanges()
        #expect(try await names(device) == [up.id.text])
        #expect(try context.fetch(Note.self, sortedBy: .ascending(\.title)).map(\.title) == ["kept", "sent"])
        await container.close()
    }

    private func names(_ device: TestDevice) async throws -> [String] {
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let page = try await device.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil)
        return page.modificationResultsByID.keys.map(\.recordName).sorted()
    }

    /// A second container writes to the local file only; the first learns of it through the history.
    @Test func anotherContainerWritesToTheLocalFile() async throws {
        let device = relay.device(of: "alice", named: "phone")
        let (cloud, local) = (store("cloud", device.container), store("local"))
        let first = container(cloud, local)
        try await first.loadStores()
        let second = container(local)
        try await second.loadStores()
        let view = await first.viewContext
        #expect(try view.fetch(Note.self).isEmpty)
        let start = try await first.currentHistoryToken()
        let context = second.newBackgroundContext(named: "import")
        context.transactionAuthor = "extension"
        try context.insert(Note(id: "n", title: "by the other"))
        try context.save()
        first.noticeOutsideCommits()
        #expect(try view.fetch(Note.self).map(\.title) == ["by the other"])
        let news = try await first.history(after: start, author: "extension")
        #expect(news.map(\.contextName) == ["import"] && news.map(\.store) == [first.store(at: local.url)])
        #expect(news.flatMap(\.changes).map(\.object.name) == ["n"])
        // Each store has a token of its own, and tokens can be joined.
        let token = try #require(news.last?.token)
        #expect(try await first.history(after: start.joined(with: token)).isEmpty)
        #expect(try await first.history(after: start.token(for: first.store(at: cloud.url))).count == 1)
        try await first.sendChanges()
        let sent = device.network.operations.contains { $0.hasSuffix("records/modify") }
        #expect(!sent)
        await second.close()
        await first.close()
    }
}

/// An entity that must never be sent.
struct Draft: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""

    init() {}
    init(text: String) { self.text = text }
}

/// A user's own object and an object shared by another user have the same name; they stay separate.
@Suite(.timeLimit(.minutes(15))) struct TwoStoresTests {
    private let home: Household
    private var alice: NotesApp { home.phone }
    private var bob: NotesApp { home.bob }

    init() async throws {
        home = try await Household(memo: "hers")
        try await home.share()
        let context = home.bob.context()
        let own = SharedNote(id: "trip", title: "Bob's")
        try context.insert(own)
        try context.assign(own, to: home.bob.mine)
        try context.save()
        let memo = Memo(text: "his", note: try note("Bob's", context))
        try context.insert(memo)
        try context.assign(memo, to: home.bob.mine)
        try context.save()
        try await home.bob.sync()
    }

    private func note(_ title: String, _ context: MirrorContext) throws -> SharedNote {
        try #require(try context.fetch(SharedNote.self, \.title == title).first)
    }

    private func titles(_ app: NotesApp) throws -> [String] {
        try app.context().fetch(SharedNote.self, sortedBy: .ascending(\.title)).map(\.title)
    }

    @Test func bothObjectsCanBeFetchedAndEdited() async throws {
        let context = bob.context()
        #expect(try titles(bob) == ["Bob's", "trip"])
        var theirs = try note("trip", context)
        #expect(try context.object(SharedNote.self, theirs.id)?.title == "trip")
        #expect(try context.store(of: theirs) == bob.others)
        theirs.title = "journey"
        try context.update(theirs)
        // The edit is visible before the save.
        #expect(try context.fetch(SharedNote.self, sortedBy: .ascending(\.title)).map(\.title) == ["Bob's", "journey"])
        try context.save()
        try context.edit(SharedNote.self, theirs.id) { $0.title += " home" }
        try context.save()
        #expect(try titles(bob) == ["Bob's", "journey home"])
        try await bob.sync()
        try await alice.sync()
        #expect(try titles(alice) == ["journey home"])
    }

    @Test func linksStayInTheirStore() async throws {
        let context = bob.context()
        for (title, texts) in [("Bob's", ["his"]), ("trip", ["hers"])] {
            let note = try note(title, context)
            let memos = try context.related(to: note, \.memos)
            #expect(memos.map(\.text) == texts)
            for memo in memos { #expect(try context.object(memo.note)?.title == title) }
            for memo in memos { #expect(try context.object(SharedNote.self, memo.note.target ?? "")?.title == title) }
        }
        try context.insert(Memo(text: "new", note: try note("trip", context)))
        let memo = try #require(try context.fetch(Memo.self, \.text == "hers").first)
        try context.edit(Memo.self, memo.id) { $0.text = "hers, edited" }
        try context.save()
        try await bob.sync()
        try await alice.sync()
        #expect(try alice.memos == ["hers, edited", "new"])
        #expect(try context.related(to: try note("Bob's", context), \.memos).map(\.text) == ["his"])
    }

    /// New objects linked to each other belong to the private store, even if a shared object has the same name.
    @Test func newObjectsBelongToThePrivateStore() async throws {
        try home.makeNote("plan", memo: "of hers")
        try await alice.sync()
        try await home.share("plan")
        let context = bob.context()
        let own = SharedNote(id: "plan", title: "own plan")
        try context.insert(Memo(text: "of his", note: own))
        try context.insert(own)
        try context.save()
        #expect(try titles(bob) == ["Bob's", "own plan", "plan", "trip"])
        let memo = try #require(try context.fetch(Memo.self, \.text == "of his").first)
        #expect(try context.store(of: memo) == bob.mine)
        #expect(try context.object(memo.note)?.title == "own plan")
    }

    /// A context can change only one of the two objects per save; a change of the other throws.
    @Test func bothObjectsCannotBeChangedInOneSave() throws {
        let context = bob.context()
        for title in ["trip", "Bob's"] {
            var note = try note(title, context)
            note.title += "!"
            if title == "trip" {
                try context.update(note)
            } else {
                let error = #expect(throws: MirrorError.self) { try context.update(note) }
                #expect(error?.code == .wrongStore)
                #expect(throws: MirrorError.self) { try context.delete(note) }
            }
        }
        try context.save()
        #expect(try titles(bob) == ["Bob's", "trip!"])
    }

    @Test func onlyTheFetchedObjectIsDeleted() async throws {
        let context = bob.context()
        try context.delete(SharedNote.self, id: try note("trip", context).id)
        try context.save()
        #expect(try titles(bob) == ["Bob's"])
        #expect(try bob.context().fetch(Memo.self).map(\.text) == ["his"])
    }
}
