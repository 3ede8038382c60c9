import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
