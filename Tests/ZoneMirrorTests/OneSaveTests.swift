import Foundation
import GRDB
import Testing
import ZoneMirror

/// Several changes in one save: the effects of one change do not conflict with another.
@Suite struct OneSaveTests {
    private let folder: TemporaryFolder
    private let container: MirroredContainer
    private let store: StoreID

    init() async throws {
        folder = try TemporaryFolder()
        let description = StoreDescription(url: folder.url.appendingPathComponent("local.sqlite"))
        let model = MirrorModel(Note.self, Folder.self, Tag.self, SharedNote.self, Memo.self, Page.self)
        container = MirroredContainer(model: model, stores: [description])
        store = container.store(at: description.url)
        try await container.loadStores()
        let context = container.newBackgroundContext()
        try context.insert(Folder(id: "f", name: "F"))
        var note = Note(id: "n", title: "1")
        note.folder.target = "f"
        try context.insert(note)
        try context.insert(Tag(id: "t"))
        try context.link(note, \.tags, Tag(id: "t"))
        for name in ["trip", "other"] as [RecordName] { try context.insert(SharedNote(id: name, title: name.text)) }
        try context.insert(Memo(text: "passport", note: SharedNote(id: "trip", title: "")))
        try context.save()
    }

    private func context(_ policy: MergePolicy) -> MirrorContext {
        let context = container.newBackgroundContext()
        context.mergePolicy = policy
        return context
    }

    private func folder(_ context: MirrorContext) throws -> Folder {
        try #require(try context.object(Folder.self, "f"))
    }

    private func note(_ context: MirrorContext) throws -> Note { try #require(try context.object(Note.self, "n")) }

    @Test(arguments: MergePolicy.allCases, [true, false])
    func aFolderAndItsNoteCanBeDeletedInOneSave(_ policy: MergePolicy, _ isFolderFirst: Bool) throws {
        let context = context(policy)
        if isFolderFirst { try context.delete(try folder(context)) }
        try context.delete(try note(context))
        if !isFolderFirst { try context.delete(try folder(context)) }
        try context.save()
        #expect(try context.fetch(Folder.self).isEmpty && context.fetch(Note.self).isEmpty)
    }

    /// The folder is renamed, its note edited, and then the folder deleted.
    @Test(arguments: MergePolicy.allCases, [true, false])
    func aNoteCanBeEditedInTheSaveThatDeletesItsFolder(_ policy: MergePolicy, _ isFolderFirst: Bool) throws {
        let context = context(policy)
        if isFolderFirst { try context.edit(Folder.self, "f") { $0.name = "renamed" } }
        try context.edit(Note.self, "n") { $0.title = "2" }
        try context.delete(try folder(context))
        try context.save()
        let left = try note(self.context(policy))
        #expect(left.title == "2" && left.folder.target == nil)
    }

    /// The program's own deletion changed an object of which it still has the former value.
    @Test(arguments: MergePolicy.allCases)
    func anOlderValueOfANoteCanBeSavedAfterItsFolderIsDeleted(_ policy: MergePolicy) throws {
        let context = context(policy)
        var edited = try note(context)
        try context.delete(try folder(context))
        try context.save()
        edited.title = "2"
        try context.update(edited)
        try context.save()
        edited.title = "3"
        try context.update(edited)
        try context.save()
        let left = try note(self.context(policy))
        #expect(left.title == "3" && left.folder.target == nil)
    }

    @Test(arguments: MergePolicy.allCases) func anEditDoesNotRestoreACascadedDeletion(_ policy: MergePolicy) throws {
        let context = context(policy)
        try context.edit(SharedNote.self, "trip") { $0.title = "renamed" }
        let memo = try #require(try context.fetch(Memo.self).first)
        try context.edit(Memo.self, memo.id) { $0.text = "edited" }
        try context.delete(SharedNote.self, id: "trip")
        try context.save()
        #expect(try context.fetch(Memo.self).isEmpty)
        #expect(try context.fetch(SharedNote.self).map(\.id) == ["other"])
    }

    @Test(arguments: MergePolicy.allCases)
    func anObjectLinkedElsewhereInTheSameSaveIsNotDeleted(_ policy: MergePolicy) throws {
        let context = context(policy)
        let memo = try #require(try context.fetch(Memo.self).first)
        try context.delete(SharedNote.self, id: "trip")
        try context.edit(Memo.self, memo.id) { $0.note.target = "other" }
        try context.save()
        #expect(try context.fetch(Memo.self).map(\.note.target) == ["other"])
    }

    /// Reorders the pages of a chain.
    @Test(arguments: MergePolicy.allCases) func bothEndsOfALinkCanBeEdited(_ policy: MergePolicy) throws {
        let before = container.newBackgroundContext()
        for name in ["a", "b", "c"] as [RecordName] { try before.insert(Page(id: name)) }
        try before.edit(Page.self, "a") { $0.next.target = "b" }
        try before.save()
        let context = context(policy)
        try context.edit(Page.self, "a") { $0.next.target = "c" }
        try context.edit(Page.self, "b") { $0.previous.target = nil }
        try context.edit(Page.self, "c") { $0.previous.target = "a" }
        try context.save()
        let pages = try context.fetch(Page.self)
        #expect(pages.map(\.previous.target) == [nil, nil, "a"])
        #expect(pages.map(\.next.target) == ["c", nil, nil])
    }

    /// An object that never existed in the store leaves no rows.
    @Test func anObjectInsertedAndDeletedInOneSaveLeavesNoLink() async throws {
        let context = context(.error)
        let (tag, home) = (Tag(id: "new"), Folder(id: "g", name: "G"))
        try context.insert(tag)
        try context.insert(home)
        try context.link(try note(context), \.tags, tag)
        try context.edit(Note.self, "n") { $0.folder = ToOne(home) }
        try context.delete(tag)
        try context.delete(home)
        try context.save()
        #expect(try note(context).folder.target == nil)
        let database = try #require(container.database(of: store))
        let pairs = try await database.read { try String.fetchAll($0, sql: "SELECT target FROM Note_tags") }
        #expect(pairs == ["t"])
    }
}
