import Foundation
import GRDB
import Testing
import ZoneMirror
import ZoneTesting

/// Objects in a local store: values, conditions, sort orders and links.
@Suite struct ContextTests {
    let folder: TemporaryFolder
    let container: MirroredContainer
    let store: StoreID

    init() async throws {
        folder = try TemporaryFolder()
        let description = StoreDescription(url: folder.url.appendingPathComponent("local.sqlite"))
        container = MirroredContainer(model: notesModel, stores: [description])
        store = container.store(at: description.url)
        try await container.loadStores()
    }

    @Test func everyKindOfValueIsReadBack() throws {
        let context = container.newBackgroundContext()
        var note = Note(id: "n", title: "Grüße 🌍", done: true)
        note.body = "text"
        note.stars = -7
        note.weight = 2.5
        note.at = Date(timeIntervalSince1970: 1_700_000_000.125)
        note.photo = Data([0, 1, 255])
        note.link = URL(string: "https://example.org/a?b=c")
        note.labels = ["x", "y"]
        note.folder = ToOne(Folder(id: "f", name: ""))
        try context.insert(note)
        #expect(try context.object(Note.self, "n") == note)
        try context.save()
        #expect(try container.newBackgroundContext().object(Note.self, "n") == note)
        #expect(try context.fetch(Note.self) == [note])
    }

    @Test func fetchesApplyConditionsAndSortOrders() throws {
        let context = container.newBackgroundContext()
        for (index, title) in ["Buy milk", "Call Bob", "Buy bread"].enumerated() {
            var note = Note(id: RecordName("n\(index)"), title: title, done: index == 1)
            note.stars = index
            note.body = index == 2 ? "b" : nil
            try context.insert(note)
        }
        // Before the save the context evaluates the request, after it SQLite does.
        for _ in 0..<2 {
            func titles(_ condition: Condition<Note>) throws -> [String] {
                try context.fetch(Note.self, condition, sortedBy: .ascending(\.title)).map(\.title)
            }
            #expect(try titles(\.done == false) == ["Buy bread", "Buy milk"])
            #expect(try titles(\.stars >= 1 && \.done == false) == ["Buy bread"])
            #expect(try titles(\.stars == 1 || .hasPrefix(\.title, "Buy m")) == ["Buy milk", "Call Bob"])
            #expect(try titles(!(\.stars < 2)) == ["Buy bread"])
            #expect(try titles(\.body == nil) == ["Buy milk", "Call Bob"])
            #expect(try titles(\.body != nil) == ["Buy bread"])
            #expect(try context.fetch(Note.self, sortedBy: .descending(\.stars)).map(\.stars) == [2, 1, 0])
            var request = FetchRequest(Note.self, sortedBy: .ascending(\.stars))
            request.offset = 1
            request.limit = 1
            #expect(try context.fetch(request).map(\.stars) == [1])
            (request.offset, request.limit) = (-1, -1)
            #expect(try context.fetch(request).isEmpty)
            #expect(try context.count(FetchRequest(Note.self, \.done == true)) == 1)
            try context.save()
        }
        #expect(try context.fetch(Note.self, .sql("stars + ? > 2", 1)).count == 1)
        // More names than a SQLite statement can have arguments.
        let names = (0..<40_000).map { RecordName("n\($0 * 2)") }
        #expect(try context.fetch(Note.self, .ids(names), sortedBy: .ascending(\.stars)).map(\.id) == ["n0", "n2"])
    }

    @Test func rollbackRevertsEditsAndDeletions() throws {
        let context = container.newBackgroundContext()
        try context.insert(Note(id: "a", title: "1"))
        try context.insert(Note(id: "b", title: "2"))
        try context.save()
        try context.edit(Note.self, "a") { $0.title = "changed" }
        try context.delete(Note.self, id: "b")
        #expect(try context.fetch(Note.self).map(\.title) == ["changed"])
        #expect(try container.newBackgroundContext().fetch(Note.self).count == 2)
        context.rollback()
        #expect(try context.fetch(Note.self).map(\.title) == ["1", "2"])
        try context.delete(Note.self, id: "b")
        try context.save()
        #expect(try container.newBackgroundContext().fetch(Note.self).map(\.title) == ["1"])
        #expect(throws: MirrorError.self) { try context.edit(Note.self, "b") { $0.title = "gone" } }
    }

