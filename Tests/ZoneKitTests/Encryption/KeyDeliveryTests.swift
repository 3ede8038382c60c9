import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Participants who cannot be given a zone's key at once receive it later.
@Suite(.timeLimit(.minutes(15))) struct KeyDeliveryTests {
    let relay: TestRelay
    let phone: TestDevice
    let bob: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")
    let key = PassphraseEncryptionKey("alice's own", cost: .light)
    static let broken = "\"serverErrorCode\":\"INTERNAL_ERROR\",\"reason\":\"broken\""

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone", encryptionKey: key)
        bob = relay.device(of: "bob", encryptionKey: PassphraseEncryptionKey("bob's own", cost: .light))
        try await phone.privateDatabase.save(zone)
    }

    private func save(_ name: String) async throws -> CKRecord {
        let record = CKRecord(recordType: "Entry", recordID: .init(recordName: name, zoneID: zone.zoneID))
        record.encryptedValues["text"] = "secret \(name)"
        return try await phone.privateDatabase.save(record)
    }

    /// Shares the zone, or one record of it, with anyone who has the link.
    private func share(_ isWhole: Bool = true) async throws -> URL {
        let root = try await save("a")
        let share = isWhole ? CKShare(recordZoneID: zone.zoneID) : CKShare(rootRecord: root)
        share.publicPermission = .readOnly
        let saved = try await phone.privateDatabase.modifyRecords(
            saving: isWhole ? [share] : [root, share],
            deleting: []
        )
        return try #require((try saved.saveResults[share.recordID]?.get() as? CKShare)?.url)
    }

    private func join(_ link: URL, on device: TestDevice) async throws {
        try await device.container.accept(try await device.container.shareMetadata(for: link))
    }

    private func secret(on device: TestDevice) async throws -> String? {
        let shared = try await device.sharedDatabase.allRecordZones()[0].zoneID
        let page = try await device.sharedDatabase.recordZoneChanges(inZoneWith: shared, since: nil)
        let id = CKRecord.ID(recordName: "a", zoneID: shared)
        return try page.modificationResultsByID[id]?.get().record.encryptedValues["text"]
    }

    private func read(_ device: TestDevice, since token: CKServerChangeToken? = nil) async throws -> CKServerChangeToken
    {
        let page = try await device.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
        return page.moreComing ? try await read(device, since: page.changeToken) : page.changeToken
    }

    /// The owner's program terminates before the participant has published a public key.
    @Test(arguments: [true, false]) func aRelaunchedProgramGivesTheKeyLater(_ isWhole: Bool) async throws {
        try await join(try await share(isWhole), on: relay.device(of: "bob", named: "browser"))
        let token = try await read(phone)
        #expect(try await secret(on: bob) == nil)
        let later = relay.device(of: "alice", named: "later", encryptionKey: key)
        _ = try await read(later, since: token)
        #expect(try await secret(on: bob) == "secret a")
    }

    /// The zone has more shares than one page of a query holds.
    @Test func aParticipantOfTheLastOfManySharesReceivesTheKey() async throws {
        let roots = (0..<210).map {
            CKRecord(recordType: "Entry", recordID: .init(recordName: "\($0)", zoneID: zone.zoneID))
        }
        let shares = roots.map {
            CKShare(rootRecord: $0, shareID: .init(recordName: "0 \($0.recordID.recordName)", zoneID: zone.zoneID))
        }
        for part in stride(from: 0, to: roots.count, by: 100) {
            let end = min(part + 100, roots.count)
            let records: [CKRecord] = roots[part..<end] + shares[part..<end].map { $0 }
            _ = try await phone.privateDatabase.modifyRecords(saving: records, deleting: [])
        }
        let link = try await share(false)
        let token = try await read(phone)
        try await join(link, on: relay.device(of: "bob", named: "browser"))
        #expect(try await secret(on: bob) == nil)
        // The share itself is not fetched again.
        let later = relay.device(of: "alice", named: "later", encryptionKey: key)
        _ = try await read(later, since: try await read(relay.device(of: "alice", named: "keyless"), since: token))
        #expect(try await secret(on: bob) == "secret a")
    }

    @Test(arguments: [true, false]) func aTemporaryRefusalIsRetried(_ isAnswered: Bool) async throws {
        try await join(try await share(), on: bob)
        let body = "{\"records\":[{\"recordName\":\"zonecast.key.x\",\(Self.broken)}]}"
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: isAnswered ? .answered(status: 200, body: body) : .busy(retryAfter: .seconds(1))
        )
        let token = try await read(phone)
        #expect(try await secret(on: bob) == nil)
        _ = try await read(phone, since: token)
        #expect(try await secret(on: bob) == "secret a")
    }

    /// Each of the owner's requests fails once.
    @Test(arguments: 1...5, [true, false]) func aFailedRequestIsRetriedAtTheNextFetch(
        _ number: Int,
        _ isWhole: Bool
    ) async throws {
        let link = try await share(isWhole)
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        let token = try await read(laptop)
        try await join(link, on: bob)
        let other = relay.device(of: "alice", named: "other", encryptionKey: key)
        let operation = number == 5 ? "records/resolve" : "records/lookup"
        other.network.fail(request: number % 5 + number / 5, of: operation, by: .busy(retryAfter: .seconds(1)))
        var next = token
        do { next = try await read(other, since: token) } catch { next = try await read(other, since: token) }
        _ = try await read(other, since: next)
        #expect(try await secret(on: bob) == "secret a")
    }

    /// No zone key exists before the first encrypted value.
    @Test func aParticipantWhoJoinedBeforeTheFirstEncryptedValueReadsIt() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = .readOnly
        try await join(try #require((try await phone.privateDatabase.save(share) as? CKShare)?.url), on: bob)
        let token = try await read(phone)
        _ = try await save("a")
        _ = try await read(phone, since: token)
        #expect(try await secret(on: bob) == "secret a")
    }

    @Test func aParticipantTrustedLaterReceivesTheKeyThen() async throws {
        final class DistrustingKeyProvider: EncryptionKeyProvider {
            let key = PassphraseEncryptionKey("alice's own", cost: .light)
            func userKey() async throws -> Data { try await key.userKey() }
            func trusts(_ key: UserEncryptionKey, insteadOf known: UserEncryptionKey?) async -> Bool { false }
        }
        try await join(try await share(), on: bob)
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: DistrustingKeyProvider())
        let token = try await read(laptop)
        #expect(try await secret(on: bob) == nil)
        let mine = try await bob.container.userRecordID()
        try laptop.container.trustEncryptionKey(try #require(try await laptop.container.encryptionKey(of: mine)))
        _ = try await read(laptop, since: token)
        #expect(try await secret(on: bob) == "secret a")
    }

    /// A zone with two shared hierarchies and the same participant in both, who sees the key through one of them.
    @Test(arguments: [true, false], [true, false]) func endingOneShareKeepsTheKeyForTheOther(
        _ isStopped: Bool,
        _ isRestarted: Bool
    ) async throws {
        var shares: [CKRecord.ID] = []
        for name in ["a", "b"] {
            let root = try await save(name)
            let share = CKShare(rootRecord: root)
            share.publicPermission = .readOnly
            let saved = try await phone.privateDatabase.modifyRecords(saving: [root, share], deleting: [])
            let link = try #require((try saved.saveResults[share.recordID]?.get() as? CKShare)?.url)
            try await join(link, on: bob)
            shares.append(share.recordID)
            _ = try await read(phone)
        }
        let token = try await read(phone)
        let database = phone.privateDatabase
        if isStopped {
            try await database.deleteRecord(withID: shares[0])
        } else {
            let share = try #require(try await database.record(for: shares[0]) as? CKShare)
            share.publicPermission = .none
            try await database.save(share)
        }
        let owner = isRestarted ? relay.device(of: "alice", named: "later", encryptionKey: key) : phone
        _ = try await read(owner, since: token)
        let key = PassphraseEncryptionKey("bob's own", cost: .light)
        let other = relay.device(of: "bob", named: "other", encryptionKey: key)
        let shared = try await other.sharedDatabase.allRecordZones()[0].zoneID
        let record = try await other.sharedDatabase.record(for: .init(recordName: "b", zoneID: shared))
        #expect(record.encryptedValues["text"] == "secret b")
    }
}
