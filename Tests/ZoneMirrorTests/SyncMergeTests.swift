import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The five merge policies for an unsent change that conflicts with a newer record on the relay.
///
/// See Sync.md, "Merging": "in memory" means the laptop's unsent values, "in store" the phone's values.
@Suite(.timeLimit(.minutes(15))) struct SyncMergeTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func devices(_ policy: MergePolicy) async throws -> (phone: Mirrored, laptop: Mirrored) {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop")) { $0.cloud?.mergePolicy = policy }
        var note = Note(id: "n", title: "1")
        (note.body, note.stars) = ("1", 1)
        try phone.save(note)
        for mirror in [phone, laptop] { try await mirror.sync() }
        return (phone, laptop)
    }

    /// Syncs both devices; the laptop detects the conflict when it sends, or when it fetches.
    private func meet(_ phone: Mirrored, _ laptop: Mirrored, _ fetchesFirst: Bool) async throws {
        try await phone.sync()
        if fetchesFirst { try await laptop.container.fetchChanges() }
        _ = try? await laptop.container.sendChanges()
        for mirror in [laptop, phone, laptop] { try await mirror.sync() }
    }

    private func edit(_ mirror: Mirrored, _ change: (inout Note) -> Void) throws {
        let context = mirror.context()
        try context.edit(Note.self, "n", change)
        try context.save()
    }

    static let example: [(MergePolicy, [String])] = [
        (.mergeByPropertyStoreTrump, ["2", "3", "3"]), (.mergeByPropertyObjectTrump, ["2", "2", "3"]),
        (.overwrite, ["2", "2", "1"]), (.rollback, ["1", "3", "3"]), (.error, ["1", "3", "3"]),
    ]

    @Test(arguments: example, [true, false])
    func workedExample(_ row: (policy: MergePolicy, values: [String]), _ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices(row.policy)
        try edit(phone) { ($0.body, $0.stars) = ("3", 3) }
        try edit(laptop) { ($0.title, $0.body) = ("2", "2") }
        try await meet(phone, laptop, fetchesFirst)
        for mirror in [phone, laptop] {
            let note = try #require(try mirror.context().object(Note.self, "n"))
            #expect([note.title, note.body ?? "", "\(note.stars)"] == row.values)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        let dropped = try await laptop.container.mergeDecisions(laptop.store)
        let refused = try await laptop.container.rejectedWrites(laptop.store)
        if row.policy == .error {
            // Nothing is merged: the complete change stays for a decision.
            #expect(refused.map(\.object.name) == ["n"])
            try await laptop.container.retry(try #require(refused.first))
            try await laptop.sync()
            #expect(try laptop.context().object(Note.self, "n")?.title == "2")
        } else {
            #expect(refused.isEmpty)
            #expect(dropped.contains { $0.property == "body" && $0.rule == .policy(row.policy) })
            #expect(dropped.allSatisfy { $0.object.name == "n" })
        }
    }

    @Test(
        arguments: [
            (MergePolicy.mergeByPropertyStoreTrump, false), (.mergeByPropertyObjectTrump, true), (.overwrite, true),
            (.rollback, false), (.error, false),
        ],
        [true, false]
    )
    func eachPolicyDecidesOnAnEditOfADeletedObject(
        _ row: (policy: MergePolicy, stays: Bool),
        _ fetchesFirst: Bool
    ) async throws {
        let (phone, laptop) = try await devices(row.policy)
        try phone.delete("n")
        try edit(laptop) { $0.title = "mine" }
        try await meet(phone, laptop, fetchesFirst)
        for mirror in [phone, laptop] { #expect(try mirror.titles == (row.stays ? ["n": "mine"] : [:])) }
        guard row.policy != .error else { return try await decide(phone, laptop, into: ["n": "mine"]) }
        // The values lost with the object are reported.
        let dropped = try await laptop.container.mergeDecisions(laptop.store)
        #expect(dropped.map(\.property) == (row.stays ? [] : ["title"]))
        #expect(dropped.allSatisfy { $0.dropped.contains("mine") && $0.kept == "NULL" })
        #expect(dropped.allSatisfy { $0.rule == .policy(row.policy) })
    }

    /// With `mergeByPropertyObjectTrump` the object would stay without `acceptsDeletions`.
    @Test(arguments: [MergePolicy.mergeByPropertyObjectTrump, .rollback])
    func editsLostToAnAcceptedDeletionNameTheRule(_ policy: MergePolicy) async throws {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop")) {
            $0.cloud?.mergePolicy = policy
            $0.cloud?.acceptsDeletions = true
        }
        try phone.save(Note(id: "n", title: "1"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        try phone.delete("n")
        try edit(laptop) { $0.title = "mine" }
        try await meet(phone, laptop, true)
        let dropped = try await laptop.container.mergeDecisions(laptop.store)
        #expect(dropped.map(\.property) == ["title"])
        #expect(dropped.map(\.rule) == [policy == .rollback ? .policy(policy) : .deletion])
    }

    /// Checks that the change stays for a decision and that a retry prevails.
    private func decide(_ phone: Mirrored, _ laptop: Mirrored, into titles: [String: String]) async throws {
        let refused = try await laptop.container.rejectedWrites(laptop.store)
        #expect(refused.map(\.object.name) == ["n"] && refused.map(\.isDeletion) == [titles.isEmpty])
        try await laptop.container.retry(try #require(refused.first))
        for mirror in [laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] { #expect(try mirror.titles == titles) }
    }

    @Test(
        arguments: [
            (MergePolicy.mergeByPropertyStoreTrump, true), (.mergeByPropertyObjectTrump, false), (.overwrite, false),
            (.rollback, true), (.error, true),
        ],
        [true, false]
    )
    func eachPolicyDecidesOnADeletionOfAnEditedObject(
        _ row: (policy: MergePolicy, stays: Bool),
        _ fetchesFirst: Bool
    ) async throws {
        let (phone, laptop) = try await devices(row.policy)
        try edit(phone) { $0.title = "theirs" }
        try laptop.delete("n")
        try await meet(phone, laptop, fetchesFirst)
        for mirror in [phone, laptop] { #expect(try mirror.titles == (row.stays ? ["n": "theirs"] : [:])) }
        if row.policy == .error { try await decide(phone, laptop, into: [:]) }
    }

    /// An explicit send throws an unresolved conflict.
    @Test func sendingThrowsUnresolvedConflicts() async throws {
        let (phone, laptop) = try await devices(.error)
        try edit(phone) { $0.title = "theirs" }
        try await phone.sync()
        try laptop.delete("n")
        do {
            try await laptop.container.sendChanges()
            Issue.record("the deletion was sent")
        } catch {
            #expect((error.underlying as? CKError)?.code == .serverRecordChanged, "\(error)")
        }
        #expect(try laptop.titles == ["n": "theirs"])
    }

    /// Equal changes do not conflict, and nothing is dropped.
    @Test func theSameNewValueIsNoConflict() async throws {
        let (phone, laptop) = try await devices(.error)
        for mirror in [phone, laptop] { try edit(mirror) { $0.title = "same" } }
        try await meet(phone, laptop, true)
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["n": "same"])
            #expect(try await mirror.container.mergeDecisions(mirror.store).isEmpty)
            #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
        }
    }

    /// To-many links are merged as sets: all additions of both sides, without the removals of both.
    @Test(arguments: [true, false]) func toManyLinksAreMergedAsSets(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices(.mergeByPropertyObjectTrump)
        let context = phone.context()
        let note = try #require(try context.object(Note.self, "n"))
        let tags = ["a", "b", "c", "d"].map { Tag(word: $0) }
        for tag in tags { try context.insert(tag) }
        for tag in tags[0...1] { try context.link(note, \.tags, tag) }
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        for (mirror, gone, new) in [(phone, 0, 2), (laptop, 1, 3)] {
            let context = mirror.context()
            try context.unlink(note, \.tags, tags[gone])
            try context.link(note, \.tags, tags[new])
            try context.save()
        }
        try await meet(phone, laptop, fetchesFirst)
        for mirror in [phone, laptop] {
            let words = try mirror.context().related(to: note, \.tags, sortedBy: .ascending(\.word)).map(\.word)
            #expect(words == ["c", "d"])
        }
    }

    /// No device shows a link to a deleted object, whichever device sends first.
    @Test(arguments: [true, false]) func noDeviceShowsADanglingLink(_ fetchesFirst: Bool) async throws {
        let (phone, laptop) = try await devices(.mergeByPropertyObjectTrump)
        let context = phone.context()
        try context.insert(Folder(id: "f", name: "F"))
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        try context.delete(Folder.self, id: "f")
        try context.save()
        try edit(laptop) { $0.folder = ToOne(Folder(id: "f", name: "")) }
        try await meet(phone, laptop, fetchesFirst)
        for mirror in [phone, laptop] {
            #expect(try mirror.context().object(Note.self, "n")?.folder.target == nil)
            #expect(try mirror.context().fetch(Folder.self).isEmpty)
        }
        // A later folder of that name must not make the two devices diverge.
        try context.insert(Folder(id: "f", name: "again"))
        try context.save()
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        let targets = try [phone, laptop].map { try $0.context().object(Note.self, "n")?.folder.target }
        #expect(targets[0] == targets[1])
    }

    /// The link arrives while the deletion of the folder is unsent.
    @Test func aLinkToAnObjectWithAPendingDeletionIsNotShown() async throws {
        let (phone, laptop) = try await devices(.mergeByPropertyObjectTrump)
        let context = phone.context()
        try context.insert(Folder(id: "f", name: "F"))
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
        try context.delete(Folder.self, id: "f")
        try context.save()
        try edit(laptop) { $0.folder = ToOne(Folder(id: "f", name: "")) }
        try await laptop.sync()
        try await phone.container.fetchChanges()
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        let fresh = try await Mirrored(relay.device(of: "alice", named: "fresh"))
        try await fresh.sync()
        for mirror in [phone, laptop, fresh] {
            #expect(try mirror.context().object(Note.self, "n")?.folder.target == nil)
            #expect(try mirror.context().fetch(Folder.self).isEmpty)
        }
    }
}
