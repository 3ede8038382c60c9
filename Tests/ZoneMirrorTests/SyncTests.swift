import Foundation
import GRDB
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Two devices and a relay, with explicit syncs.
@Suite(.timeLimit(.minutes(15))) struct SyncTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    func device(_ name: String) async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: name)) }

    @Test func aSaveIsSyncedCompletely() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        var note = Note(id: "n", title: "Grüße", done: true)
        note.body = "text"
        note.stars = 4
        note.weight = 0.5
        note.at = Date(timeIntervalSince1970: 1_700_000_000.125)
        note.photo = Data([1, 2, 3])
        note.link = URL(string: "https://example.org")
        note.labels = ["a"]
        try phone.save(note)
        try await phone.container.sendChanges()
        try await laptop.container.fetchChanges()
        #expect(try laptop.context().object(Note.self, "n") == note)
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
        #expect(try await laptop.container.hasCompletedInitialImport(laptop.store))
    }

    @Test func editsAndDeletionsAreSyncedWithoutEchoes() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"))
        try await phone.sync()
        try await laptop.sync()
        let context = laptop.context()
        try context.edit(Note.self, "a") { $0.title = "edited" }
        try context.delete(Note.self, id: "b")
        try context.save()
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.titles == ["a": "edited"])
        #expect(try laptop.titles == ["a": "edited"])
        laptop.device.network.forgetOperations()
        try await laptop.sync()
        #expect(!laptop.device.network.operations.contains("private/records/modify"))
    }

    @Test func linksArriveInAnyOrder() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        let context = phone.context()
        let folder = Folder(id: "f", name: "Home")
        var note = Note(id: "n", title: "in it")
        note.folder = ToOne(folder)
        let tag = Tag(word: "urgent")
        // The note is sent first, so its folder does not exist yet when the note arrives.
        try context.insert(note)
        try context.insert(folder)
        try context.insert(tag)
        try context.link(note, \.tags, tag)
        try context.save()
        try await phone.sync()
        try await laptop.sync()
        let there = laptop.context()
        #expect(try there.object(Note.self, "n")?.folder.target == "f")
        #expect(try there.related(to: note, \.tags).map(\.word) == ["urgent"])
        try there.unlink(note, \.tags, tag)
        try there.delete(Folder.self, id: "f")
        try there.save()
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().related(to: note, \.tags).isEmpty)
        #expect(try phone.context().object(Note.self, "n")?.folder.target == nil)
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test func editsOfDifferentPropertiesAreMerged() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "n", title: "a"))
        try await phone.sync()
        try await laptop.sync()
        let (here, there) = (phone.context(), laptop.context())
        try here.edit(Note.self, "n") { $0.title = "b" }
        try there.edit(Note.self, "n") { $0.done = true }
        try here.save()
        try there.save()
        try await phone.sync()
        try await laptop.sync()
        try await phone.sync()
        for device in [phone, laptop] {
            #expect(try device.context().object(Note.self, "n")?.title == "b")
            #expect(try device.context().object(Note.self, "n")?.done == true)
        }
    }

    /// The resolver adds up the stars; the policy decides on all other properties.
    @Test func aMergeResolverOverridesThePolicy() async throws {
        let resolver: MergeResolver = { states in
            var merged = states.theirs
            func stars(_ state: [String: DatabaseValue]) -> Int { state["stars"].flatMap(Int.fromDatabaseValue) ?? 0 }
            merged["stars"] = (stars(states.mine) + stars(states.theirs) - stars(states.base)).databaseValue
            return merged
        }
        let rules: (inout StoreDescription) -> Void = { $0.cloud?.mergeResolvers["Note"] = resolver }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), rules)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), rules)
        try phone.save(Note(id: "n", title: "a"))
        try await phone.sync()
        try await laptop.sync()
        for (mirror, stars, title) in [(phone, 2, "by phone"), (laptop, 3, "by laptop")] {
            let context = mirror.context()
            try context.edit(Note.self, "n") { ($0.stars, $0.title) = (stars, title) }
            try context.save()
        }
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.context().object(Note.self, "n")?.stars == 5)
            #expect(try mirror.context().object(Note.self, "n")?.title == "by phone")
        }
        let dropped = try await laptop.container.mergeDecisions(laptop.store)
        #expect(dropped.contains { $0.property == "title" && $0.dropped.contains("by laptop") })
    }

    /// A resolver's result of the wrong type is ignored, because the object could not be read afterwards.
    @Test(arguments: [true, false]) func aResolversResultOfTheWrongTypeIsIgnored(_ isOfObject: Bool) async throws {
        let rules: (inout StoreDescription) -> Void = { store in
            if isOfObject {
                store.cloud?.mergeResolvers["Note"] = { $0.mine.merging(["stars": "many".databaseValue]) { $1 } }
            } else {
                store.cloud?.propertyResolvers["Note.stars"] = { _, _, _ in "many".databaseValue }
            }
        }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), rules)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), rules)
        try phone.save(Note(id: "n", title: "a"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        for (mirror, stars) in [(phone, 2), (laptop, 3)] {
            let context = mirror.context()
            try context.edit(Note.self, "n") { $0.stars = stars }
            try context.save()
        }
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        let counts = try [phone, laptop].map { try $0.context().fetch(Note.self).map(\.stars) }
        #expect(counts[0] == counts[1] && [[2], [3]].contains(counts[0]))
    }

    @Test func anUpdateByPlainSQLIsSent() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "n", title: "a"))
        try await phone.sync()
        // Through a connection without the mirror.
        let queue = try DatabaseQueue(path: phone.folder.url.appendingPathComponent("private.sqlite").path)
        try await queue.write { db in
            try db.execute(sql: "UPDATE Note SET title = 'by SQL' WHERE id = 'n'")
            try db.execute(sql: "INSERT INTO Note(id, title) VALUES ('m', 'new')")
        }
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.titles == ["n": "by SQL", "m": "new"])
    }

    @Test func aRejectedWriteDoesNotBlockOthers() async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        let context = phone.context()
        relay.limits.recordBytes = 2_000
        for number in 0..<1_000 {
            // Records that are too large are rejected, including the first.
            let isBad = number % 100 == 0
            let title = "\(number)" + (isBad ? String(repeating: "x", count: 3_000) : "")
            try context.insert(Note(id: RecordName("n\(number)"), title: title))
        }
        try context.save()
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles.count == 990)
        #expect(try await phone.container.rejectedWrites(phone.store).count == 10)
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try phone.titles.count == 990)
        // Nothing is pending.
        try await phone.container.sendChanges()
    }
}