    @Test func linksAreReadableFromBothEnds() throws {
        let context = container.newBackgroundContext()
        let folder = Folder(id: "f", name: "Home")
        var note = Note(id: "n", title: "in it")
        note.folder = ToOne(folder)
        try context.insert(folder)
        try context.insert(note)
        #expect(try context.related(to: folder, \.notes).map(\.title) == ["in it"])
        try context.save()
        #expect(try context.related(to: folder, \.notes).map(\.title) == ["in it"])
        #expect(try context.object(note.folder)?.name == "Home")
        #expect(try context.fetch(Note.self, \.folder == folder).count == 1)
        let tag = Tag(word: "urgent")
        try context.insert(tag)
        try context.link(note, \.tags, tag)
        #expect(try context.related(to: note, \.tags).map(\.word) == ["urgent"])
        try context.save()
        #expect(try context.related(to: tag, \.notes).map(\.title) == ["in it"])
        try context.unlink(note, \.tags, tag)
        #expect(try context.related(to: note, \.tags).isEmpty)
        try context.save()
        #expect(try context.related(to: tag, \.notes).isEmpty)
        // Deleting the folder leaves the note, without the link.
        try context.delete(Folder.self, id: "f")
        try context.save()
        #expect(try context.object(Note.self, "n")?.folder.target == nil)
    }

    /// Only one of the two objects is given the link, and either may be inserted first.
    @Test(arguments: [true, false]) func aOneToOneLinkIsVisibleFromBothEnds(_ holderFirst: Bool) async throws {
        let home = try TemporaryFolder()
        let description = StoreDescription(url: home.url.appendingPathComponent("local.sqlite"))
        let model = MirrorModel(Basket.self, Shelf.self, Ware.self)
        let container = MirroredContainer(model: model, stores: [description])
        try await container.loadStores()
        let context = container.newBackgroundContext()
        var cake = Ware(id: "cake", name: "cake")
        var basket = Basket(id: "party", name: "party")
        basket.favourite = ToOne(cake)
        if holderFirst { try context.insert(basket) }
        try context.insert(cake)
        if !holderFirst { try context.insert(basket) }
        try context.save()
        #expect(try context.object(Ware.self, "cake")?.favouriteOf.target == "party")
        // An update with the originally inserted value must not remove a link that the value does not contain.
        for name in ["tart", "pie", "tart"] {
            cake.name = name
            try context.update(cake)
        }
        try context.save()
        let seen = try #require(try container.newBackgroundContext().object(Ware.self, "cake"))
        #expect(seen.name == "tart" && seen.favouriteOf.target == "party")
        #expect(try context.object(Basket.self, "party")?.favourite.target == "cake")
        // The link is set from the other end, which moves it.
        try context.insert(Ware(id: "bread", name: "bread"))
        try context.edit(Ware.self, "bread") { $0.favouriteOf = ToOne<Basket>("party") }
        try context.save()
        #expect(try context.object(Basket.self, "party")?.favourite.target == "bread")
        #expect(try context.object(Ware.self, "cake")?.favouriteOf.target == nil)
        await container.close()
    }

    /// A save whose object another program has created under the same name meanwhile merges it or throws a conflict.
    @Test func aNameTakenMeanwhileIsMergedOrReportedAsAConflict() throws {
        let (context, other) = (container.newBackgroundContext(), container.newBackgroundContext())
        var (mine, theirs) = (Note(id: "n", title: "same"), Note(id: "n", title: "same"))
        (mine.stars, theirs.done) = (3, true)
        try context.insert(mine)
        let tag = Tag(word: "red")
        for place in [other, context] {
            try place.insert(tag)
            try place.insert(Note(id: "m", title: "same"))
            try place.link(Note(id: "m", title: "same"), \.tags, tag)
        }
        try other.insert(theirs)
        try other.save()
        let error = #expect(throws: MirrorError.self) { try context.save() }
        guard case .mergeConflict(let conflicts)? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(conflicts.map(\.object.name) == ["n"])
        #expect(error?.explanation.hasPrefix("An object changed since") == true)
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.save()
        let note = try #require(try other.object(Note.self, "n"))
        #expect(note.stars == 3 && note.done)
        #expect(try other.related(to: tag, \.notes).map(\.id) == ["m"])
    }

    /// A program may keep values longer than another writer's commit; saving them later must not revert that commit.
    @Test(arguments: MergePolicy.allCases)
    @MainActor func olderValuesDoNotRevertAnothersCommit(_ policy: MergePolicy) throws {
        let (view, other) = (container.viewContext, container.newBackgroundContext())
        view.mergePolicy = policy
        var made = Note(id: "made", title: "1")
        try view.insert(made)
        try view.insert(Note(id: "read", title: "1"))
        try view.save()
        var read = try #require(try view.object(Note.self, "read"))
        read.title = "2"
        try view.update(read)
        try view.save()
        try other.edit(Note.self, "made") { $0.body = "arrived" }
        try other.save()
        made.stars = 3
        read.title = "3"
        try view.update(made)
        try view.update(read)
        try view.save()
        let now = try #require(try other.object(Note.self, "made"))
        #expect(now.body == "arrived" && now.stars == 3)
        #expect(try other.object(Note.self, "read")?.title == "3")
    }

