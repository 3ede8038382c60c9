import Foundation
import Testing
import ZoneKit
import ZoneTesting

@testable import ZoneMirror

/// An owner with two devices, only one of which knows of a share.
///
/// See SharingRules.md, "What is shared" and "The end of a share".
@Suite(.timeLimit(.minutes(15))) struct StragglerTests {
    private let home: Household
    private var phone: NotesApp { home.phone }
    private var laptop: NotesApp { home.laptop }
    private var bob: NotesApp { home.bob }

    init() async throws { home = try await Household(memo: "first") }

    /// An object that the laptop created before it knew of the share, and sends later, joins the share.
    @Test(arguments: [true, false]) func anObjectLinkedToASharedOneJoinsTheShare(_ isSentFirst: Bool) async throws {
        try laptop.addMemo("second")
        if isSentFirst { try await laptop.container.sendChanges() }
        let share = try await home.share()
        for app in [laptop, laptop, phone, bob] { try await app.sync() }
        for app in [phone, laptop, bob] { #expect(try app.memos == ["first", "second"]) }
        let context = laptop.context()
        for memo in try context.fetch(Memo.self) {
            let id = try context.objectID(of: memo)
            #expect(try await laptop.container.recordID(for: id)?.zoneID == share.recordID.zoneID)
        }
        #expect(try await laptop.container.pendingExportCount(laptop.mine) == 0)
    }

    /// The laptop's unsent changes move to the home zone when the share ends, and do not recreate the share's zone.
    @Test(arguments: [true, false], [true, false]) func unsentChangesOfAnEndedShareMoveToTheHomeZone(
        _ isAlsoEdited: Bool,
        _ fetchesFirst: Bool
    ) async throws {
        let share = try await home.share()
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

    /// A device can end a share whose zone it has not fetched.
    @Test func aDeviceCanEndAShareBeforeFetchingItsZone() async throws {
        let share = try await home.share()
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
