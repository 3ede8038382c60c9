import Foundation
import Records
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// How zone keys reach their recipients, and what happens to values that were fetched before.
@Suite(.timeLimit(.minutes(15))) struct LateKeyTests {
    let relay: TestRelay
    let phone: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")
    let key = PassphraseEncryptionKey("alice's own", cost: .light)
    let bobsKey = PassphraseEncryptionKey("bob's own", cost: .light)

    /// A provider whose first calls fail.
    private final class LockedKeyProvider: EncryptionKeyProvider {
        let failures: Mutex<Int>
        let key: PassphraseEncryptionKey

        init(_ key: PassphraseEncryptionKey, failing failures: Int) {
            self.key = key
            self.failures = Mutex(failures)
        }

        func userKey() async throws -> Data {
            let isLocked = failures.withLock { failures in
                failures -= 1
                return failures >= 0
            }
            if isLocked { throw CKError(.internalError, "The keys are locked.") }
            return try await key.userKey()
        }
    }

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone", encryptionKey: key)
        try await phone.privateDatabase.save(zone)
    }

    private func save(_ name: String) async throws -> CKRecord.ID {
        let id = CKRecord.ID(recordName: name, zoneID: zone.zoneID)
        let record = CKRecord(recordType: "Entry", recordID: id)
        record["title"] = "plain \(name)"
        record.encryptedValues["text"] = "secret \(name)"
        try await phone.privateDatabase.save(record)
        return id
    }

    /// Shares the zone with one encrypted value in it and returns the link.
    private func share(_ permission: CKShare.ParticipantPermission = .readOnly) async throws -> URL {
        _ = try await save("a")
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = permission
        return try #require((try await phone.privateDatabase.save(share) as? CKShare)?.url)
    }

    private func join(_ link: URL, on device: TestDevice) async throws -> CKRecordZone.ID {
        try await device.container.accept(try await device.container.shareMetadata(for: link)).recordID.zoneID
    }

    /// Fetches the zone as its owner.
    private func fetchAsOwner(since token: CKServerChangeToken? = nil) async throws -> CKServerChangeToken {
        try await phone.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token).changeToken
    }

    @Test func aFetchWithDesiredKeysKeepsTheKey() async throws {
        let id = try await save("a")
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        for _ in 0..<2 {
            let page = try await laptop.privateDatabase.recordZoneChanges(
                inZoneWith: zone.zoneID,
                since: nil,
                desiredKeys: ["title"]
            )
            #expect(try page.modificationResultsByID[id]?.get().record["title"] == "plain a")
            #expect(try await laptop.privateDatabase.record(for: id).encryptedValues["text"] == "secret a")
        }
    }

    /// If the page's token were kept although its values could not be decrypted, they would never be fetched again.
    @Test func aPageWhoseKeyCannotBeLookedUpFails() async throws {
        _ = try await save("a")
        let token = try await fetchAsOwner()
        let id = try await save("b")
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: key)
        func page() async throws -> CKRecord? {
            try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
                .modificationResultsByID[id]?.get().record
        }
        laptop.network.fail(request: 1, of: "records/lookup", by: .unreachable)
        await expect(.networkFailure) { _ = try await page() }
        #expect(try await page()?.encryptedValues["text"] == "secret b")
    }

    @Test(arguments: [false, true]) func aTemporaryProviderFailureLosesNothing(_ isLater: Bool) async throws {
        _ = try await save("a")
        let token = isLater ? try await fetchAsOwner() : nil
        let id = try await save("b")
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: LockedKeyProvider(key, failing: 1))
        func page() async throws -> CKRecord? {
            try await laptop.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: token)
                .modificationResultsByID[id]?.get().record
        }
        await expect(.missingEntitlement) { _ = try await page() }
        #expect(try await page()?.encryptedValues["text"] == "secret b")
    }

    /// No matter how the key arrived and in which launch, unreadable records are delivered once more.
    @Test func recordsFetchedBeforeTheKeyAreDeliveredAgainOnce() async throws {
        let bob = relay.device(of: "bob", encryptionKey: bobsKey)
        let shared = try await join(try await share(), on: bob)
        let early = SyncedNotes(bob, database: bob.sharedDatabase)
        try await early.engine.fetchChanges()
        #expect(deliveries(to: early) == 1)
        _ = try await fetchAsOwner()
        let id = CKRecord.ID(recordName: "a", zoneID: shared)
        #expect(try await bob.sharedDatabase.record(for: id).encryptedValues["text"] == "secret a")
        let state = try #require(early.saved)
        let later = SyncedNotes(bob, from: state, database: bob.sharedDatabase)
        try await later.engine.fetchChanges()
        #expect(deliveries(to: later) == 1)
        try await later.engine.fetchChanges()
        #expect(deliveries(to: later) == 1, "it was delivered again")
    }

    private func deliveries(to notes: SyncedNotes) -> Int {
        notes.contents.withLock { contents in
            contents.events.reduce(0) { count, event in
                guard case .fetchedRecordZoneChanges(let changes) = event else { return count }
                return count + changes.modifications.count { $0.record.recordID.recordName == "a" }
            }
        }
    }

    @Test func aParticipantWhoJoinedWithLockedKeysReceivesTheKeyLater() async throws {
        let bob = relay.device(of: "bob", encryptionKey: LockedKeyProvider(bobsKey, failing: 1))
        let shared = try await join(try await share(), on: bob)
        let token = try await fetchAsOwner()
        try await expectKeyArrives(to: bob, in: shared, since: token)
    }

    /// A relay's landing page has no encryption key.
    @Test func aParticipantWhoJoinedWithoutAKeyReceivesTheZoneKeyLater() async throws {
        let browser = relay.device(of: "bob", named: "browser")
        let shared = try await join(try await share(), on: browser)
        let token = try await fetchAsOwner()
        let bob = relay.device(of: "bob", encryptionKey: bobsKey)
        try await expectKeyArrives(to: bob, in: shared, since: token)
    }

    /// Bob fetches, then the owner, whose fetch has no changes, and then Bob can read.
    private func expectKeyArrives(
        to bob: TestDevice,
        in shared: CKRecordZone.ID,
        since token: CKServerChangeToken
    ) async throws {
        let page = try await bob.sharedDatabase.recordZoneChanges(inZoneWith: shared, since: nil)
        let id = CKRecord.ID(recordName: "a", zoneID: shared)
        #expect(try page.modificationResultsByID[id]?.get().record.encryptedValues["text"] == nil)
        _ = try await fetchAsOwner(since: token)
        #expect(try await bob.sharedDatabase.record(for: id).encryptedValues["text"] == "secret a")
    }

    @Test func anUnarchivedRecordReadsItsEncryptedValues() async throws {
        let device = relay.configurableDevice(of: "alice")
        let database = try device.configure(as: "alice", encryptionKey: key).privateCloudDatabase
        try await database.save(zone)
        let record = CKRecord(recordType: "Entry", zoneID: zone.zoneID)
        record.encryptedValues["text"] = "kept"
        try await database.save(record)
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        #expect(!String(decoding: data, as: UTF8.self).contains("kept"))
        let back = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        #expect(back.encryptedValues["text"] == "kept")
    }
}

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

