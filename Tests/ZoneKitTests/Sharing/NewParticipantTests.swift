import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// How people join a share without being named by its owner: by a one-time link, and by an access request.
@Suite(.timeLimit(.minutes(15))) struct ShareAccessTests {
    let relay: TestRelay
    let alice: TestDevice
    let bob: TestDevice
    let carol: TestDevice
    let zone = CKRecordZone(zoneName: "Lists")

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        bob = relay.device(of: "bob")
        carol = relay.device(of: "carol")
        try await alice.privateDatabase.save(zone)
    }

    private func save(_ share: CKShare) async throws -> CKShare {
        try #require(try await alice.privateDatabase.save(share) as? CKShare)
    }

    private func current() async throws -> CKShare {
        let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: zone.zoneID)
        return try #require(try await alice.privateDatabase.record(for: id) as? CKShare)
    }

    private func join(_ url: URL, _ device: TestDevice) async throws -> CKShare {
        try await device.container.accept(try await device.container.shareMetadata(for: url))
    }

    private func ask(_ url: URL, _ device: TestDevice) async throws {
        try await device.container.requestShareAccess(for: [url])[url]?.get()
    }

    // MARK: One-time links

    @Test func aOneTimeLinkAdmitsTheFirstUser() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        let guest = CKShare.Participant.oneTimeURLParticipant()
        guest.permission = .readWrite
        share.addParticipant(guest)
        #expect(share.oneTimeURL(for: guest.participantID) == nil, "before the save there is no link")
        let saved = try await save(share)
        let url = try #require(saved.oneTimeURL(for: guest.participantID))
        #expect(url != saved.url)
        let waiting = try #require(saved.participants.first { $0.participantID == guest.participantID })
        #expect(waiting.acceptanceStatus == .pending && waiting.userIdentity.lookupInfo == nil)
        #expect(waiting.userIdentity.nameComponents == nil && waiting.dateAddedToShare != nil)
        // Until the link is used, all of the owner's devices see the same link.
        #expect(try await current().oneTimeURL(for: guest.participantID) == url)

        let joined = try await join(url, bob)
        #expect(joined.currentUserParticipant?.permission == .readWrite)
        #expect(try await bob.sharedDatabase.allRecordZones().map(\.zoneID.zoneName) == ["Lists"])
        let now = try await current()
        #expect(now.oneTimeURL(for: guest.participantID) == nil)
        #expect(now.participants.first { $0.participantID == guest.participantID }?.acceptanceStatus == .accepted)
        await #expect { try await join(url, carol) } throws: { ($0 as? CKError)?.code == .permissionFailure }
        // The share's general link still lets no one in.
        let open = try #require(now.url)
        await #expect { try await join(open, carol) } throws: { ($0 as? CKError)?.code == .permissionFailure }
    }

    // MARK: Invitation links

    @Test("the link of an invitation admits a user whose account has another address", arguments: [true, false])
    func anInvitationsLink(isAddress: Bool) async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        let guest =
            if isAddress {
                try await alice.container.shareParticipant(forEmailAddress: "Somebody.Else@example.net")
            } else {
                try await alice.container.shareParticipant(forPhoneNumber: "+49 30 1234567")
            }
        guest.permission = .readWrite
        share.addParticipant(guest)
        let before = guest.participantID
        #expect(share.invitationURL(for: before) == nil, "before the save there is no link")
        let saved = try await save(share)
        let shown = try #require(saved.participants.first { $0.role == .privateUser })
        let url = try #require(saved.invitationURL(for: shown.participantID))
        #expect(saved.invitationURL(for: before) == url, "the link is also found by the ID before the save")
        #expect(url != saved.url && saved.oneTimeURL(for: shown.participantID) == nil)
        #expect(saved.invitationURL(for: saved.owner.participantID) == nil)
        #expect(try await current().invitationURL(for: shown.participantID) == url)
        #expect(try archived(saved).invitationURL(for: shown.participantID) == url)

        let open = try #require(saved.url)
        await #expect { try await join(open, carol) } throws: {
            ($0 as? CKError)?.code == .participantMayNeedVerification
        }
        let joined = try await join(url, carol)
        #expect(joined.currentUserParticipant?.permission == .readWrite)
        #expect(joined.invitationURL(for: shown.participantID) == nil, "participants must receive no links")
        #expect(try await current().invitationURL(for: shown.participantID) == nil)
        await #expect { try await join(url, bob) } throws: { ($0 as? CKError)?.code == .permissionFailure }
    }

    private func archived<Object: NSObject & NSSecureCoding>(_ object: Object) throws -> Object {
        let data = try NSKeyedArchiver.archivedData(withRootObject: object, requiringSecureCoding: true)
        return try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: Object.self, from: data))
    }

    /// A copy and an archive of the participant are the same participant, also if the copy is saved.
    @Test func aOneTimeParticipantKeepsItsIdentity() async throws {
        let guest = CKShare.Participant.oneTimeURLParticipant()
        let copy = try #require(guest.copy() as? CKShare.Participant)
        let kept = try archived(guest)
        #expect(copy.participantID == guest.participantID && kept.participantID == guest.participantID)
        #expect(copy == guest && kept == guest)
        #expect(guest != CKShare.Participant.oneTimeURLParticipant())
        let share = CKShare(recordZoneID: zone.zoneID)
        share.addParticipant(copy)
        let copied = try archived(try #require(share.copy() as? CKShare))
        #expect(copied.participants.map(\.participantID).contains(guest.participantID))
        #expect(try await save(copied).oneTimeURL(for: guest.participantID) != nil)
    }

    @Test func aOneTimeLinkEndsWithItsParticipant() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        let guests = [CKShare.Participant.oneTimeURLParticipant(), .oneTimeURLParticipant()]
        guests.forEach(share.addParticipant)
        let saved = try await save(share)
        let urls = try guests.map { try #require(saved.oneTimeURL(for: $0.participantID)) }
        #expect(urls[0] != urls[1])
        saved.removeParticipant(try #require(saved.participants.first { $0.participantID == guests[0].participantID }))
        _ = try await save(saved)
        await #expect { try await join(urls[0], bob) } throws: { ($0 as? CKError)?.code == .permissionFailure }
        _ = try await join(urls[1], bob)
    }

    // MARK: Access requests

    @Test func anApprovedRequesterCanJoin() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        share.allowsAccessRequests = true
        let saved = try await save(share)
        #expect(saved.allowsAccessRequests && saved.requesters.isEmpty)
        let url = try #require(saved.url)
        try await ask(url, bob)
        try await ask(url, bob)
        let seen = try await current()
        let requester = try #require(seen.requesters.first)
        #expect(seen.requesters.count == 1)
        #expect(requester.userIdentity.userRecordID?.recordName.hasPrefix("_") == true)
        await #expect { try await join(url, bob) } throws: { ($0 as? CKError)?.code == .permissionFailure }

        let found = try await alice.container.shareParticipants(for: [requester.participantLookupInfo])
        seen.addParticipant(try #require(try found.values.first?.get()))
        let answered = try await save(seen)
        #expect(answered.requesters.isEmpty)
        #expect(answered.participants.last?.isApprovedRequester == true)
        await #expect { try await ask(url, bob) } throws: { ($0 as? CKError)?.code == .participantAlreadyInvited }
        _ = try await join(url, bob)
        #expect(try await current().participants.count == 2)
    }

    @Test func deniedRequestersMayAskAgainAndBlockedOnesMayNot() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        share.allowsAccessRequests = true
        let url = try #require(try await save(share).url)
        try await ask(url, bob)
        var seen = try await current()
        seen.denyRequesters(seen.requesters)
        #expect(seen.requesters.isEmpty)
        seen = try await save(seen)
        try await ask(url, bob)
        seen = try await current()
        seen.blockRequesters(seen.requesters)
        #expect(seen.blockedIdentities.count == 1)
        seen = try await save(seen)
        #expect(seen.requesters.isEmpty && seen.blockedIdentities.count == 1)
        await #expect { try await ask(url, bob) } throws: { ($0 as? CKError)?.code == .unknownItem }
        seen.unblockIdentities(seen.blockedIdentities)
        #expect(try await save(seen).blockedIdentities.isEmpty)
        try await ask(url, bob)
    }

    @Test func aBlockedParticipantIsRemoved() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        share.allowsAccessRequests = true
        let url = try #require(try await save(share).url)
        try await ask(url, bob)
        let seen = try await current()
        let requesters = seen.requesters
        let found = try await alice.container.shareParticipants(for: requesters.map(\.participantLookupInfo))
        seen.addParticipant(try #require(try found.values.first?.get()))
        _ = try await save(seen)
        _ = try await join(url, bob)
        let later = try await current()
        later.blockRequesters(requesters)
        _ = try await save(later)
        #expect(try await bob.sharedDatabase.allRecordZones().isEmpty)
        #expect(try await current().participants.count == 1)
    }

    @Test func aShareWithoutAccessRequestsLooksLikeAMissingShare() async throws {
        let url = try #require(try await save(CKShare(recordZoneID: zone.zoneID)).url)
        let nowhere = url.deletingLastPathComponent().appendingPathComponent("none")
        let results = try await bob.container.requestShareAccess(for: [url, nowhere])
        let errors = [url, nowhere].map { url -> CKError? in
            if case .failure(let error)? = results[url] { error as? CKError } else { nil }
        }
        #expect(errors.map { $0?.code } == [.unknownItem, .unknownItem])
        #expect(errors[0]?.localizedDescription == errors[1]?.localizedDescription)
        #expect(try await current().requesters.isEmpty)
    }

    @Test func theOperationRequestsAccess() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        share.allowsAccessRequests = true
        let url = try #require(try await save(share).url)
        let operation = CKShareRequestAccessOperation(shareURLs: [url])
        let asked: Bool = try await withCheckedThrowingContinuation { continuation in
            operation.shareAccessRequestResultBlock = { result in
                continuation.resume(with: result.map { true })
            }
            bob.container.add(operation)
        }
        #expect(asked)
        #expect(try await current().requesters.count == 1)
    }

    // MARK: Effects of a change

    @Test func effectsOfAPermissionChangeAreKnownBeforeTheSave() async throws {
        let share = CKShare(recordZoneID: zone.zoneID)
        let invited = try await alice.container.shareParticipant(forEmailAddress: "dave@example.org")
        share.addParticipant(invited)
        let saved = try await save(share)
        #expect(saved.effectsOfChangingPublicPermission(to: .none).isEmpty)
        #expect(saved.effectsOfChangingPublicPermission(to: .readOnly).count == 1)
        saved.publicPermission = .readOnly
        let open = try await save(saved)
        #expect(open.participants.count == 1)
        _ = try await join(try #require(open.url), bob)
        let seen = try await current()
        #expect(seen.effectsOfChangingPublicPermission(to: .readWrite).isEmpty)
        #expect(seen.effectsOfChangingPublicPermission(to: .none).map(\.role) == [.publicUser])
    }
}
