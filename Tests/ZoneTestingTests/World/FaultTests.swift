import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The faults that a test can inject, and their effects.
@Suite(.timeLimit(.minutes(15))) struct FaultTests {
    let relay: TestRelay
    let phoneDevice: TestDevice
    let phone: Notebook
    let laptop: Notebook

    init() throws {
        relay = try TestRelay()
        phoneDevice = relay.device(of: "alice", named: "phone")
        phone = Notebook(on: phoneDevice)
        laptop = Notebook(on: relay.device(of: "alice", named: "laptop"))
    }

    private static let faults: [TestNetwork.Fault] = [
        .unreachable, .losesAnswer, .doubled, .slow(.seconds(20)), .throttled(retryAfter: .seconds(30)),
        .busy(retryAfter: .seconds(30)), .answered(status: 502, body: "<html>Bad gateway</html>"),
    ]

    @Test(arguments: faults.indices) func noFaultLosesAChange(_ index: Int) async throws {
        for number in 1...3 { phoneDevice.network.fail(request: number, of: "records/modify", by: Self.faults[index]) }
        phone.write("a", "1")
        phone.write("b", "2")
        try await relay.settle()
        laptop.write("a", "3")
        try await relay.settle()
        #expect(phone.texts == ["a": "3", "b": "2"])
        #expect(laptop.texts == phone.texts)
    }

    @Test func aFaultHitsTheNthRequestOfItsKind() async throws {
        let database = phoneDevice.privateDatabase
        try await relay.settle()
        phoneDevice.network.fail(request: 2, of: "zones/modify", by: .unreachable)
        try await database.save(CKRecordZone(zoneName: "First"))
        await #expect(
            performing: { try await database.save(CKRecordZone(zoneName: "Second")) },
            throws: { $0.is(.networkFailure) }
        )
        try await database.save(CKRecordZone(zoneName: "Second"))
        phoneDevice.network.fail(.unreachable)
        phoneDevice.network.failNothing()
        #expect(try await database.allRecordZones().count == 4)
    }

    @Test func aThrottledDeviceWaitsForRetryAfter() async throws {
        try await relay.settle()
        phoneDevice.network.throttle(for: .seconds(120))
        let start = relay.clock.now
        phone.write("a", "1")
        try await relay.settle()
        #expect(laptop.texts == ["a": "1"])
        #expect(start.duration(to: relay.clock.now) >= .seconds(119))
    }

    @Test(arguments: [TestNetwork.NoticeHandling.doubled, .reordered])
    func duplicatedOrReorderedNoticesDoNoHarm(_ handling: TestNetwork.NoticeHandling) async throws {
        try await relay.settle()
        phoneDevice.network.notices = handling
        for number in 0..<5 {
            laptop.write("n\(number)", "\(number)")
            await relay.advance(by: .milliseconds(200))
        }
        try await relay.settle()
        #expect(phone.texts == laptop.texts)
        #expect(phone.texts.count == 5)
    }

    @Test func aDeviceWithDroppedNoticesCatchesUpOnReconnect() async throws {
        try await relay.settle()
        phoneDevice.network.notices = .dropped
        laptop.write("a", "1")
        try await relay.settle()
        #expect(phone.texts.isEmpty)
        phoneDevice.network.dropSockets()
        try await relay.settle()
        #expect(phone.texts == ["a": "1"])
    }

    @Test func lowerLimitsCauseSmallerBatches() async throws {
        relay.limits.itemsPerRequest = 3
        for number in 0..<20 { phone.write("n\(number)", "\(number)") }
        try await relay.settle()
        #expect(laptop.texts.count == 20)
        let sent = phoneDevice.network.operations.filter { $0.hasSuffix("records/modify") }
        #expect(sent.count >= 7)
    }

    @Test func aFullQuotaRefusesSavesUntilItIsEmptied() async throws {
        let database = phoneDevice.privateDatabase
        try await database.save(CKRecord(recordType: "Note"))
        relay.fillQuota()
        await #expect(
            performing: { try await database.save(CKRecord(recordType: "Note")) },
            throws: { $0.is(.quotaExceeded) }
        )
        relay.emptyQuota()
        try await database.save(CKRecord(recordType: "Note"))
    }

    @Test func expiredTokensCauseAFullFetchWithoutLoss() async throws {
        for number in 0..<3 { phone.write("n\(number)", "\(number)") }
        try await relay.settle()
        let database = phoneDevice.privateDatabase
        let token = try await database.recordZoneChanges(inZoneWith: phone.zone, since: nil).changeToken
        try relay.expireChangeTokens()
        await #expect(
            performing: { try await database.recordZoneChanges(inZoneWith: phone.zone, since: token) },
            throws: { $0.is(.changeTokenExpired) }
        )
        laptop.write("late", "4")
        try await relay.settle()
        #expect(phone.texts.count == 4)
        #expect(phone.texts == laptop.texts)
    }

    @Test func aParticipantRemovedBetweenSavesGetsZoneNotFound() async throws {
        let zone = try await phoneDevice.privateDatabase.save(CKRecordZone(zoneName: "Ours"))
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = .readWrite
        try await phoneDevice.privateDatabase.save(share)
        let bob = relay.device(of: "bob")
        let url = try #require(share.url)
        let metadata = try await bob.container.shareMetadata(for: url)
        try await bob.container.accept(metadata)
        let shared = try #require(try await bob.sharedDatabase.allRecordZones().first)
        let owner = phoneDevice.privateDatabase
        bob.network.fail(
            request: 2,
            of: "records/modify",
            by: .meanwhile {
                guard let share = try? await owner.record(for: share.recordID) as? CKShare else { return }
                share.publicPermission = .none
                _ = try? await owner.save(share)
            }
        )
        let (first, second) = (
            CKRecord(recordType: "Note", zoneID: shared.zoneID), CKRecord(recordType: "Note", zoneID: shared.zoneID)
        )
        try await bob.sharedDatabase.save(first)
        await #expect(performing: { try await bob.sharedDatabase.save(second) }, throws: { $0.is(.zoneNotFound) })
    }

    @Test func anExpiredSignInIsRefusedAtOnceAndItsSocketCloses() async throws {
        let database = phoneDevice.privateDatabase
        try await phoneDevice.signIn()
        try await relay.settle()
        phone.write("a", "1")
        try await relay.settle()
        #expect(laptop.texts == ["a": "1"])
        let connections = relay.connectionCount
        try await phoneDevice.expireSignIn()
        await #expect(
            performing: { try await database.allRecordZones() },
            throws: { $0.is(.notAuthenticated) }
        )
        await relay.advance(by: .seconds(5))
        #expect(relay.connectionCount == connections - 1)
        try await phoneDevice.signIn()
        #expect(try await !database.allRecordZones().isEmpty)
        let visitor = relay.visitor()
        await #expect(performing: { try await visitor.signIn() }, throws: { $0.is(.notAuthenticated) })
        await #expect(performing: { try await visitor.expireSignIn() }, throws: { $0.is(.notAuthenticated) })
    }

    @Test func wrongClocksDoNotAffectTheOrderOfChanges() async throws {
        phone.write("a", "1")
        try await relay.settle()
        relay.clockError = .seconds(-10 * 365 * 86_400)
        phoneDevice.clockError = .seconds(10 * 365 * 86_400)
        laptop.write("a", "2")
        try await relay.settle()
        phone.write("b", "3")
        try await relay.settle()
        #expect(phone.texts == ["a": "2", "b": "3"])
        #expect(laptop.texts == phone.texts)
    }

    @Test func aKilledRelayKeepsAcknowledgedWrites() async throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        let relay = try TestRelay(options)
        let device = relay.device(of: "alice", named: "phone")
        let (phone, laptop) = (Notebook(on: device), Notebook(on: relay.device(of: "alice", named: "laptop")))
        phone.write("a", "1")
        try await relay.settle()
        // The relay is killed while it handles the request.
        device.network.fail(request: 1, of: "records/modify", by: .meanwhile { relay.kill() })
        phone.write("b", "2")
        await relay.advance(by: .seconds(5))
        #expect(!relay.isRunning)
        try relay.start()
        try await relay.settle()
        #expect(laptop.texts == ["a": "1", "b": "2"])
    }
}
