import Foundation
import Testing
import ZoneKit
import ZoneTesting

@testable import ZoneMirror

/// Two devices of an owner of which only one knows of a share.
///
/// SDK reference 14.5 and 16.
@Suite(.timeLimit(.minutes(15))) struct StragglerTests {
    let phone: NotesApp
    let laptop: NotesApp
    let bob: NotesApp

    init() async throws {
        let relay = try TestRelay()
        phone = try await NotesApp(relay.device(of: "alice@example.org", named: "phone"))
        laptop = try await NotesApp(relay.device(of: "alice@example.org", named: "laptop"))
        bob = try await NotesApp(relay.device(of: "bob@example.org", named: "tablet"))
        let context = phone.context()
        let note = SharedNote(title: "trip")
        try context.insert(note)
        try context.insert(Memo(text: "first", note: note))
        try context.save()
        for app in [phone, laptop] { try await app.sync() }
    }

    private func share() async throws -> CKShare {
        let id = try phone.id(try #require(try phone.note))
        let (_, share, _) = try await phone.container.share([id], publicPermission: .readWrite)
        try await bob.container.acceptShareInvitations(from: [try #require(share.url)], into: bob.others)
        return share
    }

    /// What was made on the laptop before it heard of the share, and sent after, is for all who are in it.
    @Test(arguments: [true, false]) func whatHangsOnASharedObjectFollowsIt(_ isSentFirst: Bool) async throws {
        try laptop.addMemo("second")
        if isSentFirst { try await laptop.container.sendChanges() }
        let share = try await share()
        for app in [laptop, laptop, phone, bob] { try await app.sync() }
        for app in [phone, laptop, bob] { #expect(try app.memos == ["first", "second"]) }
        let context = laptop.context()
        for memo in try context.fetch(Memo.self) {
            let id = try context.objectID(of: memo)
            #expect(try await laptop.container.recordID(for: id)?.zoneID == share.recordID.zoneID)
        }
        #expect(try await laptop.container.pendingExportCount(laptop.mine) == 0)
    }

    /// What the laptop had in hand when the share ended goes home with the rest, and the zone does not come back for it.
    @Test(arguments: [true, false], [true, false]) func whatWasToGoIntoAnEndedShareGoesHome(
        _ isAlsoEdited: Bool,
        _ fetchesFirst: Bool
    ) async throws {
        let share = try await share()
        for app in [laptop, phone] { try await app.sync() }
        try laptop.addMemo("second")
        if isAlsoEdited {
            let context = laptop.context()
            try context.edit(SharedNote.self, try #require(try laptop.note).id) { $0.title = "journey" }
            try context.save()
        }
        try await phone.container.stopSharing(share, in: phone.mine)
        if fetchesFirst { try await laptop.container.fetchChanges() }
        for app in [laptop, laptop, phone, bob] { try await app.sync() }
        for app in [phone, laptop] {
            #expect(try app.memos == ["first", "second"])
            #expect(try app.note?.title == (isAlsoEdited ? "journey" : "trip"))
        }
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID)
        #expect(!zones.contains(share.recordID.zoneID), "\(zones)")
        #expect(try await laptop.container.pendingExportCount(laptop.mine) == 0)
        #expect(try bob.note == nil)
    }

    /// A share is ended by whoever has it in hand, also where its zone was not read before.
    @Test func aDeviceThatHasNotSeenTheZoneEndsItsShare() async throws {
        let share = try await share()
        try bob.addMemo("guest's")
        try await bob.sync()
        try await laptop.container.stopSharing(share, in: laptop.mine)
        for app in [phone, bob] { try await app.sync() }
        for app in [phone, laptop] { #expect(try app.memos == ["first", "guest's"]) }
        #expect(try bob.note == nil)
        #expect(try await phone.container.fetchShares(in: phone.mine).isEmpty)
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID)
        #expect(!zones.contains(share.recordID.zoneID))
    }
}
