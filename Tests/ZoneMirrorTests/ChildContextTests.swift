import Foundation
import Testing
import ZoneMirror
import ZoneTesting

/// Child contexts, such as for a form that can be cancelled.
@Suite struct ChildContextTests {
    private let folder: TemporaryFolder
    private let container: MirroredContainer

    init() async throws {
        folder = try TemporaryFolder()
        container = MirroredContainer(
            model: notesModel,
            stores: [StoreDescription(url: folder.url.appendingPathComponent("notes.sqlite"))]
        )
        try await container.loadStores()
    }

    private func titles(_ context: MirrorContext) throws -> [String] {
        try context.fetch(Note.self, sortedBy: .ascending(\.title)).map(\.title)
    }

    @Test func aChildReadsFromAndSavesIntoItsParent() async throws {
        let parent = container.newBackgroundContext(named: "list")
        try parent.insert(Note(id: "saved", title: "a"))
        try parent.save()
        try parent.insert(Note(id: "new", title: "b"))
        let child = parent.newChildContext(named: "form")
        #expect(try titles(child) == ["a", "b"])
        try child.edit(Note.self, "saved") { $0.title = "a2" }
        try child.edit(Note.self, "new") { $0.stars = 5 }
        try child.insert(Note(id: "third", title: "c"))
        #expect(try titles(child) == ["a2", "b", "c"])
        // The parent does not see the child's changes before the child saves, and that save does not write to the
        // store.
        #expect(try titles(parent) == ["a", "b"])
        try parent.edit(Note.self, "saved") { $0.stars = 3 }
        try child.save()
        #expect(!child.hasChanges && parent.hasChanges)
        #expect(try titles(parent) == ["a2", "b", "c"])
        #expect(try titles(container.newBackgroundContext()) == ["a"])
        // The parent has both edits of the same object.
        #expect(try parent.object(Note.self, "saved")?.stars == 3)
        #expect(try parent.object(Note.self, "new")?.stars == 5)
        try parent.save()
        #expect(try titles(container.newBackgroundContext()) == ["a2", "b", "c"])
        await container.close()
    }

    @Test func aChildThatIsRolledBackHasNoEffect() async throws {
        let parent = container.newBackgroundContext()
        try parent.insert(Note(id: "a", title: "a"))
        let child = parent.newChildContext()
        try child.delete(Note.self, id: "a")
        #expect(try child.object(Note.self, "a") == nil)
        child.rollback()
        #expect(try titles(child) == ["a"])
        // Deleting an object that is new in the parent removes it from the parent's changes.
        try child.delete(Note.self, id: "a")
        try child.save()
        #expect(!parent.hasChanges)
        await container.close()
    }

    @Test func grandchildrenCanDeleteAndEditSavedObjects() async throws {
        let parent = container.newBackgroundContext()
        try parent.insert(Note(id: "a", title: "a"))
        try parent.insert(Note(id: "b", title: "b"))
        try parent.save()
        let child = parent.newChildContext()
        let grandchild = child.newChildContext()
        try grandchild.delete(Note.self, id: "a")
        try grandchild.edit(Note.self, "b") { $0.title = "b2" }
        try grandchild.save()
        #expect(try titles(child) == ["b2"] && titles(parent) == ["a", "b"])
        // Inserted again in the child: the same object with other values.
        try child.insert(Note(id: "a", title: "a2"))
        try child.save()
        try parent.save()
        #expect(try titles(container.newBackgroundContext()) == ["a2", "b2"])
        await container.close()
    }

    /// A child reads the query generation that its parent is pinned to.
    @Test func childrenReadTheirParentsQueryGeneration() async throws {
        let writer = container.newBackgroundContext()
        try writer.insert(Note(id: "a", title: "a"))
        try writer.save()
        let parent = container.newBackgroundContext()
        parent.setQueryGeneration(.current)
        #expect(try titles(parent) == ["a"])
        let child = parent.newChildContext()
        try writer.edit(Note.self, "a") { $0.title = "later" }
        try writer.save()
        #expect(try titles(child) == ["a"])
        parent.refreshAll()
        #expect(try titles(child) == ["later"])
        await container.close()
    }
}