/// Which public keys the owner trusts with the keys of shared zones, given that the relay could forge them.
@Suite(.timeLimit(.minutes(15))) struct KeyTrustTests {
    let relay: TestRelay
    let alice: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")

    /// Alice's provider: records the keys that it is asked about and gives a fixed answer.
    private final class RecordingKeyProvider: EncryptionKeyProvider {
        let key = PassphraseEncryptionKey("alice's own", cost: .light)
        let asked = Mutex<[(key: UserEncryptionKey, known: UserEncryptionKey?)]>([])
        let answer: Bool?

        init(answering answer: Bool? = nil) { self.answer = answer }

        func userKey() async throws -> Data { try await key.userKey() }

        func trusts(_ key: UserEncryptionKey, insteadOf known: UserEncryptionKey?) async -> Bool {
            asked.withLock { $0.append((key, known)) }
            return answer ?? (known == nil)
        }
    }

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(
            of: "alice",
            named: "phone",
            encryptionKey: PassphraseEncryptionKey("alice's own", cost: .light)
        )
        try await alice.privateDatabase.save(zone)
    }

    private func bob(_ device: String, _ passphrase: String) -> TestDevice {
        relay.device(of: "bob", named: device, encryptionKey: PassphraseEncryptionKey(passphrase, cost: .light))
    }

    /// Shares the zone with one encrypted value in it; returns the record's ID in Bob's shared database and the link.
    private func share(with bob: TestDevice) async throws -> (id: CKRecord.ID, link: URL) {
        let id = CKRecord.ID(recordName: "a", zoneID: zone.zoneID)
        let record = CKRecord(recordType: "Entry", recordID: id)
        record.encryptedValues["text"] = "a secret"
        try await alice.privateDatabase.save(record)
        let share = CKShare(recordZoneID: zone.zoneID)
        share.publicPermission = .readWrite
        let saved = try #require(try await alice.privateDatabase.save(share) as? CKShare)
        let link = try #require(saved.url)
        let accepted = try await bob.container.accept(try await bob.container.shareMetadata(for: link))
        return (CKRecord.ID(recordName: "a", zoneID: accepted.recordID.zoneID), link)
    }

    /// A device of Alice's fetches the zone, sees the participants and gives them the zone key if it trusts theirs.
    private func fetch(by device: TestDevice) async throws {
        _ = try await device.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
    }

    private func text(_ device: TestDevice, _ id: CKRecord.ID) async throws -> String? {
        try await device.sharedDatabase.record(for: id).encryptedValues["text"]
    }

    /// Publishes another key in Bob's name: after a reset of his own, or by an attacker.
    private func publishAnotherKey(by link: URL) async throws -> TestDevice {
        let other = bob("other", "not the same")
        try await other.container.accept(try await other.container.shareMetadata(for: link))
        return other
    }

    @Test func theFirstKeyIsTrustedAndALaterOneIsNot() async throws {
        let bob = bob("mac", "bob's own")
        let (id, link) = try await share(with: bob)
        try await fetch(by: alice)
        #expect(try await text(bob, id) == "a secret")

        let other = try await publishAnotherKey(by: link)
        // This device has no memory of the first key; the zone has.
        let provider = RecordingKeyProvider()
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: provider)
        try await fetch(by: laptop)
        let asked = provider.asked.withLock { $0 }
        #expect(asked.count == 1)
        let question = try #require(asked.first)
        #expect(question.known != nil && question.known?.fingerprint != question.key.fingerprint)
        #expect(try await text(other, id) == nil, "the device with another key must receive nothing")
        #expect(try await text(bob, id) == "a secret", "Bob's first device keeps its key")

        let key = try #require(try await laptop.container.encryptionKey(of: question.key.userRecordID))
        #expect(key == question.key)
        #expect(key.fingerprint.split(separator: " ").count == 12)
        try laptop.container.trustEncryptionKey(key)
        try await fetch(by: laptop)
        let again = self.bob("other again", "not the same")
        #expect(try await text(again, id) == "a secret")
    }

    @Test func aProgramMayRefuseTheFirstKey() async throws {
        let provider = RecordingKeyProvider(answering: false)
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: provider)
        let bob = bob("mac", "bob's own")
        let (id, _) = try await share(with: bob)
        try await fetch(by: laptop)
        #expect(provider.asked.withLock { $0 }.map { $0.known == nil } == [true])
        #expect(try await text(bob, id) == nil)
    }

    @Test func aChangedKeyIsAnnounced() async throws {
        let bob = bob("mac", "bob's own")
        let (_, link) = try await share(with: bob)
        try await fetch(by: alice)
        _ = try await publishAnotherKey(by: link)
        let mine = try await bob.container.userRecordID()
        let (keys, continuation) = AsyncStream.makeStream(of: UserEncryptionKey.self)
        let observer = NotificationCenter.default.addObserver(
            forName: .CKUserEncryptionKeyChanged,
            object: nil,
            queue: nil
        ) { notification in
            guard let changed = notification.userInfo?[CKUserEncryptionKeyKey] as? UserEncryptionKey else { return }
            continuation.yield(changed)
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        let laptop = relay.device(
            of: "alice",
            named: "laptop",
            encryptionKey: PassphraseEncryptionKey("alice's own", cost: .light)
        )
        try await fetch(by: laptop)
        // Other tests in this process have users of the same names and post the same notification.
        let key = try #require(try await laptop.container.encryptionKey(of: mine))
        _ = try await TimedStream(keys).next("the notification") { $0 == key ? true : nil }
    }

    @Test func fingerprintsOfDifferentKeysDiffer() {
        let fingerprints = Set((0..<200).map { UserEncryptionKey([UInt8($0)], of: "_x").fingerprint })
        #expect(fingerprints.count == 200)
        #expect(UserEncryptionKey([1], of: "_x") == UserEncryptionKey([1], of: "_x"))
    }
}
