import Foundation
import GRDB
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A change that the relay applied although its response was lost: the device must recognize the change as its own.
@Suite(.timeLimit(.minutes(15))) struct LostAnswerTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    /// What happens between the lost response and the next request.
    enum Meanwhile: CaseIterable, Sendable {
        case nothing
        /// The device fetches before it sends again.
        case fetch
        /// The program restarts.
        case restart
        case restartAndFetch
    }

    /// What happened to the request whose response was lost.
    enum Fate: CaseIterable, Sendable {
        case carriedOut
        case neverArrived
        /// A proxy timed out, or lost its connection to the relay.
        case answeredByAProxy
        case refusedByAProxy

        var fault: TestNetwork.Fault {
            switch self {
            case .carriedOut: .losesAnswer
            case .neverArrived: .unreachable
            case .answeredByAProxy: .answeredInstead(status: 504, body: "<html>")
            case .refusedByAProxy: .answered(status: 502, body: "<html>")
            }
        }
    }

    private func device(
        _ name: String,
        in folder: TemporaryFolder? = nil,
        _ change: (inout CloudOptions) -> Void
    ) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name), folder: folder) { store in
            if var cloud = store.cloud {
                change(&cloud)
                store.cloud = cloud
            }
        }
    }

    private func edit(_ mirror: Mirrored, _ change: (inout Note) -> Void) throws {
        let context = mirror.context()
        try context.edit(Note.self, "n", change)
        try context.save()
    }

    private func pass(
        _ meanwhile: Meanwhile,
        _ laptop: Mirrored,
        _ change: (inout CloudOptions) -> Void
    ) async throws -> Mirrored {
        var laptop = laptop
        if meanwhile == .restart || meanwhile == .restartAndFetch {
            await laptop.container.close()
            laptop = try await device("laptop", in: laptop.folder, change)
        }
        if meanwhile == .fetch || meanwhile == .restartAndFetch { try await laptop.container.fetchChanges() }
        return laptop
    }

    private func counting(_ cloud: inout CloudOptions) {
        cloud.propertyResolvers["Note.stars"] = { base, mine, theirs in
            func number(_ value: DatabaseValue) -> Int { Int.fromDatabaseValue(value) ?? 0 }
            return (number(mine) + number(theirs) - number(base)).databaseValue
        }
    }

    /// The laptop increments three times, and the phone, which has fetched in between, `others` times.
    @Test(arguments: Meanwhile.allCases.flatMap { [($0, 0), ($0, 1)] }, Fate.allCases)
    func everyIncrementIsCountedOnce(_ row: (meanwhile: Meanwhile, others: Int), _ fate: Fate) async throws {
        let phone = try await device("phone", counting)
        var laptop = try await device("laptop", counting)
        try phone.save(Note(id: "n", title: "N"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        try edit(laptop) { $0.stars += 1 }
        laptop.device.network.fail(request: 1, of: "records/modify", by: fate.fault)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        if row.others > 0 {
            try await phone.container.fetchChanges()
            try edit(phone) { $0.stars += row.others }
            try await phone.sync()
        }
        try edit(laptop) { $0.stars += 2 }
        laptop = try await pass(row.meanwhile, laptop, counting)
        for mirror in [laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [laptop, phone] {
            #expect(try mirror.context().object(Note.self, "n")?.stars == 3 + row.others)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// The program ends before it stores the relay's response, and cannot reach the relay after the restart.
    @Test func aRequestInterruptedByAnExitIsRepeated() async throws {
        let isOver = Atomic(false)
        var conditions = MirrorConditions()
        conditions.crashPoint = { if $0 == .afterSend, isOver.load(ordering: .relaxed) { throw CancellationError() } }
        var laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), conditions: conditions) { store in
            if var cloud = store.cloud {
                counting(&cloud)
                store.cloud = cloud
            }
        }
        try laptop.save(Note(id: "n", title: "N"))
        try await laptop.sync()
        try edit(laptop) { $0.stars += 1 }
        isOver.store(true, ordering: .relaxed)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        try edit(laptop) { $0.stars += 1 }
        laptop = try await pass(.restart, laptop, counting)
        laptop.device.network.fail(request: 1, of: "records/modify", by: .unreachable)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        try await laptop.container.fetchChanges()
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.context().object(Note.self, "n")?.stars == 2)
    }

    /// While responses are lost, the device applies no page that might contain its own change.
    @Test func aPageIsNotAppliedBeforeTheResponse() async throws {
        let laptop = try await device("laptop", counting)
        try laptop.save(Note(id: "n", title: "N"))
        for isSent in [true, false, false] {
            laptop.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
            await #expect(throws: MirrorError.self) {
                if isSent {
                    try await laptop.container.sendChanges()
                } else {
                    try await laptop.container.fetchChanges()
                }
            }
            try edit(laptop) { $0.stars += 1 }
        }
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.context().object(Note.self, "n")?.stars == 3)
    }

    /// The device also applies no page until the repeated request gets a response.
    @Test(arguments: 0..<4) func aPageIsNotAppliedBeforeTheRepeatedRequestSucceeds(_ row: Int) async throws {
        let faults: [TestNetwork.Fault] = [
            .unreachable, .busy(retryAfter: .seconds(1)), .throttled(retryAfter: .seconds(1)),
            .answered(status: 502, body: "<html>"),
        ]
        let laptop = try await device("laptop", counting)
        try laptop.save(Note(id: "n", title: "N"))
        try await laptop.sync()
        try edit(laptop) { $0.stars += 1 }
        laptop.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        try edit(laptop) { $0.stars += 1 }
        laptop.device.network.fail(request: 1, of: "records/modify", by: faults[row])
        await #expect(throws: MirrorError.self) { try await laptop.container.fetchChanges() }
        laptop.device.network.failNothing()
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.context().object(Note.self, "n")?.stars == 2)
    }

    /// A proxy may answer in the relay's place for any time.
    @Test func aLongOutageBehindAProxyLosesNoChanges() async throws {
        let laptop = try await device("laptop", counting)
        try laptop.save(Note(id: "n", title: "N"))
        try await laptop.sync()
        try edit(laptop) { $0.stars += 1 }
        let page = TestNetwork.Fault.answered(status: 502, body: "<html>")
        laptop.device.network.fail(request: 1, of: "records/modify", by: .answeredInstead(status: 502, body: "<html>"))
        for number in 2...20 { laptop.device.network.fail(request: number, of: "records/modify", by: page) }
        for _ in 0..<20 {
            await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        }
        try edit(laptop) { $0.stars += 1 }
        try await laptop.container.fetchChanges()
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.context().object(Note.self, "n")?.stars == 2)
    }

    /// Without changes by another device there is no conflict, whatever the policy.
    @Test(arguments: Meanwhile.allCases, MergePolicy.allCases)
    func anEditAfterALostResponseIsKept(_ meanwhile: Meanwhile, _ policy: MergePolicy) async throws {
        func choosing(_ cloud: inout CloudOptions) { cloud.mergePolicy = policy }
        var laptop = try await device("laptop", choosing)
        try laptop.save(Note(id: "n", title: "N"))
        for title in ["first", "second"] {
            laptop.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
            await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
            try edit(laptop) { $0.title = title }
            laptop = try await pass(meanwhile, laptop, choosing)
        }
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.titles == ["n": "second"])
        #expect(try await laptop.container.rejectedWrites(laptop.store).isEmpty)
        #expect(try await laptop.container.mergeDecisions(laptop.store).isEmpty)
        let fresh = try await device("fresh", choosing)
        try await fresh.sync()
        #expect(try fresh.titles == ["n": "second"])
    }

    /// The object must not come back either.
    @Test(arguments: Meanwhile.allCases, MergePolicy.allCases)
    func aDeletionAfterALostResponseIsKept(_ meanwhile: Meanwhile, _ policy: MergePolicy) async throws {
        func choosing(_ cloud: inout CloudOptions) { cloud.mergePolicy = policy }
        var laptop = try await device("laptop", choosing)
        try laptop.save(Note(id: "n", title: "N"))
        laptop.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await laptop.container.sendChanges() }
        try laptop.delete("n")
        laptop = try await pass(meanwhile, laptop, choosing)
        for _ in 0..<2 { try await laptop.sync() }
        #expect(try laptop.titles.isEmpty)
        let fresh = try await device("fresh", choosing)
        try await fresh.sync()
        #expect(try fresh.titles.isEmpty)
        #expect(try await laptop.container.rejectedWrites(laptop.store).isEmpty)
    }

}
