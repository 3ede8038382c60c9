import CloudKit
import Testing
import ZoneTesting

// A board with cards that its owner shares with people of their choice, from the invitation to the day they leave: with
// container and database calls, as current programs write it.

private struct Board {
    let container: CKContainer
    let zone = CKRecordZone(zoneName: "Boards")

    private var isPrivate: CKDatabase { container.privateCloudDatabase }

    func make(_ title: String, cards: [String]) async throws -> CKRecord {
        _ = try await isPrivate.modifyRecordZones(saving: [zone], deleting: [])
        let board = CKRecord(recordType: "Board", recordID: CKRecord.ID(recordName: title, zoneID: zone.zoneID))
        board["title"] = title
        let children = cards.map { text in
            let card = CKRecord(recordType: "Card", recordID: CKRecord.ID(recordName: text, zoneID: zone.zoneID))
            card["text"] = text
            card["board"] = CKRecord.Reference(record: board, action: .deleteSelf)
            card.setParent(board)
            return card
        }
        let (saved, _) = try await isPrivate.modifyRecords(saving: [board] + children, deleting: [])
        return try #require(try saved[board.recordID]?.get())
    }

    /// The share of a record, which may be shared already.
    func share(of board: CKRecord) async throws -> CKShare {
        if let reference = board.share,
            let share = try await isPrivate.record(for: reference.recordID) as? CKShare
        {
            return share
        }
        let share = CKShare(rootRecord: board)
        share[CKShare.SystemFieldKey.title] = board["title"] as? String
        share[CKShare.SystemFieldKey.shareType] = "org.example.board"
        share[CKShare.SystemFieldKey.thumbnailImageData] = Data([1, 2, 3])
        let (saved, _) = try await isPrivate.modifyRecords(saving: [board, share], deleting: [])
        for result in saved.values { _ = try result.get() }
        return try #require(try saved[share.recordID]?.get() as? CKShare)
    }

    func invite(_ address: String, to share: CKShare, _ permission: CKShare.ParticipantPermission) async throws -> URL {
        let participant = try await container.shareParticipant(forEmailAddress: address)
        participant.permission = permission
        share.addParticipant(participant)
        try await isPrivate.save(share)
        return try #require(share.url)
    }

    func join(_ url: URL) async throws -> CKShare {
        let metadata = try await container.shareMetadata(for: url)
        switch metadata.participantStatus {
        case .accepted: return metadata.share
        default: return try await container.accept(metadata)
        }
    }

    func cards(in database: CKDatabase) async throws -> [CKRecord] {
        var cards: [CKRecord] = []
        for zone in try await database.allRecordZones() {
            let query = CKQuery(recordType: "Card", predicate: NSPredicate(value: true))
            query.sortDescriptors = [NSSortDescriptor(key: "text", ascending: true)]
            cards += try await database.records(matching: query, inZoneWith: zone.zoneID).matchResults.compactMap {
                try? $0.1.get()
            }
        }
        return cards
    }
}

