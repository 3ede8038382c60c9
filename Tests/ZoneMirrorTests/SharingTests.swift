import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Sharing as an app uses it: an owner with two devices, and a participant.
@Suite(.timeLimit(.minutes(15))) struct SharingTests {
    let relay: TestRelay
    let phone: NotesApp
    let laptop: NotesApp
    let bob: NotesApp

    init() async throws {
        relay = try TestRelay()
        phone = try await NotesApp(relay.device(of: "alice@example.org", named: "phone"))
        laptop = try await NotesApp(relay.device(of: "alice@example.org", named: "laptop"))
        bob = try await NotesApp(relay.device(of: "bob@example.org", named: "tablet"))
        let context = phone.context()
        let note = SharedNote(id: "trip", title: "Trip")
        try context.insert(note)
        try context.insert(Memo(text: "1 passport", note: note))
        try context.insert(Memo(text: "2 tickets", note: note))
        try context.save()
        try await phone.sync()
        try await laptop.sync()
    }

    private func share(_ permission: CKShare.ParticipantPermission) async throws -> CKShare {
        let note = try #require(try phone.note)
        let (objects, share, _) = try await phone.container.share([try phone.id(note)])
        #expect(objects.count == (try phone.memos.count) + 1)
        #expect(share.title == "Trip")
        share.addParticipant(emailAddress: "bob@example.org", permission: permission)
        let saved = try await phone.container.persistUpdatedShare(share, in: phone.mine)
        #expect(saved.participants.count == 2)
        return share
    }

    @Test func sharingWorksFromTheInvitationToTheEnd() async throws {
        let share = try await share(.readWrite)
        let url = try #require(share.url)
        // The owner's devices have no duplicate or missing objects.
        try await laptop.sync()
        try await phone.sync()
        for app in [phone, laptop] {
            #expect(try app.context().fetch(SharedNote.self).map(\.id) == ["trip"])
            #expect(try app.memos == ["1 passport", "2 tickets"])
            let badges = try await app.badges(try #require(try app.note))
            #expect(badges == (true, true, true))
        }
        let metadata = try await bob.container.fetchShareMetadata(url, from: bob.others)
        #expect(metadata.title == "Trip")
        #expect(!metadata.hasAccepted)
        try await bob.container.acceptShareInvitations(from: [url], into: bob.others)
        #expect(try bob.memos == ["1 passport", "2 tickets"])
        let note = try #require(try bob.note)
        #expect(try await bob.badges(note) == (true, false, true))
        #expect(try bob.context().store(of: note) == bob.others)
        // The participant adds a memo; it belongs to the owner's zone.
        try bob.addMemo("3 map")
        try await bob.container.sendChanges()
        for app in [phone, laptop] {
            try await app.sync()
            #expect(try app.memos == ["1 passport", "2 tickets", "3 map"])
        }
        try phone.addMemo("4 hat")
        try await phone.sync()
        try await bob.sync()
        #expect(try bob.memos.count == 4)
        try await endOfTheShare()
    }

    private func endOfTheShare() async throws {
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        try await phone.container.stopSharing(share, in: phone.mine)
        try await bob.container.fetchChanges()
        #expect(try bob.note == nil)
        #expect(try bob.context().fetch(Memo.self).isEmpty)
        try await laptop.sync()
        try await phone.sync()
        for app in [phone, laptop] {
            #expect(try app.context().fetch(SharedNote.self).map(\.id) == ["trip"])
            #expect(try app.memos.count == 4)
            #expect(try await app.container.fetchShares(in: app.mine).isEmpty)
            #expect(try await app.badges(try #require(try app.note)) == (false, true, true))
        }
        // The note can be shared again at once.
        let again = try await self.share(.readOnly)
        try await bob.container.acceptShareInvitations(from: [try #require(again.url)], into: bob.others)
        #expect(try bob.memos.count == 4)
    }

    /// A participant deletes an object that the owner has just edited; the policy decides, as in a private store.
    @Test(arguments: [(MergePolicy.rollback, true), (.mergeByPropertyObjectTrump, false)])
    func aDeletionConflictsWithAnUnfetchedEdit(_ row: (policy: MergePolicy, stays: Bool)) async throws {
        let url = try #require(try await share(.readWrite).url)
        let carol = try await NotesApp(relay.device(of: "bob@example.org", named: "desk"), policy: row.policy)
        try await carol.container.acceptShareInvitations(from: [url], into: carol.others)
        let edited = phone.context()
        let memo = try #require(try edited.fetch(Memo.self).first { $0.text == "2 tickets" })
        try edited.edit(Memo.self, memo.id) { $0.text = "2 tickets, both ways" }
        try edited.save()
        try await phone.sync()
        let deleting = carol.context()
        try deleting.delete(try #require(try deleting.object(Memo.self, memo.id)))
        try deleting.save()
        for app in [carol, phone, carol] { try await app.sync() }
        let left = row.stays ? ["1 passport", "2 tickets, both ways"] : ["1 passport"]
        for app in [phone, carol] { #expect(try app.memos == left) }
    }

    @Test func aReadOnlyParticipantCannotWrite() async throws {
        var share = try await share(.readOnly)
        let url = try #require(share.url)
        try await bob.container.acceptShareInvitations(from: [url], into: bob.others)
        let note = try #require(try bob.note)
        #expect(try await bob.badges(note) == (true, false, false))
        let context = bob.context()
        try context.edit(SharedNote.self, note.id) { $0.title = "mine" }
        #expect(throws: MirrorError.self) { try context.save() }
        // The store learns of the changed permission.
        try await phone.container.fetchChanges()
        share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        let reader = try #require(share.participants.first { $0.role != .owner })
        share.setPermission(.readWrite, for: reader)
        try await phone.container.persistUpdatedShare(share, in: phone.mine)
        try await bob.container.fetchChanges()
        #expect(try await bob.badges(note).canEdit)
        try context.save()
        try await bob.container.sendChanges()
        try await laptop.sync()
        #expect(try laptop.note?.title == "mine")
        // Removing the participant deletes only the participant's copy.
        try await phone.container.fetchChanges()
        share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        share.removeParticipant(try #require(share.participants.first { $0.role != .owner }))
        share = try await phone.container.persistUpdatedShare(share, in: phone.mine)
        #expect(share.participants.count == 1)
        try await bob.container.fetchChanges()
        #expect(try bob.note == nil)
        #expect(throws: MirrorError.self) { try bob.context().edit(SharedNote.self, "trip") { $0.title = "late" } }
        #expect(try phone.memos.count == 2)
    }

    /// An invalid link among several does not prevent joining by the others.
    @Test func anInvalidLinkDoesNotBlockOthers() async throws {
        let url = try #require(try await share(.readWrite).url)
        let dead = url.deletingLastPathComponent().appendingPathComponent("0zonecastnowhere")
        await #expect(throws: MirrorError.self) {
            try await bob.container.acceptShareInvitations(from: [dead, url, dead], into: bob.others)
        }
        #expect(try bob.note?.title == "Trip")
        await #expect(throws: MirrorError.self) {
            try await bob.container.acceptShareInvitations(from: [dead], into: bob.others)
        }
    }

    @Test func aParticipantWhoLeavesKeepsNothing() async throws {
        let url = try #require(try await share(.readWrite).url)
        try await bob.container.acceptShareInvitations(from: [url], into: bob.others)
        let share = try #require(try await bob.container.fetchShares(in: bob.others).first)
        try bob.addMemo("never sent")
        try await bob.container.leaveShare(share, in: bob.others)
        #expect(try bob.note == nil)
        #expect(try bob.context().fetch(Memo.self).isEmpty)
        #expect(try await bob.container.pendingExportCount(bob.others) == 0)
        try await phone.sync()
        #expect(try phone.memos == ["1 passport", "2 tickets"])
    }

    /// With `keepCopy`, a participant gets private copies of the shared objects with their links before losing access.
    @Test(arguments: ["stopped", "removed", "left"]) func aParticipantCanKeepACopy(_ end: String) async throws {
        let device = relay.device(of: "bob@example.org", named: "keeper")
        let keeper = try await NotesApp(device, keepsCopies: true)
        let share = try await share(.readWrite)
        let url = try #require(share.url)
        try await keeper.container.acceptShareInvitations(from: [url], into: keeper.others)
        try keeper.addMemo("3 never sent")
        switch end {
        case "stopped": try await phone.container.stopSharing(share, in: phone.mine)
        case "removed":
            share.removeParticipant(try #require(share.participants.first { $0.role != .owner }))
            try await phone.container.persistUpdatedShare(share, in: phone.mine)
        default:
            let theirs = try #require(try await keeper.container.fetchShares(in: keeper.others).first)
            try await keeper.container.leaveShare(theirs, in: keeper.others)
        }
        for _ in 0..<2 { try await keeper.container.fetchChanges() }
        let note = try #require(try keeper.note)
        #expect(note.title == "Trip" && note.id != "trip")
        #expect(try keeper.context().store(of: note) == keeper.mine)
        #expect(try keeper.memos == ["1 passport", "2 tickets", "3 never sent"])
        #expect(try keeper.context().fetch(SharedNote.self).count == 1)
        #expect(try await keeper.badges(note) == (false, true, true))
        // The copy is private: it is synced to the participant's own devices only.
        try await keeper.container.sendChanges()
        try await bob.sync()
        #expect(try bob.memos.count == 3)
        try await phone.sync()
        #expect(try phone.memos == ["1 passport", "2 tickets"])
    }

    @Test func sharingThrowsForInvalidObjectsAndStores() async throws {
        _ = try await share(.readOnly)
        let note = try #require(try phone.note)
        let id = try phone.id(note)
        await #expect(throws: MirrorError.self) { try await phone.container.share([id]) }
        await #expect(throws: MirrorError.self) {
            try await bob.container.acceptShareInvitations(from: [], into: bob.mine)
        }
    }
}

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
