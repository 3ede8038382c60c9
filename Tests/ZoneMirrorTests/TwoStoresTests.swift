import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A user's own object and an object shared by another user have the same name; they stay separate.
@Suite(.timeLimit(.minutes(15))) struct TwoStoresTests {
    private let home: Household
    private var alice: NotesApp { home.phone }
    private var bob: NotesApp { home.bob }

    init() async throws {
        home = try await Household(memo: "hers")
        try await home.share()
        let context = home.bob.context()
        let own = SharedNote(id: "trip", title: "Bob's")
        try context.insert(own)
        try context.assign(own, to: home.bob.mine)
        try context.save()
        let memo = Memo(text: "his", note: try note("Bob's", context))
        try context.insert(memo)
        try context.assign(memo, to: home.bob.mine)
        try context.save()
        try await home.bob.sync()
    }

    private func note(_ title: String, _ context: MirrorContext) throws -> SharedNote {
        try #require(try context.fetch(SharedNote.self, \.title == title).first)
    }

    private func titles(_ app: NotesApp) throws -> [String] {
        try app.context().fetch(SharedNote.self, sortedBy: .ascending(\.title)).map(\.title)
    }

    @Test func bothObjectsCanBeFetchedAndEdited() async throws {
        let context = bob.context()
        #expect(try titles(bob) == ["Bob's", "trip"])
        var theirs = try note("trip", context)
        #expect(try context.object(SharedNote.self, theirs.id)?.title == "trip")
        #expect(try context.store(of: theirs) == bob.others)
        theirs.title = "journey"
        try context.update(theirs)
        // The edit is visible before the save.
        #expect(try context.fetch(SharedNote.self, sortedBy: .ascending(\.title)).map(\.title) == ["Bob's", "journey"])
        try context.save()
        try context.edit(SharedNote.self, theirs.id) { $0.title += " home" }
        try context.save()
        #expect(try titles(bob) == ["Bob's", "journey home"])
        try await bob.sync()
        try await alice.sync()
        #expect(try titles(alice) == ["journey home"])
    }

    @Test func linksStayInTheirStore() async throws {
        let context = bob.context()
        for (title, texts) in [("Bob's", ["his"]), ("trip", ["hers"])] {
            let note = try note(title, context)
            let memos = try context.related(to: note, \.memos)
            #expect(memos.map(\.text) == texts)
            for memo in memos { #expect(try context.object(memo.note)?.title == title) }
            for memo in memos { #expect(try context.object(SharedNote.self, memo.note.target ?? "")?.title == title) }
        }
        try context.insert(Memo(text: "new", note: try note("trip", context)))
        let memo = try #require(try context.fetch(Memo.self, \.text == "hers").first)
        try context.edit(Memo.self, memo.id) { $0.text = "hers, edited" }
        try context.save()
        try await bob.sync()
        try await alice.sync()
        #expect(try alice.memos == ["hers, edited", "new"])
        #expect(try context.related(to: try note("Bob's", context), \.memos).map(\.text) == ["his"])
    }

    /// New objects linked to each other belong to the private store, even if a shared object has the same name.
    @Test func newObjectsBelongToThePrivateStore() async throws {
        try home.makeNote("plan", memo: "of hers")
        try await alice.sync()
        try await home.share("plan")
        let context = bob.context()
        let own = SharedNote(id: "plan", title: "own plan")
        try context.insert(Memo(text: "of his", note: own))
        try context.insert(own)
        try context.save()
        #expect(try titles(bob) == ["Bob's", "own plan", "plan", "trip"])
        let memo = try #require(try context.fetch(Memo.self, \.text == "of his").first)
        #expect(try context.store(of: memo) == bob.mine)
        #expect(try context.object(memo.note)?.title == "own plan")
    }

    /// A context can change only one of the two objects per save; a change of the other throws.
    @Test func bothObjectsCannotBeChangedInOneSave() throws {
        let context = bob.context()
        for title in ["trip", "Bob's"] {
            var note = try note(title, context)
            note.title += "!"
            if title == "trip" {
                try context.update(note)
            } else {
                let error = #expect(throws: MirrorError.self) { try context.update(note) }
                #expect(error?.code == .wrongStore)
                #expect(throws: MirrorError.self) { try context.delete(note) }
            }
        }
        try context.save()
        #expect(try titles(bob) == ["Bob's", "trip!"])
    }

    @Test func onlyTheFetchedObjectIsDeleted() async throws {
        let context = bob.context()
        try context.delete(SharedNote.self, id: try note("trip", context).id)
        try context.save()
        #expect(try titles(bob) == ["Bob's"])
        #expect(try bob.context().fetch(Memo.self).map(\.text) == ["his"])
    }
}
