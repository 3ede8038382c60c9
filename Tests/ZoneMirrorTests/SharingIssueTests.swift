import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The seven known issues of sharing with other CloudKit mirrors, each as a requirement for this one.
///
/// An owner with two devices and two participants: each test runs once with all devices online, and once for each
/// device while that device is offline at the critical step. See SharingRules.md, "Known issues of CloudKit mirrors".
@Suite(.timeLimit(.minutes(15))) struct SharingIssueTests {
    /// The device without a network at the critical step.
    enum Absent: CaseIterable, Sendable { case noDevice, phone, laptop, bob, carol }

    static let links: [(Absent, isPublic: Bool)] = Absent.allCases.flatMap { [($0, true), ($0, false)] }

    @Test(arguments: links)
    func issue1AParticipantHasAllObjectsAfterJoining(_ absent: Absent, _ isPublic: Bool) async throws {
        let world = try await SharingWorld()
        let link = try await world.share(publicly: isPublic)
        try await world.step(absent, by: world.bob) {
            try await world.bob.container.acceptShareInvitations(from: [link], into: world.bob.others)
        }
        #expect(try world.bob.note?.title == "Trip")
        #expect(try world.bob.memos == ["1 passport", "2 tickets"])
        try await world.settle()
        for app in [world.phone, world.laptop] {
            let share = try #require(try await app.container.fetchShares(in: app.mine).first)
            #expect(share.participants.contains { $0.role != .owner && $0.acceptanceStatus == .accepted })
        }
    }

    @Test(arguments: Absent.allCases) func issue2ALinkWorksForEveryRecipient(_ absent: Absent) async throws {
        let world = try await SharingWorld()
        let copied = try await world.share(publicly: true)
        var parts = try #require(URLComponents(url: copied, resolvingAgainstBaseURL: false))
        parts.fragment = nil
        let mailed = try #require(parts.url)
        // A user whom the relay does not know yet.
        let newcomer = try await NotesApp(world.relay.device(of: "dora@example.org", named: "new"))
        for (app, link) in [(world.bob, copied), (world.carol, mailed), (newcomer, copied)] {
            try await world.step(absent, by: app) {
                let metadata = try await app.container.fetchShareMetadata(link, from: app.others)
                #expect(metadata.title == "Trip")
                try await app.container.acceptShareInvitations(from: [metadata], into: app.others)
            }
            #expect(try app.memos.count == 2)
            let share = try #require(try await app.container.fetchShares(in: app.others).first)
            #expect(share.currentUserParticipant?.acceptanceStatus == .accepted)
            #expect(!share.isOwner)
        }
    }

    /// A browser joins by an API call without a mirror; the app gets the rest without code of its own.
    @Test(arguments: Absent.allCases) func issue3JoiningInABrowserWorks(_ absent: Absent) async throws {
        let world = try await SharingWorld()
        let link = try await world.share(publicly: false)
        let browser = world.relay.device(of: "bob@example.org", named: "browser")
        try await world.step(absent, by: world.bob) {
            let metadata = try await browser.container.shareMetadata(for: link)
            try await browser.container.accept(metadata)
            try await world.bob.container.fetchChanges()
        }
        #expect(try world.bob.memos == ["1 passport", "2 tickets"])
        #expect(try await world.bob.container.fetchShares(in: world.bob.others).count == 1)
    }

    @Test(arguments: Absent.allCases) func issue4TheOwnersShareIsNeverStale(_ absent: Absent) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let (phone, laptop) = (world.phone, world.laptop)
        let stale = try #require(try await laptop.container.fetchShares(in: laptop.mine).first)
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        try await world.step(absent, by: phone) {
            world.remove("bob@example.org", from: share)
            try await phone.container.persistUpdatedShare(share, in: phone.mine)
        }
        // More changes right after: with the same share object, with the cached one, and with the other device's old
        // one.
        share.title = "Journey"
        try await phone.container.persistUpdatedShare(share, in: phone.mine)
        let cached = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        #expect(cached.participants.count == 2)
        #expect(cached.title == "Journey")
        cached.addParticipant(emailAddress: "dora@example.org", permission: .readOnly)
        try await phone.container.persistUpdatedShare(cached, in: phone.mine)
        let carol = try #require(stale.participants.first { world.isCalled("carol@example.org", $0) })
        stale.setPermission(.readOnly, for: carol)
        try await laptop.container.persistUpdatedShare(stale, in: laptop.mine)
        try await world.settle()
        for app in [phone, laptop] {
            let now = try #require(try await app.container.fetchShares(in: app.mine).first)
            #expect(now.title == "Journey")
            // Neither device undoes the other's changes.
            #expect(now.participants.count == 3)
            #expect(!now.participants.contains { world.isCalled("bob@example.org", $0) })
            #expect(now.participants.first { world.isCalled("carol@example.org", $0) }?.permission == .readOnly)
        }
        #expect(try world.carol.memos.count == 2)
        #expect(try await !world.carol.badges(try #require(try world.carol.note)).canEdit)
        #expect(try world.bob.note == nil)
    }

    @Test(arguments: Absent.allCases) func issue5AnEndedShareLeavesNothingBehind(_ absent: Absent) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let phone = world.phone
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        try await world.step(absent, by: phone, isQueued: true) {
            try await phone.container.stopSharing(share, in: phone.mine)
        }
        try await world.settle()
        for app in [world.bob, world.carol] {
            #expect(try app.note == nil)
            #expect(try app.context().fetch(Memo.self).isEmpty)
            #expect(try await app.container.fetchShares(in: app.others).isEmpty)
        }
        for app in [phone, world.laptop] {
            #expect(try app.memos == ["1 passport", "2 tickets"])
            #expect(try await app.container.fetchShares(in: app.mine).isEmpty)
            #expect(try await app.badges(try #require(try app.note)) == (false, true, true))
        }
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID.zoneName)
        #expect(!zones.contains(share.recordID.zoneID.zoneName))
        // The history contains the start and the end of the share.
        let history = try await world.bob.container.history(entity: "cloudkit.share").flatMap(\.changes)
        #expect(history.first?.kind == .insert && history.last?.kind == .delete)
        #expect(history.allSatisfy { $0.object.name.text == share.recordID.zoneID.zoneName })
        // The other device shares the object again.
        let again = try await world.share(publicly: true, by: world.laptop)
        try await world.bob.container.acceptShareInvitations(from: [again], into: world.bob.others)
        #expect(try world.bob.memos.count == 2)
    }

    @Test(arguments: Absent.allCases) func issue6ARemovedParticipantKeepsNothing(_ absent: Absent) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let (phone, bob) = (world.phone, world.bob)
        let shown = try #require(try bob.note)
        let context = bob.context()
        var edited = shown
        edited.title = "written too late"
        try context.update(edited)
        // No policy applies, because there is no object to merge with.
        let strict = bob.context()
        strict.mergePolicy = .error
        try strict.update(edited)
        let share = try #require(try await phone.container.fetchShares(in: phone.mine).first)
        try await world.step(absent, by: phone) {
            world.remove("bob@example.org", from: share)
            try await phone.container.persistUpdatedShare(share, in: phone.mine)
        }
        try await bob.container.fetchChanges()
        #expect(try bob.note == nil)
        // A value that the app still has can be read, but not saved.
        #expect(shown.title == "Trip")
        #expect(Self.code { try context.save() } == .objectUnavailable)
        #expect(Self.code { try strict.save() } == .objectUnavailable)
        #expect(
            Self.code { try bob.context().edit(SharedNote.self, shown.id) { $0.title = "late" } } == .objectUnavailable
        )
        let events = try await bob.container.events(of: bob.others)
        #expect(events.contains { $0.details.contains { Self.isLoss($0, .removed) } })
        #expect(try await bob.container.pendingExportCount(bob.others) == 0)
        try await world.settle()
        for app in [phone, world.laptop, world.carol] { #expect(try app.memos.count == 2) }
    }

    @Test(arguments: Absent.allCases) func issue7AParticipantWhoLeavesKeepsNothing(_ absent: Absent) async throws {
        let world = try await SharingWorld()
        try await world.shareWithBoth()
        let bob = world.bob
        try bob.addMemo("never sent")
        let share = try #require(try await bob.container.fetchShares(in: bob.others).first)
        try await world.step(absent, by: bob) { try await bob.container.leaveShare(share, in: bob.others) }
        #expect(try bob.note == nil)
        #expect(try bob.context().fetch(Memo.self).isEmpty)
        #expect(try await bob.container.pendingExportCount(bob.others) == 0)
        let events = try await bob.container.events(of: bob.others)
        #expect(events.contains { $0.details.contains { Self.isLoss($0, .left) } })
        #expect(events.contains { $0.details.contains { if case .droppedChanges = $0 { true } else { false } } })
        try await world.settle()
        for app in [world.phone, world.laptop, world.carol] { #expect(try app.memos.count == 2) }
        let left = try #require(try await world.phone.container.fetchShares(in: world.phone.mine).first)
        #expect(
            !left.participants.contains { world.isCalled("bob@example.org", $0) && $0.acceptanceStatus == .accepted }
        )
    }

    private static func code(_ work: () throws -> Void) -> MirrorError.Code? {
        do {
            try work()
            return nil
        } catch {
            return (error as? MirrorError)?.code
        }
    }

    private static func isLoss(_ detail: MirrorEvent.Detail, _ loss: ShareChange.Loss) -> Bool {
        if case .share(.accessLost(loss), _) = detail { true } else { false }
    }
}

