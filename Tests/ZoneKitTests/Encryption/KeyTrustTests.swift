import Foundation
import Records
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

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
