import Foundation
import Records
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Whom the keys of shared zones are given to, when it is the relay that says by which key.
@Suite(.timeLimit(.minutes(15))) struct KeyTrustTests {
    let relay: TestRelay
    let alice: TestDevice
    let zone = CKRecordZone(zoneName: "Diary")

    /// Alice's provider: notes what it is asked, and answers as it is told to.
    private final class Judge: EncryptionKeyProvider {
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

    /// Shares the zone with one secret in it, and gives the address by which Bob knows the record.
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

    /// A device of Alice's sees who is in the share, and gives them the key if it trusts theirs.
    private func look(by device: TestDevice) async throws {
        _ = try await device.privateDatabase.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
    }

    private func text(_ device: TestDevice, _ id: CKRecord.ID) async throws -> String? {
        try await device.sharedDatabase.record(for: id).encryptedValues["text"]
    }

    /// Bob publishes another key: after a reset of his own, or because somebody else does it in his name.
    private func publishAnotherKey(by link: URL) async throws -> TestDevice {
        let other = bob("other", "not the same")
        try await other.container.accept(try await other.container.shareMetadata(for: link))
        return other
    }

    @Test func theFirstKeyIsTrustedAndAnotherIsNot() async throws {
        let bob = bob("mac", "bob's own")
        let (id, link) = try await share(with: bob)
        try await look(by: alice)
        #expect(try await text(bob, id) == "a secret")

        let other = try await publishAnotherKey(by: link)
        // A device that remembers nothing: the zone does.
        let judge = Judge()
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: judge)
        try await look(by: laptop)
        let asked = judge.asked.withLock { $0 }
        #expect(asked.count == 1)
        let question = try #require(asked.first)
        #expect(question.known != nil && question.known?.fingerprint != question.key.fingerprint)
        #expect(try await text(other, id) == nil, "who came with another key is given nothing")
        #expect(try await text(bob, id) == "a secret", "what Bob was given before stays")

        let told = try #require(try await laptop.container.encryptionKey(of: question.key.userRecordID))
        #expect(told == question.key)
        #expect(told.fingerprint.split(separator: " ").count == 12)
        try laptop.container.trustEncryptionKey(told)
        try await look(by: laptop)
        let again = self.bob("other again", "not the same")
        #expect(try await text(again, id) == "a secret")
    }

    @Test func aProgramMayRefuseTheFirstKeyToo() async throws {
        let judge = Judge(answering: false)
        let laptop = relay.device(of: "alice", named: "laptop", encryptionKey: judge)
        let bob = bob("mac", "bob's own")
        let (id, _) = try await share(with: bob)
        try await look(by: laptop)
        #expect(judge.asked.withLock { $0 }.map { $0.known == nil } == [true])
        #expect(try await text(bob, id) == nil)
    }

    @Test func aChangedKeyIsAnnounced() async throws {
        let bob = bob("mac", "bob's own")
        let (_, link) = try await share(with: bob)
        try await look(by: alice)
        _ = try await publishAnotherKey(by: link)
        let mine = try await bob.container.userRecordID()
        let (heard, hear) = AsyncStream.makeStream(of: UserEncryptionKey.self)
        let observer = NotificationCenter.default.addObserver(
            forName: .CKUserEncryptionKeyChanged,
            object: nil,
            queue: nil
        ) { notification in
            guard let key = notification.userInfo?[CKUserEncryptionKeyKey] as? UserEncryptionKey else { return }
            hear.yield(key)
        }
        defer { NotificationCenter.default.removeObserver(observer) }
        let laptop = relay.device(
            of: "alice",
            named: "laptop",
            encryptionKey: PassphraseEncryptionKey("alice's own", cost: .light)
        )
        try await look(by: laptop)
        // Worlds of other tests have users of the same names, and everybody hears of everybody's keys.
        let told = try #require(try await laptop.container.encryptionKey(of: mine))
        _ = try await Takings(heard).next("the notification") { $0 == told ? true : nil }
    }

    @Test func fingerprintsTellKeysApart() {
        let fingerprints = Set((0..<200).map { UserEncryptionKey([UInt8($0)], of: "_x").fingerprint })
        #expect(fingerprints.count == 200)
        #expect(UserEncryptionKey([1], of: "_x") == UserEncryptionKey([1], of: "_x"))
    }
}
