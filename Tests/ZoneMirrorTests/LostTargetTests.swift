import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A context links to an object that another context deletes before the save: no device shows a dangling link.
@Suite(.timeLimit(.minutes(15))) struct LostTargetTests {
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