/// An owner with two devices, and two participants.
struct SharingWorld: Sendable {
    let relay: TestRelay
    let phone: NotesApp
    let laptop: NotesApp
    let bob: NotesApp
    let carol: NotesApp

    /// With `relayMoves: false`, the owner's devices move objects as if the relay did not support moves.
    init(relayMoves: Bool = true) async throws {
        relay = try TestRelay()
        var conditions = MirrorConditions()
        conditions.relayMoves = relayMoves
        phone = try await NotesApp(relay.device(of: "alice@example.org", named: "phone"), nil, conditions)
        laptop = try await NotesApp(relay.device(of: "alice@example.org", named: "laptop"), nil, conditions)
        bob = try await NotesApp(relay.device(of: "bob@example.org", named: "tablet"))
        carol = try await NotesApp(relay.device(of: "carol@example.org", named: "pc"))
        let context = phone.context()
        let note = SharedNote(id: "trip", title: "Trip")
        try context.insert(note)
        try context.insert(Memo(text: "1 passport", note: note))
        try context.insert(Memo(text: "2 tickets", note: note))
        try context.save()
        // All devices have been online before, so each store knows its user.
        for app in [phone, laptop, bob, carol] { try await app.sync() }
    }

    func share(publicly isPublic: Bool, by owner: NotesApp? = nil) async throws -> URL {
        let owner = owner ?? phone
        let note = try #require(try owner.note)
        let permission: CKShare.ParticipantPermission = isPublic ? .readWrite : .none
        let share = try await owner.container.share([try owner.id(note)], publicPermission: permission).share
        if !isPublic {
            for address in ["bob@example.org", "carol@example.org"] {
                share.addParticipant(emailAddress: address, permission: .readWrite)
            }
            try await owner.container.persistUpdatedShare(share, in: owner.mine)
        }
        return try #require(share.url)
    }

