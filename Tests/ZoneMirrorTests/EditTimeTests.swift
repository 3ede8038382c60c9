import Foundation
import GRDB
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

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
    private let clock = Hand()

    private final class Hand: Sendable {
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
