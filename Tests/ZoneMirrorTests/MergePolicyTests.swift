import Foundation
import GRDB
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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

/// A task whose properties, except for the number of votes, take the value of the later edit.
struct Chore: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var place = ""
    var votes = 0

    init() {}

    init(id: RecordName, title: String) {
        self.id = id
        self.title = title
    }

    static func describe(_ entity: inout Entity) {
        entity.letLastEditsWin()
        entity.attribute("votes") { $0.lastEditWins = false }
    }
}

/// The later edit of a property wins, independently of the order of sending and the store's merge policy.
@Suite(.timeLimit(.minutes(15))) struct EditTimeTests {
    let relay: TestRelay
    /// The devices' clock, which the test sets.
    private let clock = ManualClock()

    private final class ManualClock: Sendable {
        private let moment = Mutex(Date(timeIntervalSince1970: 1_000_000))
        var now: Date { moment.withLock { $0 } }
        func set(_ seconds: TimeInterval) { moment.withLock { $0 = Date(timeIntervalSince1970: 1_000_000 + seconds) } }
    }

    init() throws { relay = try TestRelay() }

    private func device(_ name: String, _ policy: MergePolicy = .mergeByPropertyObjectTrump) async throws -> Mirrored {
        var conditions = MirrorConditions()
        let clock = clock
        conditions.wallClock = { clock.now }
        return try await Mirrored(
            relay.device(of: "alice", named: name),
            model: MirrorModel(Chore.self),
            conditions: conditions
        ) { $0.cloud?.mergePolicy = policy }
    }

    private func edit(_ mirror: Mirrored, at seconds: TimeInterval, _ change: (inout Chore) -> Void) throws {
        clock.set(seconds)
        let context = mirror.context()
        try context.edit(Chore.self, "c", change)
        try context.save()
    }

    @Test(arguments: [true, false], MergePolicy.allCases)
    func theLaterEditWins(_ phoneSendsFirst: Bool, _ policy: MergePolicy) async throws {
        let (phone, laptop) = (try await device("phone", policy), try await device("laptop", policy))
        let context = phone.context()
        try context.insert(Chore(id: "c", title: "a"))
        try context.save()
        try await phone.sync()
        try await laptop.sync()
        // The phone edits the title last, the laptop the place.
        try edit(phone, at: 10) { $0.place = "by phone" }
        try edit(laptop, at: 20) { $0.title = "by laptop" }
        try edit(laptop, at: 40) { $0.place = "by laptop" }
        try edit(phone, at: 50) { $0.title = "by phone" }
        clock.set(500)
        for mirror in phoneSendsFirst ? [phone, laptop, phone] : [laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            let chore = try #require(try mirror.context().object(Chore.self, "c"))
            #expect(chore.title == "by phone")
            #expect(chore.place == "by laptop")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
            #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
        }
        let second = phoneSendsFirst ? laptop : phone
        let decisions = try await second.container.mergeDecisions(second.store)
        #expect(decisions.map(\.rule) == [.lastEditWins, .lastEditWins])
    }

    /// Edits by plain SQL get the time at which the mirror notices them; records of programs without edit times get the
    /// time of their save.
    @Test(arguments: ["UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE", "UPDATE OR FAIL"])
    func editsBySQLAndOtherProgramsHaveTimes(_ update: String) async throws {
        let phone = try await device("phone")
        let now = Date().timeIntervalSince1970 - 1_000_000
        clock.set(now - 3_600)
        let context = phone.context()
        try context.insert(Chore(id: "c", title: "a"))
        try context.save()
        try await phone.sync()
        let database = phone.device.privateDatabase
        let zone = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        let record = try await database.record(for: CKRecord.ID(recordName: "c", zoneID: zone))
        #expect((record["CD_editTimes"] as? String)?.contains("\"title\"") == true)
        record["CD_title"] = "by another program"
        try await database.save(record)
        // An hour ahead of the relay's clock, and therefore later.
        clock.set(now + 3_600)
        let file = try #require(phone.container.database(of: phone.store))
        try await file.write { try $0.execute(sql: "\(update) Chore SET title = 'by SQL'") }
        for _ in 0..<2 { try await phone.sync() }
        #expect(try await database.record(for: record.recordID)["CD_title"] as? String == "by SQL")
    }

    /// This includes equal changes: an increment on each of two devices adds two.
    @Test(arguments: [[3, 4], [1, 1]]) func aPropertyResolverOverridesEditTimes(_ counted: [Int]) async throws {
        let add: PropertyResolver = { base, mine, theirs in
            func number(_ value: DatabaseValue) -> Int { Int.fromDatabaseValue(value) ?? 0 }
            return (number(mine) + number(theirs) - number(base)).databaseValue
        }
        var mirrors: [Mirrored] = []
        for name in ["phone", "laptop"] {
            let device = relay.device(of: "alice", named: name)
            mirrors.append(
                try await Mirrored(device, model: MirrorModel(Chore.self)) {
                    $0.cloud?.propertyResolvers["Chore.votes"] = add
                }
            )
        }
        let context = mirrors[0].context()
        try context.insert(Chore(id: "c", title: "a"))
        try context.save()
        for mirror in mirrors { try await mirror.sync() }
        for (mirror, votes) in zip(mirrors, counted) {
            let context = mirror.context()
            try context.edit(Chore.self, "c") { $0.votes = votes }
            try context.save()
        }
        for mirror in mirrors + mirrors { try await mirror.sync() }
        for mirror in mirrors { #expect(try mirror.context().object(Chore.self, "c")?.votes == counted.reduce(0, +)) }
    }

    @Test func theEditTimesFieldIsReserved() {
        var entity = Entity("Chore", attributes: [Attribute("editTimes", .string)])
        #expect(violations(entity).isEmpty)
        entity.letLastEditsWin()
        #expect(violations(entity).map(\.rule) == [11])
    }

    private func violations(_ entity: Entity) -> [Violation] {
        let cloud = CloudOptions(container: relay.visitor().container)
        let store = StoreDescription(url: URL(filePath: "/nowhere"), cloud: cloud)
        return MirroredContainer(model: MirrorModel(entities: [entity]), stores: [store]).violations(for: store)
    }
}
