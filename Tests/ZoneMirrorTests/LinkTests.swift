import Foundation
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// In a chain of one to one.
struct Page: SyncedRecord, Equatable {
    var id = RecordName()
    var next = ToOne<Page>(inverse: "previous")
    var previous = ToOne<Page>(inverse: "next")

    init() {}
    init(id: RecordName) { self.id = id }
}

/// What links show follows from the relay's records alone: each device shows the same, and so does one that begins with
/// nothing.
@Suite(.timeLimit(.minutes(15))) struct LinkTests {
    private let relay: TestRelay
    private let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
    private let model = MirrorModel(Note.self, Folder.self, Tag.self, Page.self)

    init() throws { relay = try TestRelay() }

    private func device(_ name: String, _ policy: MergePolicy? = nil) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name), model: model) { store in
            if let policy { store.cloud?.mergePolicy = policy }
        }
    }

    /// A note, a folder and a tag, on two devices.
    private func devices(_ policy: MergePolicy? = nil) async throws -> (phone: Mirrored, laptop: Mirrored) {
        let (phone, laptop) = (try await device("phone", policy), try await device("laptop", policy))
        try change(phone) { context in
            try context.insert(Note(id: "n", title: "N"))
            try context.insert(Folder(id: "f", name: "F"))
            try context.insert(Tag(id: "t"))
            for name in ["a", "b", "c"] { try context.insert(Page(id: RecordName(name))) }
        }
        for mirror in [phone, laptop] { try await mirror.sync() }
        return (phone, laptop)
    }

    private func change(_ mirror: Mirrored, _ body: (MirrorContext) throws -> Void) throws {
        let context = mirror.context()
        try body(context)
        try context.save()
    }

    private func pairs(_ mirror: Mirrored) async throws -> [String] {
        let page = try await mirror.device.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil)
        let records = try page.modificationResultsByID.values.map { try $0.get().record }
        return records.filter { $0.recordType == "CDMR" }.map(\.recordID.recordName)
    }

    /// The names of both ends stand in one field of the pair's record, parted by a colon.
    @Test func namesMayHaveColons() async throws {
        let (phone, laptop) = try await devices()
        let names: [RecordName] = ["a:b", ":", "a:", ":b", "\\", "a\\:b", "c\\", "\\d\\\\"]
        try change(phone) { context in
            for name in names {
                let (note, tag) = (Note(id: name, title: ""), Tag(id: RecordName("tag:" + name.text)))
                try context.insert(note)
                try context.insert(tag)
                try context.link(note, \.tags, tag)
                if let other = try context.object(Tag.self, "t") { try context.link(note, \.tags, other) }
            }
        }
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop, try await device("fresh")] {
            try await mirror.sync()
            for name in names {
                let tags = try mirror.context().related(to: Note(id: name, title: ""), \.tags).map(\.id.text)
                #expect(Set(tags) == ["tag:" + name.text, "t"], "\(name)")
            }
        }
    }

    private func tags(_ mirror: Mirrored) throws -> [String] {
        try mirror.context().related(to: Note(id: "n", title: ""), \.tags).map(\.id.text)
    }

    private func folder(_ mirror: Mirrored) throws -> RecordName? {
        try mirror.context().object(Note.self, "n")?.folder.target
    }

    // MARK: Many to many

    /// Who deleted an object did not know of the pair; who made the pair takes it away.
    @Test(arguments: [true, false]) func aPairGoesWithItsEnds(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        try await phone.sync()
        try change(laptop) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        if fetchesFirst { try await laptop.container.fetchChanges() }
        for mirror in [laptop, laptop, phone] { try await mirror.sync() }
        #expect(try await pairs(phone).isEmpty)
        // Nobody finds the new one linked.
        try change(phone) { try $0.insert(Tag(id: "t")) }
        let fresh = try await device("fresh")
        for mirror in [phone, laptop, fresh] {
            try await mirror.sync()
            #expect(try tags(mirror).isEmpty)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// The deletion comes before its maker knows that the relay has the pair: what then arrives is nothing to keep it for.
    @Test(arguments: MergePolicy.allCases) func aPairWhoseAnswerIsLostGoesToo(_ policy: MergePolicy) async throws {
        let (phone, laptop) = try await devices(policy)
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        try await phone.sync()
        try change(laptop) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        laptop.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        #expect(try await pairs(phone).count == 1)
        // The deletion in one page, the pair in the next.
        relay.limits.itemsPerRequest = 1
        try await laptop.container.fetchChanges()
        relay.limits = TestRelay.Limits()
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try await pairs(phone).isEmpty)
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
    }

    /// What was read to be sent, and then taken back by what was fetched before its turn came, is not sent any more.
    @Test func aPairTakenBackBeforeItsTurnIsNotSent() async throws {
        let isRead = Gate()
        var conditions = MirrorConditions()
        conditions.crashPoint = { if $0 == .beforeSend { isRead.open() } }
        let (phone, _) = try await devices()
        let laptop = try await Mirrored(
            relay.device(of: "alice", named: "desk"),
            model: model,
            conditions: conditions
        )
        try await laptop.sync()
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        try await phone.sync()
        try change(laptop) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        let sending = Mutex<Task<Void, any Error>?>(nil)
        laptop.device.network.fail(
            request: 1,
            of: "changes/zone",
            by: .beforeAnswer {
                sending.withLock { $0 = Task { try await laptop.container.sendChanges() } }
                await isRead.wait()
            }
        )
        try await laptop.container.fetchChanges()
        try await sending.withLock { $0 }?.value
        let page = try await phone.device.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil)
        #expect(!page.deletions.contains { $0.recordType == "CDMR" })
        #expect(try await pairs(phone).isEmpty)
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
    }

    /// The pair comes while the deletion is still to be sent: then it goes after the deletion.
    @Test func aPairToWhatIsAboutToGoGoesToo() async throws {
        let (phone, laptop) = try await devices()
        try change(laptop) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        try await laptop.sync()
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        for _ in 0..<2 {
            try await phone.container.fetchChanges()
            #expect(try tags(phone).isEmpty)
            try await phone.container.sendChanges()
        }
        #expect(try await pairs(phone).isEmpty)
        try await laptop.sync()
        #expect(try tags(laptop).isEmpty)
    }

    @Test func aPairGoesWithWhatTheRelayRefuses() async throws {
        let (phone, laptop) = try await devices()
        relay.limits.recordBytes = 2_000
        var refused = Tag(id: "refused")
        refused.word = String(repeating: "x", count: 3_000)
        try change(phone) { context in
            try context.insert(refused)
            try context.link(Note(id: "n", title: ""), \.tags, refused)
        }
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try tags(mirror).isEmpty)
        }
        #expect(try await pairs(phone).isEmpty)
    }

    /// What the zone held is gone, and no reason to make it anew.
    @Test func aPairGoesWithItsZone() async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        try await laptop.device.privateDatabase.deleteRecordZone(withID: zone)
        try await phone.container.fetchChanges()
        try await phone.container.sendChanges()
        #expect(try await !phone.device.privateDatabase.allRecordZones().contains { $0.zoneID == zone })
    }

    // MARK: To one

    /// It was set when its target had been deleted elsewhere: it comes about with another one of that name, for everybody.
    @Test(arguments: [true, false]) func anOpenLinkComesAboutEverywhere(_ isMadeByItsHolder: Bool) async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.delete(Folder.self, id: "f") }
        try await phone.sync()
        try change(laptop) { try $0.edit(Note.self, "n") { $0.folder.target = "f" } }
        for mirror in [laptop, phone] { try await mirror.sync() }
        for mirror in [laptop, phone] { #expect(try folder(mirror) == nil) }
        try change(isMadeByItsHolder ? laptop : phone) { try $0.insert(Folder(id: "f", name: "again")) }
        let fresh = try await device("fresh")
        for mirror in [laptop, phone, laptop, fresh] { try await mirror.sync() }
        for mirror in [laptop, phone, fresh] {
            #expect(try folder(mirror) == "f")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// An object made again under its name is another one: nothing of what it was linked to comes back.
    @Test func anOpenLinkGoesWithItsHolder() async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.delete(Folder.self, id: "f") }
        try await phone.sync()
        try change(laptop) { try $0.edit(Note.self, "n") { $0.folder.target = "f" } }
        for mirror in [laptop, phone] { try await mirror.sync() }
        try change(phone) { try $0.delete(Note.self, id: "n") }
        try change(phone) { try $0.insert(Note(id: "n", title: "another")) }
        try change(phone) { try $0.insert(Folder(id: "f", name: "another")) }
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] { #expect(try folder(mirror) == nil) }
    }

    // MARK: One to one

    private func chain(_ mirror: Mirrored) throws -> [String] {
        try mirror.context().fetch(Page.self).map { page in
            "\(page.previous.target?.text ?? "-") \(page.id.text) \(page.next.target?.text ?? "-")"
        }
    }

    /// Two devices give one page another next one each: both ends of a link say the same, everywhere.
    @Test(arguments: [true, false]) func bothEndsSayTheSame(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.edit(Page.self, "a") { $0.next.target = "b" } }
        try change(laptop) { try $0.edit(Page.self, "a") { $0.next.target = "c" } }
        try await phone.sync()
        if fetchesFirst { try await laptop.container.fetchChanges() }
        let fresh = try await device("fresh")
        for mirror in [laptop, phone, laptop, fresh] { try await mirror.sync() }
        for mirror in [phone, laptop, fresh] { #expect(try chain(mirror) == ["- a c", "- b -", "a c -"]) }
        // What is left of the link that lost does not come back by itself.
        try change(phone) { try $0.edit(Page.self, "c") { $0.previous.target = nil } }
        for mirror in [phone, laptop, fresh] {
            try await mirror.sync()
            #expect(try chain(mirror) == ["- a -", "- b -", "- c -"])
        }
        // And can be made anew.
        try change(laptop) { try $0.edit(Page.self, "a") { $0.next.target = "b" } }
        for mirror in [laptop, phone, fresh] {
            try await mirror.sync()
            #expect(try chain(mirror) == ["- a b", "a b -", "- c -"])
        }
    }

    @Test func aPageThatLeadsToItselfIsLetGo() async throws {
        let (phone, laptop) = try await devices()
        for (target, line) in [("a" as RecordName?, "a a a"), (nil, "- a -"), ("b", "- a b")] {
            try change(phone) { try $0.edit(Page.self, "a") { $0.next.target = target } }
            for mirror in [phone, laptop] {
                try await mirror.sync()
                #expect(try chain(mirror).first == line)
            }
        }
    }

    // MARK: Taken back

    /// Bob may not change what is Alice's: what he changed is as it was, open links included.
    @Test func aChangeTakenBackBringsItsLinksBack() async throws {
        func board(_ user: String) async throws -> Mirrored {
            try await Mirrored(relay.device(of: user), model: model, scope: .public) { $0.unpermittedWrites = .allow }
        }
        let (alice, bob) = (try await board("alice"), try await board("bob"))
        try change(alice) { context in
            try context.insert(Folder(id: "g", name: "G"))
            for (name, folder) in [("n", "f"), ("m", "g")] {
                var note = Note(id: RecordName(name), title: name)
                note.folder.target = RecordName(folder)
                try context.insert(note)
            }
        }
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        try change(bob) { try $0.edit(Note.self, "n") { $0.folder.target = "g" } }
        try change(bob) { try $0.delete(Folder.self, id: "g") }
        _ = try? await bob.container.sendChanges()
        #expect(try folder(bob) == nil)
        #expect(try bob.context().object(Note.self, "m")?.folder.target == "g")
        try change(alice) { try $0.insert(Folder(id: "f", name: "F")) }
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        try await bob.container.pollNow()
        #expect(try folder(bob) == "f")
    }

    /// Where the object may not be deleted it stays, and is nowhere else.
    @Test func whatMayNotGoIsNotMoved() async throws {
        let alice = try await Mirrored(relay.device(of: "alice"), model: model, scope: .public)
        _ = try? await alice.container.fetchChanges()
        try alice.save(Note(id: "n", title: "Alice's"))
        try await alice.container.sendChanges()
        relay.clock.advance(by: .seconds(60))
        let device = relay.device(of: "bob")
        let (cloud, local) = (
            StoreDescription(
                url: try device.folder().appendingPathComponent("public.sqlite"),
                cloud: CloudOptions(container: device.container, scope: .public)
            ), StoreDescription(url: try device.folder().appendingPathComponent("local.sqlite"))
        )
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let bob = MirroredContainer(model: model, stores: [cloud, local], conditions: conditions)
        try await bob.loadStores()
        try await bob.pollNow()
        let note = try #require(try bob.newBackgroundContext().object(Note.self, "n"))
        #expect(throws: MirrorError.self) { try bob.move(note, to: bob.store(at: local.url)) }
        #expect(try bob.newBackgroundContext().fetch(Note.self).map(\.id) == ["n"])
        await bob.close()
    }
}
