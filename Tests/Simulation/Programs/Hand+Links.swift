import Foundation
import Synchronization
import ZoneKit
import ZoneTesting

/// One-time links.
extension Hand {
    static let once = CKRecordZone.ID(zoneName: "Once")

    private var shareOfOnce: CKShare {
        get async throws {
            let id = CKRecord.ID(recordName: CKRecordNameZoneWideShare, zoneID: Self.once)
            do {
                return try await database.record(for: id) as? CKShare ?? CKShare(recordZoneID: Self.once)
            } catch let error as CKError where error.code == .unknownItem {
                return CKShare(recordZoneID: Self.once)
            }
        }
    }

    func offerLink() {
        act("link offered") { hand in
            let share = try await hand.shareOfOnce
            let invitee = CKShare.Participant.oneTimeURLParticipant()
            invitee.permission = .readWrite
            share.addParticipant(invitee)
            guard let saved = try await hand.database.save(share) as? CKShare else { return }
            let links = saved.participants.compactMap { saved.oneTimeURL(for: $0.participantID)?.absoluteString }
            hand.judge.state.withLock { $0.links.formUnion(links) }
        }
    }

    /// Opens one of all links offered so far; the relay must admit only one user per link.
    func takeLink(_ number: Int) {
        act("link taken") { hand in
            let links = hand.judge.state.withLock { $0.links.sorted() }
            guard !links.isEmpty, let url = URL(string: links[number % links.count]) else { return }
            let metadata = try await hand.device.container.shareMetadata(for: url)
            hand.judge.joins(hand.removalFromOnce(metadata))
            let user = hand.device.user ?? ""
            hand.judge.opens(url.absoluteString, user)
            _ = try await hand.device.container.accept(metadata)
            hand.judge.hasJoined(user, by: url.absoluteString)
        }
    }

    private func removalFromOnce(_ metadata: CKShare.Metadata) -> Judge.Removal {
        let owner = metadata.share.recordID.zoneID.ownerName
        return Judge.Removal(
            user: judge.names(device.user ?? ""),
            zone: ZoneName(owner: owner, name: Self.once.zoneName)
        )
    }

    /// Removes all participants and revokes unused links.
    func withdrawLinks(from people: [Judge.Removal]) {
        act("links withdrawn") { hand in
            let joins = people.map { hand.judge.joinCount($0) }
            let share = try await hand.shareOfOnce
            guard share.recordChangeTag != nil else { return }
            for participant in share.participants where participant.role != .owner {
                share.removeParticipant(participant)
            }
            _ = try await hand.database.save(share)
            for (removal, count) in zip(people, joins) { hand.judge.isRemoved(removal, since: count) }
        }
    }
}
