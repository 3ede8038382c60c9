import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Encryption keys of shared zones, with delays and failures.
@Suite(.timeLimit(.minutes(15))) struct KeySharingTests {
    let relay: TestRelay
    let phone: Mirrored
    let folder: TemporaryFolder

    init() async throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
        phone = try await Mirrored(Self.alice(relay, "phone"), model: MirrorModel(Diary.self), folder: folder)
        let context = phone.context()
        try context.insert(Diary(id: "d", title: "1", secret: "for two"))
        try context.save()
        try await phone.sync()
    }

    static func alice(_ relay: TestRelay, _ name: String) -> TestDevice {
        relay.device(of: "alice", named: name, encryptionKey: PassphraseEncryptionKey("open sesame", cost: .light))
    }

    private func share() async throws -> CKShare {
        let id = ObjectID(store: phone.store, entity: "Diary", name: "d")
        let share = try await phone.container.share([id], title: "Ours").share
        share.publicPermission = .readWrite
        return try await phone.container.persistUpdatedShare(share, in: phone.store)
    }

    private func bob() async throws -> SharedDiary {
        let key = PassphraseEncryptionKey("bob's own", cost: .light)
        return try await SharedDiary(relay.device(of: "bob", named: "pc", encryptionKey: key))
    }

    private func edit(_ mirror: Mirrored, _ title: String) async throws {
        let context = mirror.context()
        try context.edit(Diary.self, "d") { $0.title = title }
        try context.save()
        try await mirror.sync()
    }

    /// A participant who joins on the relay's web page has no key there.
    @Test(arguments: [false, true])
    func aParticipantWhoJoinedInABrowserGetsTheKeyLater(_ isRestarted: Bool) async throws {
        let link = try #require(try await share().url)
        let browser = relay.device(of: "bob", named: "browser")
        try await browser.container.accept(try await browser.container.shareMetadata(for: link))
        try await phone.sync()
        let bob = try await bob()
        try await bob.container.fetchChanges()
        #expect(try bob.entry?.secret == "")
        var owner = phone
        if isRestarted {
            await phone.container.close()
            owner = try await Mirrored(Self.alice(relay, "again"), model: MirrorModel(Diary.self), folder: folder)
        }
        try await edit(owner, "2")
        try await bob.container.fetchChanges()
        #expect(try bob.entry?.title == "2")
        #expect(try bob.entry?.secret == "for two")
    }

    @Test func aKeyThatCouldNotBeSharedIsSharedLater() async throws {
        let link = try #require(try await share().url)
        let bob = try await bob()
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        phone.device.network.fail(request: 1, of: "records/modify", by: .busy(retryAfter: .seconds(1)))
        try await phone.container.fetchChanges()
        try await bob.container.fetchChanges()
        #expect(try bob.entry?.secret == "")
        try await edit(phone, "2")
        try await bob.container.fetchChanges()
        #expect(try bob.entry?.secret == "for two")
    }

    /// Changes that a participant makes before getting the key stay pending, and are sent once the owner has shared the
    /// key.
    @Test func changesMadeBeforeTheKeyArrivesWaitForIt() async throws {
        let link = try #require(try await share().url)
        let bob = try await bob()
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        let context = bob.container.newBackgroundContext()
        try context.edit(Diary.self, "d") { $0.secret = "from bob" }
        let share = try #require(try await bob.container.fetchShares(in: bob.others).first)
        for entry in [
            Diary(id: "e", title: "closed", secret: "too"), Diary(id: "f", title: "closed", secret: "as well"),
        ] {
            try context.insert(entry)
            try context.assign(entry, to: share)
        }
        try context.save()
        await #expect(throws: MirrorError.self) { try await bob.container.sendChanges() }
        #expect(try await bob.container.rejectedWrites(bob.others).isEmpty)
        #expect(try await bob.container.pendingExportCount(bob.others) == 3)
        #expect(try bob.entry?.secret == "from bob")
        try await phone.sync()
        for _ in 0..<2 {
            try await bob.container.fetchChanges()
            try await bob.container.sendChanges()
        }
        try await phone.container.fetchChanges()
        let secrets = try phone.context().fetch(Diary.self, sortedBy: .ascending(\.id)).map(\.secret)
        #expect(secrets == ["from bob", "too", "as well"])
    }

    /// Another device of the owner has recreated the zone, under the same name and with a new key.
    @Test func afterAResetOnAnotherDeviceTheNewKeyIsShared() async throws {
        let bob = try await bob()
        try await bob.container.acceptShareInvitations(from: [try #require(try await share().url)], into: bob.others)
        try await phone.sync()
        let laptop = try await Mirrored(Self.alice(relay, "laptop"), model: MirrorModel(Diary.self))
        try await laptop.sync()
        try await laptop.container.resetEncryptedData(in: laptop.store)
        for mirror in [laptop, phone] { try await mirror.sync() }
        try await bob.container.fetchChanges()
        #expect(try bob.entry == nil)
        try await bob.container.acceptShareInvitations(from: [try #require(try await share().url)], into: bob.others)
        try await phone.sync()
        try await bob.container.fetchChanges()
        #expect(try bob.entry?.secret == "for two")
    }

    /// The resetting device could never read the value; the phone, which was offline, still has it.
    @Test func aResetWithoutTheOldKeyKeepsValuesOfOtherDevices() async throws {
        func device(_ name: String) -> TestDevice {
            relay.device(of: "alice", named: name, encryptionKey: PassphraseEncryptionKey("a new one", cost: .light))
        }
        let tablet = try await Mirrored(device("tablet"), model: MirrorModel(Diary.self))
        try await tablet.container.fetchChanges()
        #expect(try tablet.context().object(Diary.self, "d")?.secret == "")
        let context = tablet.context()
        try context.edit(Diary.self, "d") { $0.title = "newer" }
        try context.save()
        try await tablet.sync()
        await phone.container.close()
        try await tablet.container.resetEncryptedData(in: tablet.store)
        try await tablet.sync()
        let phone = try await Mirrored(device("phone"), model: MirrorModel(Diary.self), folder: folder)
        try await phone.container.fetchChanges()
        for mirror in [phone, tablet] { try await mirror.sync() }
        for mirror in [phone, tablet] {
            #expect(try mirror.context().object(Diary.self, "d")?.title == "newer")
            #expect(try mirror.context().object(Diary.self, "d")?.secret == "for two")
        }
    }

    static let broken = "\"serverErrorCode\":\"INTERNAL_ERROR\",\"reason\":\"broken\""

    /// Encrypted values of a newer program version move with their record, even if the relay fails during the move.
    @Test(arguments: [true, false]) func aMoveWhoseEncryptionStepFailsIsRetried(_ isEnding: Bool) async throws {
        await phone.container.close()
        let old = try await Mirrored(Self.alice(relay, "old"), model: NewerModelTests.old)
        try await old.sync()
        let id = ObjectID(store: old.store, entity: "Diary", name: "d")
        let share = isEnding ? try await old.container.share([id], title: "Ours").share : nil
        let body = "{\"records\":[{\"recordName\":\"d\",\(Self.broken)}]}"
        let network = old.device.network
        network.fail(
            request: 1,
            of: "records/move",
            by: .beforeAnswer { [network] in
                for number in 1...4 {
                    network.fail(request: number, of: "records/modify", by: .answered(status: 200, body: body))
                }
            }
        )
        if let share {
            try? await old.container.stopSharing(share, in: old.store)
        } else {
            _ = try? await old.container.share([id], title: "Ours")
        }
        network.failNothing()
        for _ in 0..<3 { try? await old.sync() }
        let fresh = try await Mirrored(Self.alice(relay, "fresh"), model: MirrorModel(Diary.self))
        try await fresh.sync()
        #expect(try fresh.context().object(Diary.self, "d")?.secret == "for two")
    }

    @Test func initializeSchemaThrowsIfASampleCannotBeDeleted() async throws {
        let body = "{\"records\":[{\"recordName\":\"s\",\(Self.broken)}]}"
        phone.device.network.fail(request: 2, of: "records/modify", by: .answered(status: 200, body: body))
        await #expect(throws: MirrorError.self) { try await phone.container.initializeSchema() }
    }
}
