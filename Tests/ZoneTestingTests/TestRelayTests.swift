import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// The relay of a test, its devices and their networks.
@Suite struct TestRelayTests {
    @Test func aUsersDevicesShareRecordsThatOtherUsersCannotSee() async throws {
        let relay = try TestRelay()
        let phone = relay.device(of: "alice", named: "phone").privateDatabase
        let laptop = relay.device(of: "alice", named: "laptop").privateDatabase
        let bob = relay.device(of: "bob").privateDatabase
        let zone = try await phone.save(CKRecordZone(zoneName: "Notes")).zoneID
        let record = try await phone.save(CKRecord(recordType: "Note", zoneID: zone))
        #expect(try await laptop.record(for: record.recordID).recordChangeTag == record.recordChangeTag)
        await #expect(performing: { try await bob.record(for: record.recordID) }, throws: { $0.is(.zoneNotFound) })
    }

    @Test func aDeviceWithACutNetworkIsOfflineUntilItIsHealed() async throws {
        let relay = try TestRelay()
        let phone = relay.device(of: "alice")
        phone.network.cut()
        #expect(phone.network.isCut)
        await #expect(
            performing: { try await phone.privateDatabase.allRecordZones() },
            throws: { $0.is(.networkUnavailable) }
        )
        phone.network.heal()
        #expect(try await phone.privateDatabase.allRecordZones().count == 1)
        #expect(phone.network.operations == ["private/zones/list", "private/zones/list"])
    }

    @Test func eachFaultAffectsOneRequest() async throws {
        let relay = try TestRelay()
        let phone = relay.device(of: "alice")
        let zone = CKRecordZone(zoneName: "Notes")
        phone.network.fail(
            .unreachable,
            .losesAnswer,
            .answered(status: 429, body: #"{"serverErrorCode":"THROTTLED","reason":"Slow down.","retryAfter":3}"#),
            .doubled
        )
        for code in [CKError.Code.networkFailure, .serverResponseLost, .requestRateLimited] {
            await #expect(performing: { try await phone.privateDatabase.save(zone) }, throws: { $0.is(code) })
        }
        try await phone.privateDatabase.save(zone)
        #expect(try await phone.privateDatabase.allRecordZones().map(\.zoneID).contains(zone.zoneID))
    }

    @Test func aRestartedRelayKeepsAcknowledgedWrites() async throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        let relay = try TestRelay(options)
        let phone = relay.device(of: "alice")
        let zone = try await phone.privateDatabase.save(CKRecordZone(zoneName: "Notes")).zoneID
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record["title"] = "kept"
        try await phone.privateDatabase.save(record)
        let token = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone, since: nil).changeToken
        try relay.restart()
        #expect(try await phone.privateDatabase.record(for: record.recordID)["title"] == "kept")
        let changes = try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone, since: token)
        #expect(changes.modificationResultsByID.isEmpty)
    }

    @Test func theFolderIsDeletedWithTheRelay() async throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        var relay: TestRelay? = try TestRelay(options)
        let path = try #require(relay?.folder.url.path)
        #expect(FileManager.default.fileExists(atPath: path))
        relay = nil
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func theSameSeedGivesTheSameUserNames() async throws {
        func userName(seed: UInt64) async throws -> String {
            var options = TestRelay.Options()
            options.seed = seed
            return try await TestRelay(options).device(of: "alice").container.userRecordID().recordName
        }
        #expect(try await userName(seed: 7) == userName(seed: 7))
        #expect(try await userName(seed: 7) != userName(seed: 8))
    }

    @Test func datesComeFromTheClock() async throws {
        let relay = try TestRelay()
        relay.clock.advance(by: .seconds(3600))
        let record = try await relay.device(of: "alice").privateDatabase.save(CKRecord(recordType: "Note"))
        #expect(record.creationDate == relay.clock.start.addingTimeInterval(3600))
    }
}

extension Error {
    func `is`(_ code: CKError.Code) -> Bool { (self as? CKError)?.code == code }
}
