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