    func shareWithBoth() async throws {
        let link = try await share(publicly: false)
        for app in [bob, carol] { try await app.container.acceptShareInvitations(from: [link], into: app.others) }
        for app in [phone, laptop] { try await app.sync() }
        #expect(try await phone.container.fetchShares(in: phone.mine).first?.participants.count == 3)
    }

    /// Performs a step while one device is offline.
    ///
    /// If that is the acting device, the step fails and is repeated when the device is online again; with `isQueued`
    /// the device continues automatically.
    func step(
        _ absent: SharingIssueTests.Absent,
        by actor: NotesApp,
        isQueued: Bool = false,
        _ work: () async throws -> Void
    ) async throws {
        let away = app(absent)
        away?.device.network.cut()
        guard away === actor else {
            try await work()
            away?.device.network.heal()
            try await away?.sync()
            return
        }
        await #expect(throws: (any Error).self) { try await work() }
        actor.device.network.heal()
        if isQueued { try await actor.sync() } else { try await work() }
    }

    private func app(_ absent: SharingIssueTests.Absent) -> NotesApp? {
        switch absent {
        case .noDevice: nil
        case .phone: phone
        case .laptop: laptop
        case .bob: bob
        case .carol: carol
        }
    }

    func settle() async throws {
        for _ in 0..<2 { for app in [phone, laptop, bob, carol] { try await app.sync() } }
    }

    func isCalled(_ address: String, _ participant: CKShare.Participant) -> Bool {
        participant.userIdentity.lookupInfo?.emailAddress == address
    }

    func remove(_ address: String, from share: CKShare) {
        for participant in share.participants where isCalled(address, participant) {
            share.removeParticipant(participant)
        }
    }
}