/// `waitUntilUpToDate` always ends, and succeeds only after contact with the relay.
@Suite(.timeLimit(.minutes(15))) struct WaitTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func phone() async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: "phone")) }

    @Test func waitingEndsAfterASendAndAFetch() async throws {
        let phone = try await phone()
        try phone.save(Note(id: "n", title: "a"))
        let before = Date()
        try await phone.container.waitUntilUpToDate(timeout: .seconds(120))
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        let seen = try #require(try await phone.container.lastSuccessfulImport(phone.store))
        let sent = try #require(try await phone.container.lastSuccessfulExport(phone.store))
        #expect(seen >= before && sent >= before)
        #expect(try await phone.container.isUpToDate(asOf: before))
        #expect(try await !phone.container.isUpToDate(asOf: Date(timeIntervalSinceNow: 3_600)))
        try phone.save(Note(id: "m", title: "b"))
        #expect(try await !phone.container.isUpToDate(asOf: before))
    }

    /// Without the relay, waiting fails and the error tells the reason.
    @Test func offlineIsNeverUpToDate() async throws {
        let phone = try await phone()
        phone.device.network.cut()
        var error: MirrorError?
        // On a busy machine the failure may take longer, so the timeout is doubled.
        for power in 0..<10 where error?.underlying == nil {
            error = await #expect(throws: MirrorError.self) {
                try await phone.container.waitUntilUpToDate(timeout: .milliseconds(200 << power))
            }
            #expect(error?.code == .timedOut)
        }
        #expect(error?.underlying is MirrorError)
        #expect(error?.explanation.contains("network") == true, "\(error?.explanation ?? "")")
        #expect(try await phone.container.lastSuccessfulImport(phone.store) == nil)
        #expect(try await !phone.container.isUpToDate(asOf: .distantPast))
    }

    /// A hanging request does not delay the timeout; its response is still applied when it arrives.
    @Test func aHangingRequestDoesNotDelayTheTimeout() async throws {
        let phone = try await phone()
        try phone.save(Note(id: "n", title: "a"))
        let (asked, answer) = (Gate(), Gate())
        phone.device.network.fail(
            request: 1,
            of: "changes/database",
            by: .meanwhile {
                asked.open()
                await answer.wait()
            }
        )
        let error = await #expect(throws: MirrorError.self) {
            try await phone.container.waitUntilUpToDate(timeout: .milliseconds(50))
        }
        #expect(error?.code == .timedOut)
        // The request is still in progress, or about to start.
        await asked.wait()
        answer.open()
        try await phone.container.waitUntilUpToDate(timeout: .seconds(120))
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test func aCancelledTaskStopsWaiting() async throws {
        let phone = try await phone()
        let (asked, answer) = (Gate(), Gate())
        phone.device.network.fail(
            request: 1,
            of: "changes/database",
            by: .meanwhile {
                asked.open()
                await answer.wait()
            }
        )
        let wait = Task { try await phone.container.waitUntilUpToDate(timeout: .seconds(86_400)) }
        await asked.wait()
        wait.cancel()
        let error = await #expect(throws: MirrorError.self) { try await wait.value }
        #expect(error?.code == .timedOut)
        answer.open()
        // A task that was cancelled before it started.
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await phone.container.waitUntilUpToDate(timeout: .seconds(86_400))
        }
        await #expect(throws: MirrorError.self) { try await late.value }
    }
}
