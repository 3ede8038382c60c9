import Foundation
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