@Suite(.timeLimit(.minutes(15))) struct SharedBoardTests {
    private let hers: Board
    private let his: Board
    private let kims: Board

    init() async throws {
        let relay = try TestRelay()
        hers = Board(container: relay.device(of: "alice@example.org").container)
        his = Board(container: relay.device(of: "bob@example.org").container)
        kims = Board(container: relay.device(of: "kim@example.org").container)
        for board in [hers, his, kims] { _ = try await board.container.userRecordID() }
    }

    private func code(_ work: () async throws -> Void) async -> CKError.Code? {
        do {
            try await work()
            return nil
        } catch {
            return (error as? CKError)?.code
        }
    }

    @Test func aParticipantIsInvitedEditsAndLeaves() async throws {
        let board = try await hers.make("Trip", cards: ["Boat", "Tent"])
        #expect(board.share == nil)
        let share = try await hers.share(of: board)
        #expect(board.share?.recordID == share.recordID && share.url != nil)
        #expect(share.participants.map(\.role) == [.owner] && share.owner == share.currentUserParticipant)
        let url = try await hers.invite("bob@example.org", to: share, .readOnly)
        #expect(share.participants.map(\.acceptanceStatus) == [.accepted, .pending])
        #expect(share.participants.last?.userIdentity.lookupInfo?.emailAddress == "bob@example.org")

        // Users without an invitation are refused.
        #expect(await code { _ = try await kims.join(url) } != nil)
        let joined = try await his.join(url)
        let me = try #require(joined.currentUserParticipant)
        #expect(me.acceptanceStatus == .accepted && me.permission == .readOnly && me.role == .privateUser)
        #expect(me != joined.owner && joined.owner.userIdentity.userRecordID?.recordName != CKCurrentUserDefaultName)
        #expect(joined[CKShare.SystemFieldKey.shareType] as? String == "org.example.board")
        #expect(joined[CKShare.SystemFieldKey.thumbnailImageData] as? Data == Data([1, 2, 3]))
        #expect(try await his.join(url).recordID == joined.recordID)
        let cards = try await his.cards(in: his.container.sharedCloudDatabase)
        #expect(cards.map { $0["text"] as? String } == ["Boat", "Tent"])
        #expect(cards.allSatisfy { $0.parent?.recordID.recordName == "Trip" })
        #expect(cards.allSatisfy { $0.recordID.zoneID.ownerName != CKCurrentUserDefaultName })

        // Bob has read access only, until Alice changes his permission.
        let boat = try #require(cards.first)
        boat["text"] = "Ship"
        #expect(await code { try await his.container.sharedCloudDatabase.save(boat) } == .permissionFailure)
        let current = try await hers.share(of: board)
        let bob = try #require(current.participants.first { $0.role != .owner })
        #expect(bob.acceptanceStatus == .accepted)
        bob.permission = .readWrite
        try await hers.container.privateCloudDatabase.save(current)
        let again = try await his.container.sharedCloudDatabase.record(for: boat.recordID)
        again["text"] = "Ship"
        try await his.container.sharedCloudDatabase.save(again)
        #expect(try await hers.cards(in: hers.container.privateCloudDatabase).first?["text"] as? String == "Ship")

        // Bob adds a card to Alice's board.
        let mine = CKRecord(recordType: "Card", recordID: CKRecord.ID(recordName: "Oar", zoneID: boat.recordID.zoneID))
        mine["text"] = "Oar"
        mine.parent = boat.parent
        try await his.container.sharedCloudDatabase.save(mine)
        #expect(try await hers.cards(in: hers.container.privateCloudDatabase).count == 3)

        // Bob leaves. Alice keeps all cards.
        try await his.container.sharedCloudDatabase.deleteRecord(withID: joined.recordID)
        #expect(try await his.container.sharedCloudDatabase.allRecordZones().isEmpty)
        let access = await code { _ = try await his.container.sharedCloudDatabase.record(for: boat.recordID) }
        #expect(access == .zoneNotFound)
        let left = try await hers.share(of: board)
        #expect(!left.participants.contains { $0.acceptanceStatus == .accepted && $0.role != .owner })
        #expect(try await hers.cards(in: hers.container.privateCloudDatabase).count == 3)
    }

    @Test func aRemovedParticipantLosesAccess() async throws {
        let board = try await hers.make("Trip", cards: ["Boat"])
        let share = try await hers.share(of: board)
        let url = try await hers.invite("bob@example.org", to: share, .readWrite)
        _ = try await hers.invite("kim@example.org", to: share, .readWrite)
        _ = try await his.join(url)
        _ = try await kims.join(url)
        let token = try await his.container.sharedCloudDatabase.databaseChanges(since: nil).changeToken
        let current = try await hers.share(of: board)
        let bob = try #require(
            current.participants.first { $0.userIdentity.lookupInfo?.emailAddress == "bob@example.org" }
        )
        current.removeParticipant(bob)
        try await hers.container.privateCloudDatabase.save(current)
        #expect(current.participants.count == 2)
        let changes = try await his.container.sharedCloudDatabase.databaseChanges(since: token)
        #expect(changes.deletions.map(\.zoneID.zoneName) == ["Boards"] && !changes.deletions[0].purged)
        #expect(try await kims.cards(in: kims.container.sharedCloudDatabase).count == 1)
        // Sharing the same board again returns its share; then Alice ends the share.
        #expect(try await hers.share(of: board).recordID == share.recordID)
        let second = CKShare(rootRecord: board)
        await #expect(throws: CKError.self) {
            let (results, _) = try await hers.container.privateCloudDatabase.modifyRecords(
                saving: [board, second],
                deleting: []
            )
            _ = try results[second.recordID]?.get()
        }
        let last = try await hers.share(of: try await hers.container.privateCloudDatabase.record(for: board.recordID))
        try await hers.container.privateCloudDatabase.deleteRecord(withID: last.recordID)
        #expect(try await kims.container.sharedCloudDatabase.allRecordZones().isEmpty)
        #expect(try await hers.container.privateCloudDatabase.record(for: board.recordID).share == nil)
    }
}