    /// SQLite and the context both compare code points and bytes.
    @Test func prefixesAreComparedByBytes() throws {
        let context = container.newBackgroundContext()
        for (name, title) in [("a", "🇩🇪 trip"), ("b", "e\u{301}tude"), ("c", "\u{e9}tude")] {
            try context.insert(Note(id: RecordName(name), title: title))
        }
        for _ in 0..<2 {
            func names(_ text: String) throws -> [RecordName] {
                try context.fetch(Note.self, .hasPrefix(\.title, text)).map(\.id)
            }
            #expect(try names("🇩🇪") == ["a"])
            #expect(try names("e\u{301}") == ["b"])
            #expect(try names("\u{e9}") == ["c"])
            #expect(try names("e") == ["b"])
            #expect(try names("").count == 3)
            try context.save()
        }
    }

    /// Removing and restoring a link in one save keeps it, even if another writer chose the row's name.
    @Test func aLinkCreatedBySQLCanBeRemovedAndRestored() async throws {
        let context = container.newBackgroundContext()
        let (note, tag) = (Note(id: "n", title: "a"), Tag(word: "red"))
        try context.insert(note)
        try context.insert(tag)
        try context.save()
        let database = try #require(container.database(of: store))
        try await database.write { db in
            let sql = "INSERT INTO Note_tags(source, target) VALUES (?, ?)"
            try db.execute(sql: sql, arguments: [note.id.text, tag.id.text])
        }
        try context.unlink(note, \.tags, tag)
        #expect(try context.related(to: note, \.tags).isEmpty)
        try context.link(note, \.tags, tag)
        try context.save()
        #expect(try context.related(to: note, \.tags).map(\.id) == [tag.id])
    }

    @Test func plainSQLReadsAndWritesTheSameRows() throws {
        let database = try #require(container.database(of: store))
        try database.write { db in
            try db.execute(sql: "INSERT INTO Note(title, stars) VALUES ('by SQL', 3)")
        }
        let notes = try container.newBackgroundContext().fetch(Note.self)
        #expect(notes.map(\.title) == ["by SQL"])
        #expect(notes.first?.id.text.count == 36)
        #expect(notes.first?.done == false)
    }

    @Test func loadingTheSameFileTwiceThrows() async throws {
        let url = folder.url.appendingPathComponent("twice.sqlite")
        let twice = MirroredContainer(
            model: notesModel,
            stores: [StoreDescription(url: url), StoreDescription(url: url)]
        )
        let error = await #expect(throws: MirrorError.self) { try await twice.loadStores() }
        #expect(error?.code == .storeAlreadyLoaded(url))
    }

    @Test func anEntityCanHaveObjectsInTwoStores() async throws {
        let folder = try TemporaryFolder()
        let first = StoreDescription(url: folder.url.appendingPathComponent("first.sqlite"))
        let second = StoreDescription(url: folder.url.appendingPathComponent("second.sqlite"))
        let container = MirroredContainer(model: notesModel, stores: [first, second])
        try await container.loadStores()
        let (one, two) = (container.store(at: first.url), container.store(at: second.url))
        let context = container.newBackgroundContext()
        let (here, there) = (Note(id: "a", title: "here"), Note(id: "b", title: "there"))
        try context.insert(here)
        try context.insert(there)
        try context.assign(there, to: two)
        try context.save()
        #expect(try context.fetch(Note.self).map(\.title) == ["here", "there"])
        var request = FetchRequest(Note.self)
        request.affectedStores = [two]
        #expect(try context.fetch(request).map(\.title) == ["there"])
        #expect(try context.store(of: here) == one)
        #expect(try context.store(of: there) == two)
        // A new object is stored with the object that it links to; a link between stores throws.
        var folderThere = Folder(id: "f", name: "there")
        folderThere.name = "F"
        try context.insert(folderThere)
        try context.assign(folderThere, to: two)
        var inside = Note(id: "c", title: "inside")
        inside.folder = ToOne(folderThere)
        try context.insert(inside)
        try context.save()
        #expect(try context.store(of: inside) == two)
        try context.edit(Note.self, "a") { $0.folder = ToOne(folderThere) }
        let error = #expect(throws: MirrorError.self) { try context.save() }
        #expect(error?.code == .crossStoreRelationship)
    }
}

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
