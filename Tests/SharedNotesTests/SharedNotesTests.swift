import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

@testable import SharedNotes

/// The example app on three devices: two of alice's, one of bob's.
@Suite(.timeLimit(.minutes(15))) struct SharedNotesTests {
    private final class Folder: Sendable {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("shared-notes-\(UUID().uuidString)")

        deinit { try? FileManager.default.removeItem(at: url) }
    }

    private let folder = Folder()
    private let relay: TestRelay
    private let phone: NotesApp
    private let laptop: NotesApp
    private let bob: NotesApp

    init() async throws {
        relay = try TestRelay()
        phone = try await Self.app(relay.device(of: "alice@example.org", named: "phone"), folder)
        laptop = try await Self.app(relay.device(of: "alice@example.org", named: "laptop"), folder)
        bob = try await Self.app(relay.device(of: "bob@example.org", named: "tablet"), folder)
        try phone.addNote("Trip")
        try phone.addMemo("1 passport", to: try phone.existing("Trip"))
        try phone.addNote("Diary")
        try await phone.update()
        try await laptop.update()
    }

    private static func app(_ device: TestDevice, _ folder: Folder) async throws -> NotesApp {
        let home = folder.url.appendingPathComponent(device.name)
        try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
        return try await NotesApp(device.container, folder: home)
    }

    private func end() async { for app in [phone, laptop, bob] { await app.close() } }

    @Test func sharedNoteIsEditedByAParticipantUntilSharingStops() async throws {
        #expect(try laptop.notes().map(\.title) == ["Diary", "Trip"])
        let trip = try phone.existing("Trip")
        #expect(try await phone.badges(of: trip) == .init(isShared: false, isOwner: true, canEdit: true))
        let link = try #require(try await phone.share(trip, with: "bob@example.org", .readWrite))
        try await bob.accept(link)
        // Bob sees the note and its memos, and nothing else of Alice's.
        #expect(try bob.notes().map(\.title) == ["Trip"])
        let shared = try bob.existing("Trip")
        #expect(try bob.memos(of: shared) == ["1 passport"])
        #expect(try await bob.badges(of: shared) == .init(isShared: true, isOwner: false, canEdit: true))
        // A participant's memo is on both of the owner's devices.
        try bob.addMemo("2 map", to: shared)
        try await bob.update()
        for app in [phone, laptop] {
            try await app.update()
            let note = try app.existing("Trip")
            #expect(try app.memos(of: note) == ["1 passport", "2 map"])
            #expect(try await app.badges(of: note) == .init(isShared: true, isOwner: true, canEdit: true))
        }
        // The owner stops sharing on her other device: she keeps all content, and Bob's copy is removed.
        try await laptop.stopSharing(try laptop.existing("Trip"))
        for app in [phone, laptop] {
            try await app.update()
            let note = try app.existing("Trip")
            #expect(try app.notes().map(\.title) == ["Diary", "Trip"])
            #expect(try app.memos(of: note) == ["1 passport", "2 map"])
            #expect(try await app.badges(of: note) == .init(isShared: false, isOwner: true, canEdit: true))
        }
        try await bob.update()
        #expect(try bob.notes().isEmpty)
        await end()
    }

    @Test func aReadOnlyParticipantCannotAddAMemo() async throws {
        let link = try #require(try await phone.share(try phone.existing("Trip"), with: nil, .readOnly))
        try await bob.accept(link)
        let shared = try bob.existing("Trip")
        #expect(try await bob.badges(of: shared) == .init(isShared: true, isOwner: false, canEdit: false))
        #expect(throws: NotesError.self) { try bob.addMemo("mine", to: shared) }
        #expect(try await bob.printed() == "Trip  shared by another user, read-only\n  - 1 passport")
        // Bob leaves the share: only his copy of the note is removed.
        try await bob.stopSharing(shared)
        #expect(try bob.notes().isEmpty)
        try await phone.update()
        #expect(try phone.memos(of: try phone.existing("Trip")) == ["1 passport"])
        await end()
    }
}
