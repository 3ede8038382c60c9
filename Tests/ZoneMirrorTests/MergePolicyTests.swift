import Foundation
import Testing
import ZoneMirror

/// The five policies: the documented example and the table.
///
/// See MergePolicies.md, "The five policies".
@Suite struct MergePolicyTests {
    struct Case: Sendable {
        var policy: MergePolicy
        /// `nil` if the save fails.
        var values: [Int]?
    }

    static let example = [
        Case(policy: .mergeByPropertyStoreTrump, values: [2, 3, 3]),
        Case(policy: .mergeByPropertyObjectTrump, values: [2, 2, 3]),
        Case(policy: .overwrite, values: [2, 2, 1]),
        Case(policy: .rollback, values: [1, 3, 3]),
        Case(policy: .error, values: nil),
    ]

    @Test(arguments: example) func workedExample(_ row: Case) {
        let outcome = PropertyMerge.edits(base: [1, 1, 1], memory: [2, 2, 1], store: [1, 3, 3], policy: row.policy)
        #expect(outcome?.values == row.values)
    }

    @Test(arguments: MergePolicy.allCases) func theSameNewValueIsNoConflict(_ policy: MergePolicy) {
        let outcome = PropertyMerge.edits(base: [1, 1], memory: [2, 1], store: [2, 1], policy: policy)
        #expect(outcome == PropertyMerge.Outcome(values: [2, 1], dropped: []))
    }

    @Test(arguments: MergePolicy.allCases) func aChangeOfOneSideIsNoConflict(_ policy: MergePolicy) {
        #expect(PropertyMerge.edits(base: [1], memory: [2], store: [1], policy: policy)?.values == [2])
    }

    @Test func aDecisionNamesTheDroppedValues() {
        let outcome = PropertyMerge.edits(
            base: [1, 1],
            memory: [2, 2],
            store: [1, 3],
            policy: .mergeByPropertyObjectTrump
        )
        #expect(outcome?.dropped == [.init(position: 1, kept: 2, dropped: 3)])
    }

    @Test func eachPolicyDecidesOnDeletions() {
        #expect(
            MergePolicy.allCases.map { PropertyMerge.keepsObjectDeletedInStore($0) } == [nil, false, true, true, false]
        )
        #expect(
            MergePolicy.allCases.map { PropertyMerge.keepsObjectDeletedInMemory($0) } == [
                nil, true, false, false, true,
            ]
        )
    }
}

/// The same with two contexts and one object.
@Suite struct ContextMergeTests {
    let folder: TemporaryFolder
    let container: MirroredContainer

    init() async throws {
        folder = try TemporaryFolder()
        let url = folder.url.appendingPathComponent("local.sqlite")
        container = MirroredContainer(model: notesModel, stores: [StoreDescription(url: url)])
        try await container.loadStores()
        let context = container.newBackgroundContext()
        var note = Note(id: "n", title: "1")
        note.body = "1"
        note.stars = 1
        try context.insert(note)
        try context.save()
    }

    /// Saves title and body as 2 in one context after another has saved body and stars as 3.
    private func merged(_ policy: MergePolicy) throws -> [String] {
        let (mine, other) = (container.newBackgroundContext(), container.newBackgroundContext())
        mine.mergePolicy = policy
        var note = try #require(try mine.object(Note.self, "n"))
        try other.edit(Note.self, "n") { ($0.body, $0.stars) = ("3", 3) }
        try other.save()
        (note.title, note.body) = ("2", "2")
        try mine.update(note)
        try mine.save()
        let saved = try #require(try container.newBackgroundContext().object(Note.self, "n"))
        return [saved.title, saved.body ?? "", "\(saved.stars)"]
    }

    @Test(arguments: [
        (MergePolicy.mergeByPropertyStoreTrump, ["2", "3", "3"]), (.mergeByPropertyObjectTrump, ["2", "2", "3"]),
        (.overwrite, ["2", "2", "1"]), (.rollback, ["1", "3", "3"]),
    ])
    func workedExample(_ policy: MergePolicy, _ expected: [String]) throws {
        #expect(try merged(policy) == expected)
    }

    @Test func thePolicyErrorSavesNothingAndListsAllThreeStates() throws {
        let error = #expect(throws: MirrorError.self) { _ = try merged(.error) }
        guard case .mergeConflict(let conflicts)? = error?.code, let conflict = conflicts.first else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(conflict.base["body"] == "\"1\"")
        #expect(conflict.memory["body"] == "\"2\"")
        #expect(conflict.store["body"] == "\"3\"")
        #expect(try container.newBackgroundContext().object(Note.self, "n")?.title == "1")
    }

    @Test(arguments: [
        (MergePolicy.mergeByPropertyStoreTrump, false), (.mergeByPropertyObjectTrump, true), (.overwrite, true),
        (.rollback, false),
    ])
    func eachPolicyDecidesOnAnEditOfADeletedObject(_ policy: MergePolicy, _ stays: Bool) throws {
        let (mine, other) = (container.newBackgroundContext(), container.newBackgroundContext())
        mine.mergePolicy = policy
        var note = try #require(try mine.object(Note.self, "n"))
        try other.delete(Note.self, id: "n")
        try other.save()
        note.title = "mine"
        try mine.update(note)
        try mine.save()
        #expect(try container.newBackgroundContext().object(Note.self, "n")?.title == (stays ? "mine" : nil))
    }

    @Test func aContextDoesNotConflictWithItsOwnSave() throws {
        let mine = container.newBackgroundContext()
        var note = try #require(try mine.object(Note.self, "n"))
        note.title = "2"
        try mine.update(note)
        try mine.save()
        note.title = "3"
        try mine.update(note)
        try mine.save()
        #expect(try mine.object(Note.self, "n")?.title == "3")
    }
}
