import Foundation
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A page in a chain of one-to-one links.
struct Page: SyncedRecord, Equatable {
    var id = RecordName()
    var next = ToOne<Page>(inverse: "previous")
    var previous = ToOne<Page>(inverse: "next")

    init() {}
    init(id: RecordName) { self.id = id }
}

/// Links depend on the relay's records only: all devices show the same links, including a new device.
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

    /// A pair record stores the names of both ends in one field, separated by a colon.
    @Test func namesMayContainColons() async throws {
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

    /// The device that deleted the object did not know of the pair, so the device that created the pair deletes it.
    @Test(arguments: [true, false]) func aPairIsDeletedWithItsEnd(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        try await phone.sync()
        try change(laptop) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        if fetchesFirst { try await laptop.container.fetchChanges() }
        for mirror in [laptop, laptop, phone] { try await mirror.sync() }
        #expect(try await pairs(phone).isEmpty)
        // A new object of the same name is not linked.
        try change(phone) { try $0.insert(Tag(id: "t")) }
        let fresh = try await device("fresh")
        for mirror in [phone, laptop, fresh] {
            try await mirror.sync()
            #expect(try tags(mirror).isEmpty)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// The device fetches the deletion before it knows that the relay has the pair; the pair must not be kept when it
    /// arrives.
    @Test(arguments: MergePolicy.allCases)
    func aPairIsDeletedEvenIfItsResponseWasLost(_ policy: MergePolicy) async throws {
        let (phone, laptop) = try await devices(policy)
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        try await phone.sync()
        try change(laptop) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        laptop.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        #expect(try await pairs(phone).count == 1)
        // The deletion is in one page, the pair in the next.
        relay.limits.itemsPerRequest = 1
        try await laptop.container.fetchChanges()
        relay.limits = TestRelay.Limits()
        for mirror in [laptop, phone] { try await mirror.sync() }
        #expect(try await pairs(phone).isEmpty)
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
    }

    /// A pair that was prepared for sending, and then removed by a fetch before its request, is not sent.
    @Test func aPairRemovedBeforeItsRequestIsNotSent() async throws {
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

    /// The pair arrives while the deletion is unsent; it is deleted after the object.
    @Test func aPairToAnObjectWithAPendingDeletionIsDeleted() async throws {
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

    @Test func aPairIsRemovedWithARejectedObject() async throws {
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

    /// The pair of a deleted zone must not recreate the zone.
    @Test func aPairIsRemovedWithItsZone() async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.link(Note(id: "n", title: ""), \.tags, Tag(id: "t")) }
        try await laptop.device.privateDatabase.deleteRecordZone(withID: zone)
        try await phone.container.fetchChanges()
        try await phone.container.sendChanges()
        #expect(try await !phone.device.privateDatabase.allRecordZones().contains { $0.zoneID == zone })
    }

    // MARK: To-one links

    /// The link was set after its target was deleted on another device; a new object of that name completes it on all
    /// devices.
    @Test(arguments: [true, false]) func anUnresolvedLinkResolvesOnAllDevices(_ isMadeByItsHolder: Bool) async throws {
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

    /// An object recreated under the same name is a different one; it does not get the former links.
    @Test func anUnresolvedLinkIsDeletedWithItsSource() async throws {
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

    // MARK: One-to-one links

    private func chain(_ mirror: Mirrored) throws -> [String] {
        try mirror.context().fetch(Page.self).map { page in
            "\(page.previous.target?.text ?? "-") \(page.id.text) \(page.next.target?.text ?? "-")"
        }
    }

    /// Two devices set different next pages for one page; both ends of each link must agree on all devices.
    @Test(arguments: [true, false]) func bothEndsOfALinkAgreeAfterAConflict(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices()
        try change(phone) { try $0.edit(Page.self, "a") { $0.next.target = "b" } }
        try change(laptop) { try $0.edit(Page.self, "a") { $0.next.target = "c" } }
        try await phone.sync()
        if fetchesFirst { try await laptop.container.fetchChanges() }
        let fresh = try await device("fresh")
        for mirror in [laptop, phone, laptop, fresh] { try await mirror.sync() }
        for mirror in [phone, laptop, fresh] { #expect(try chain(mirror) == ["- a c", "- b -", "a c -"]) }
        // The rest of the losing link does not come back.
        try change(phone) { try $0.edit(Page.self, "c") { $0.previous.target = nil } }
        for mirror in [phone, laptop, fresh] {
            try await mirror.sync()
            #expect(try chain(mirror) == ["- a -", "- b -", "- c -"])
        }
        // The link can be set again.
        try change(laptop) { try $0.edit(Page.self, "a") { $0.next.target = "b" } }
        for mirror in [laptop, phone, fresh] {
            try await mirror.sync()
            #expect(try chain(mirror) == ["- a b", "a b -", "- c -"])
        }
    }

    @Test func aPageCanLinkToItselfAndBeUnlinked() async throws {
        let (phone, laptop) = try await devices()
        for (target, line) in [("a" as RecordName?, "a a a"), (nil, "- a -"), ("b", "- a b")] {
            try change(phone) { try $0.edit(Page.self, "a") { $0.next.target = target } }
            for mirror in [phone, laptop] {
                try await mirror.sync()
                #expect(try chain(mirror).first == line)
            }
        }
    }

    // MARK: Reverted changes

    /// Bob may not change Alice's objects: his changes are reverted, including unresolved links.
    @Test func revertingAChangeRestoresItsLinks() async throws {
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

    /// An object that the user may not delete stays in its store and is not copied to another.
    @Test func anObjectThatCannotBeDeletedIsNotMoved() async throws {
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

/// A context links to an object that another context deletes before the save: no device shows a dangling link.
@Suite(.timeLimit(.minutes(15))) struct DanglingLinkTests {
    private let relay: TestRelay
    private let phone: Mirrored
    private let model = MirrorModel(Note.self, Folder.self, Tag.self, Page.self)

    init() async throws {
        relay = try TestRelay()
        phone = try await Mirrored(relay.device(of: "alice", named: "phone"), model: model)
        let context = phone.context()
        try context.insert(Note(id: "n", title: "N"))
        try context.insert(Folder(id: "f", name: "F"))
        try context.insert(Tag(id: "t"))
        for name in ["a", "b"] as [RecordName] { try context.insert(Page(id: name)) }
        try context.save()
        try await phone.sync()
    }

    private func change(_ mirror: Mirrored, _ body: (MirrorContext) throws -> Void) throws {
        let context = mirror.context()
        try body(context)
        try context.save()
    }

    private func folders(_ context: MirrorContext) throws -> [RecordName?] {
        try context.fetch(Note.self, sortedBy: .ascending(\.title)).map(\.folder.target)
    }

    /// The link stays unresolved until another object of that name exists, on all devices.
    @Test(arguments: [true, false], [true, false])
    func aLinkToAnObjectDeletedMeanwhileIsUnresolved(_ isNew: Bool, _ isSent: Bool) async throws {
        let context = phone.context()
        let name: RecordName = isNew ? "new" : "n"
        var note = Note(id: name, title: "O")
        note.folder.target = "f"
        if isNew { try context.insert(note) } else { try context.edit(Note.self, "n") { $0.folder.target = "f" } }
        try change(phone) { try $0.delete(Folder.self, id: "f") }
        if isSent { try await phone.sync() }
        try context.save()
        #expect(try context.object(Note.self, name)?.folder.target == nil)
        // Later edits keep the link unresolved.
        try context.edit(Note.self, name) { $0.stars = 3 }
        try context.save()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try folders(mirror.context()).allSatisfy { $0 == nil })
            #expect(try mirror.context().object(Note.self, name)?.stars == 3)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        try change(laptop) { try $0.insert(Folder(id: "f", name: "again")) }
        for mirror in [laptop, phone] {
            try await mirror.sync()
            #expect(try mirror.context().object(Note.self, name)?.folder.target == "f")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// A link to an object that does not exist yet resolves as soon as the object exists.
    @Test func aLinkToAFutureObjectResolvesWithIt() async throws {
        let context = phone.context()
        var note = Note(id: "early", title: "E")
        note.folder.target = "late"
        try context.insert(note)
        try context.save()
        try context.insert(Folder(id: "late", name: "L"))
        note.stars = 1
        try context.update(note)
        try context.save()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.context().object(Note.self, "early")?.folder.target == "late")
            #expect(try mirror.context().object(Note.self, "early")?.stars == 1)
        }
    }

    @Test(arguments: [true, false]) func aPairWithAnObjectDeletedMeanwhileIsNotCreated(_ isSent: Bool) async throws {
        let context = phone.context()
        try context.link(Note(id: "n", title: ""), \.tags, Tag(id: "t"))
        try change(phone) { try $0.delete(Tag.self, id: "t") }
        if isSent { try await phone.sync() }
        try context.save()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        for mirror in [phone, laptop] { try await mirror.sync() }
        try change(laptop) { try $0.insert(Tag(id: "t")) }
        for mirror in [laptop, phone] {
            try await mirror.sync()
            #expect(try mirror.context().related(to: Note(id: "n", title: ""), \.tags).isEmpty)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    @Test(arguments: [true, false])
    func aOneToOneLinkToAnObjectDeletedMeanwhileIsUnresolved(_ isSent: Bool) async throws {
        let context = phone.context()
        try context.edit(Page.self, "a") { $0.next.target = "b" }
        try change(phone) { try $0.delete(Page.self, id: "b") }
        if isSent { try await phone.sync() }
        try context.save()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.context().object(Page.self, "a")?.next.target == nil)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }
}

/// Dropping an unsent deletion also reverts the deletion's unsent effects on other objects.
@Suite(.timeLimit(.minutes(15))) struct DroppedDeletionTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func tags(_ mirror: Mirrored) throws -> [RecordName] {
        try mirror.context().related(to: Note(id: "n", title: ""), \.tags).map(\.id).sorted()
    }

    /// Dropping a deletion also drops the deletion of the object's links, as soon as both ends exist again.
    @Test func droppingADeletionRestoresManyToManyLinks() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        try context.insert(Note(id: "n", title: "1"))
        for name in ["s", "t", "u"] as [RecordName] {
            try context.insert(Tag(id: name))
            try context.link(Note(id: "n", title: ""), \.tags, Tag(id: name))
        }
        try context.save()
        try await phone.sync()
        try context.delete(Note.self, id: "n")
        for name in ["t", "u"] as [RecordName] { try context.delete(Tag.self, id: name) }
        try context.save()
        for (entity, name) in [("Note", "n"), ("Tag", "t")] {
            let id = ObjectID(store: phone.store, entity: entity, name: RecordName(name))
            try await phone.container.dropPendingExport(of: id)
        }
        #expect(try tags(phone) == ["s", "t"])
        #expect(try await phone.container.pendingExports(phone.store).map(\.name).sorted() == ["Note_tags.n.u", "u"])
        try await phone.sync()
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try await laptop.sync()
        for mirror in [phone, laptop] { #expect(try tags(mirror) == ["s", "t"]) }
    }

    /// To-one links to the object are restored too, unless an earlier edit cleared or changed them.
    @Test func droppingADeletionRestoresToOneLinks() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        for name in ["f", "g"] as [RecordName] { try context.insert(Folder(id: name, name: name.text)) }
        for name in ["edited", "emptied", "moved", "plain"] as [RecordName] {
            var note = Note(id: name, title: name.text)
            note.folder.target = "f"
            try context.insert(note)
        }
        try context.save()
        try await phone.sync()
        try context.edit(Note.self, "edited") { $0.stars = 1 }
        try context.edit(Note.self, "emptied") { $0.folder.target = nil }
        try context.edit(Note.self, "moved") { $0.folder.target = "g" }
        try context.save()
        try context.delete(Folder.self, id: "f")
        try context.save()
        let folder = ObjectID(store: phone.store, entity: "Folder", name: "f")
        try await phone.container.dropPendingExport(of: folder)
        let pending = try await phone.container.pendingExports(phone.store).map(\.name).sorted()
        #expect(pending == ["edited", "emptied", "moved"])
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        for mirror in [phone, laptop] {
            try await mirror.sync()
            let notes = try mirror.context().fetch(Note.self, sortedBy: .ascending(\.title))
            #expect(notes.map(\.folder.target) == ["f", nil, "g", "f"])
            #expect(notes.map(\.stars) == [1, 0, 0, 0])
        }
    }

    /// A link that was removed before the deletion stays removed.
    @Test func droppingADeletionDoesNotRestoreLinksRemovedEarlier() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        let (note, tag) = (Note(id: "n", title: "1"), Tag(id: "t"))
        try context.insert(note)
        try context.insert(tag)
        try context.link(note, \.tags, tag)
        try context.save()
        try await phone.sync()
        try context.unlink(note, \.tags, tag)
        try context.save()
        try context.delete(tag)
        try context.save()
        try await phone.container.dropPendingExport(of: ObjectID(store: phone.store, entity: "Tag", name: "t"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.context().fetch(Tag.self).map(\.id) == ["t"])
            #expect(try tags(mirror) == [])
        }
    }

    /// Both ends of a one-to-one link are restored.
    @Test(arguments: ["a", "b"] as [RecordName])
    func droppingADeletionRestoresAOneToOneLink(_ name: RecordName) async throws {
        let model = MirrorModel(Page.self)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), model: model)
        let context = phone.context()
        for name in ["a", "b"] as [RecordName] { try context.insert(Page(id: name)) }
        try context.edit(Page.self, "a") { $0.next.target = "b" }
        try context.save()
        try await phone.sync()
        try context.delete(Page.self, id: name)
        try context.save()
        try await phone.container.dropPendingExport(of: ObjectID(store: phone.store, entity: "Page", name: name))
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.context().object(Page.self, "a")?.next.target == "b")
            #expect(try mirror.context().object(Page.self, "b")?.previous.target == "a")
        }
    }

    /// After the relay rejects a deletion, links whose clearing was not sent are kept.
    @Test func aRejectedDeletionClearsNoLinks() async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let context = phone.context()
        try context.insert(Folder(id: "f", name: "F"))
        var note = Note(id: "n", title: "1")
        note.folder.target = "f"
        try context.insert(note)
        try context.save()
        try await phone.sync()
        try context.delete(Folder.self, id: "f")
        try context.edit(Note.self, "n") { $0.title = "2" }
        try context.save()
        let answer = """
            {"records":[{"recordName":"n","reason":"no","serverErrorCode":"ATOMIC_ERROR"},
            {"recordName":"f","reason":"no","serverErrorCode":"BAD_REQUEST"}]}
            """
        phone.device.network.fail(request: 1, of: "records/modify", by: .answered(status: 200, body: answer))
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        for mirror in [phone, laptop] {
            try await mirror.sync()
            let note = try #require(try mirror.context().object(Note.self, "n"))
            #expect(note.folder.target == "f" && note.title == "2")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// Dropping the pending export of an object without one must not remove the object.
    @Test func droppingHasNoEffectWithoutAPendingExport() async throws {
        let folder = try TemporaryFolder()
        let local = StoreDescription(url: folder.url.appendingPathComponent("local.sqlite"))
        let container = MirroredContainer(model: notesModel, stores: [local])
        try await container.loadStores()
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        for (each, isSent) in [(container, false), (phone.container, true)] {
            let context = each.newBackgroundContext()
            let note = Note(id: "n", title: "a")
            try context.insert(note)
            try context.save()
            if isSent { try await each.sendChanges() }
            try await each.dropPendingExport(of: try context.objectID(of: note))
            #expect(try each.newBackgroundContext().fetch(Note.self).map(\.title) == ["a"])
        }
        await container.close()
    }
}
