import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The choice of a store for new objects, and moves between stores.
@Suite(.timeLimit(.minutes(15))) struct StoreChoiceTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func store(_ name: String, _ cloud: CKContainer? = nil) -> StoreDescription {
        StoreDescription(
            url: folder.url.appendingPathComponent("\(name).sqlite"),
            cloud: cloud.map { CloudOptions(container: $0) }
        )
    }

    private func container(_ model: MirrorModel, _ stores: StoreDescription...) async throws -> MirroredContainer {
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let container = MirroredContainer(model: model, stores: stores, conditions: conditions)
        try await container.loadStores()
        return container
    }

    /// A store whose file is closed still has priority; objects meant for it must not end up unsent in the next store.
    @Test func aStoreWithAClosedFileIsNotSkipped() async throws {
        let container = try await container(notesModel, store("first"), store("second"))
        let (first, second) = (container.descriptions[0].id, container.descriptions[1].id)
        await container.stores.closeFile(first)
        let context = container.newBackgroundContext()
        let note = Note(id: "a", title: "1")
        try context.insert(note)
        let error = #expect(throws: MirrorError.self) { try context.save() }
        #expect(error?.code == .noStoreForEntity)
        try context.assign(note, to: second)
        try context.save()
        try await container.loadStores()
        #expect(container.stores.files.map(\.id) == [first, second])
        try context.insert(Note(id: "b", title: "2"))
        try context.save()
        #expect(try context.store(of: try #require(try context.object(Note.self, "b"))) == first)
        await container.close()
    }

    /// A move includes changes saved since the object was read, and the caller's own unsaved changes.
    @Test func aMoveUsesTheCurrentObject() async throws {
        let container = try await container(notesModel, store("first"), store("second"))
        let context = container.newBackgroundContext()
        try context.insert(Note(id: "a", title: "1"))
        try context.save()
        var note = try #require(try context.object(Note.self, "a"))
        let other = container.newBackgroundContext()
        try other.edit(Note.self, "a") { $0.body = "arrived since" }
        try other.save()
        note.stars = 3
        let moved = try container.move(note, to: container.descriptions[1].id)
        #expect(moved.title == "1" && moved.body == "arrived since" && moved.stars == 3)
        #expect(try context.fetch(Note.self).map(\.id) == [moved.id])
        await container.close()
    }

    /// Only the object is moved; its cascade delete rules do not apply.
    @Test func aMoveDoesNotDeleteLinkedObjects() async throws {
        let model = MirrorModel(SharedNote.self, Memo.self)
        let container = try await container(model, store("first"), store("second"))
        let context = container.newBackgroundContext()
        let note = SharedNote(id: "trip", title: "Trip")
        try context.insert(note)
        try context.insert(Memo(text: "passport", note: note))
        try context.save()
        let trip = try #require(try context.object(SharedNote.self, "trip"))
        let moved = try container.move(trip, to: container.descriptions[1].id)
        #expect(moved.title == "Trip")
        let memos = try container.newBackgroundContext().fetch(Memo.self)
        #expect(memos.map(\.text) == ["passport"] && memos.allSatisfy { $0.note.target == nil })
        await container.close()
    }

    /// Deduplication does not keep a soft-deleted object in place of another.
    @Test func aSoftDeletedObjectDoesNotCountAsADuplicate() async throws {
        let container = try await container(MirrorModel(Post.self), store("posts"))
        let context = container.newBackgroundContext()
        for name in ["a", "b", "c"] { try context.insert(Post(id: RecordName(name), text: "same")) }
        try context.save()
        try context.softDelete(try #require(try context.object(Post.self, "a")))
        try context.save()
        #expect(try await container.deduplicate(Post.self, by: "text") == 1)
        #expect(try container.newBackgroundContext().fetch(Post.self).map(\.id) == ["b"])
        await container.close()
    }

    /// This holds before and after the save.
    @Test func aSoftDeletedObjectIsNotAmongRelatedObjects() async throws {
        let container = try await container(MirrorModel(Shelf.self, Jar.self), store("jars"))
        let context = container.newBackgroundContext()
        let shelf = Shelf(id: "s")
        try context.insert(shelf)
        for name in ["a", "b"] as [RecordName] { try context.insert(Jar(id: name, shelf: shelf)) }
        try context.save()
        try context.softDelete(try #require(try context.object(Jar.self, "a")))
        for _ in 0..<2 {
            #expect(try context.related(to: shelf, \.jars).map(\.id) == ["b"])
            try context.save()
        }
        await container.close()
    }

    private struct Shelf: SyncedRecord {
        var id = RecordName()
        var jars = ToMany<Jar>(inverse: "shelf")

        init() {}
        init(id: RecordName) { self.id = id }
    }

    private struct Jar: SyncedRecord {
        var id = RecordName()
        var deletedAt: Date?
        var shelf = ToOne<Shelf>(inverse: "jars")

        init() {}

        init(id: RecordName, shelf: Shelf) {
            self.id = id
            self.shelf = ToOne(shelf)
        }

        static func describe(_ entity: inout Entity) { entity.softDeletion = "deletedAt" }
    }
}
