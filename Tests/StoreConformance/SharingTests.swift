import Records
import RelayCore
import StoreTesting
import Testing

/// Shares and what participants see of a zone.
@Suite struct SharingTests {
    private let store: any Store

    init() async throws {
        store = try TestStore.current.makeHome().store()
        try await store.makeZone()
    }

    @Test("a participant sees the whole of a shared zone, under an identity of its own") func wholeZone() async throws {
        let own = try #require(try store.zone())
        try await store.save(["a"])
        #expect(try store.zone(seenBy: .bob) == nil)
        try await store.share(with: [.joined(.bob, .readWrite)])
        let zone = try #require(try store.zone(seenBy: .bob))
        #expect(zone.id == .notes && zone.identity != own.identity && zone.sharing == .everything)
        #expect(zone.view?.user == .bob && zone.view?.isPartial == false)
        #expect(zone.view?.shares.map(\.root) == [nil] && zone.view?.shares.map(\.permission) == [.readWrite])
        #expect(try store.feed(seenBy: .bob) == ["a", Share.zoneWideName])
        #expect(try store.zone(seenBy: .carol) == nil)
        #expect(try store.zone()?.view == nil && store.zone()?.sharing == .everything)
    }

    @Test("who has not accepted, or has no permission, sees nothing") func notJoined() async throws {
        var invited = Share.Participant.joined(.bob)
        invited.hasAccepted = false
        try await store.share(with: [invited, .joined(.carol, .none)])
        for user in [UserID.bob, .carol] {
            #expect(try store.zone(seenBy: user) == nil)
            #expect(try store.look { try $0.zones(sharedWith: user) }.isEmpty)
        }
    }

    @Test("a share record is read back with what it shares, in the order of its participants") func roundTrip()
        async throws
    {
        var asked = Share.Participant.joined(.carol, .readWrite)
        asked.hasRequestedAccess = true
        asked.added = Timestamp(milliseconds: 5)
        asked.role = .administrator
        let invited = [
            Share.Participant(id: "1", permission: .readOnly, contact: .phone("+491234567")),
            Share.Participant(id: "2", role: .publicUser, permission: .readOnly),
        ]
        var share = Share(root: nil, shortGUID: "guid", publicPermission: .readWrite, participants: invited + [asked])
        share.allowsAccessRequests = true
        share.requesters = [UserID("_later"), .bob]
        share.blocked = [UserID("_blocked")]
        var draft = Draft(Share.zoneWideName, title: "a field of the app")
        draft.type = Share.recordType
        draft.shareReference = ShareReference(shortGUID: "guid", record: Share.zoneWideName)
        draft.share = share
        let saved = try await store.put([draft])[0]
        let record = try #require(try store.records([Share.zoneWideName])[Share.zoneWideName])
        #expect(record.sharing == share && record == saved)
        share.participants.removeFirst()
        (share.requesters, share.publicPermission) = ([], .none)
        draft.share = share
        try await store.put([draft])
        #expect(try store.records([Share.zoneWideName])[Share.zoneWideName]?.sharing == share)
        let zone = try #require(try store.zone())
        let light = try store.look { try $0.records(named: [Share.zoneWideName], in: zone, withFields: false) }
        #expect(light[Share.zoneWideName]?.sharing == share, "shares are read whole")
    }

    @Test("a share is found by its link while it lasts") func links() async throws {
        try await store.share(with: [.joined(.bob)])
        let link = try #require(try store.records([Share.zoneWideName])[Share.zoneWideName]?.sharing?.shortGUID)
        let place = try #require(try store.look { try $0.share(ofLink: link) })
        #expect(place.zone.id == .notes && place.zone.view == nil && place.record == Share.zoneWideName)
        #expect(try store.look { try $0.share(ofLink: link.uppercased()) } == nil)
        try await store.share(with: [])
        #expect(try store.look { try $0.share(ofLink: link) } == nil)
    }

    @Test("pending invitations are found by address, and assigned to the user who has it") func invitations()
        async throws
    {
        let (email, phone) = (Share.Contact.email("bob@example.org"), Share.Contact.phone("+49123"))
        let plans = ZoneID("Plans", owner: .carol)
        try await store.makeZone(plans)
        for id in [ZoneID.notes, plans] {
            try await store.share(
                with: [
                    Share.Participant(id: "e \(id)", permission: .readOnly, contact: email),
                    Share.Participant(id: "p \(id)", permission: .readOnly, contact: phone),
                ],
                in: id
            )
        }
        func inviting(_ contacts: [Share.Contact]) throws -> Set<ZoneID> {
            try Set(store.look { try $0.shares(inviting: contacts).map(\.zone.id) })
        }
        #expect(try inviting([email]) == [.notes, plans] && inviting([phone]) == [.notes, plans])
        #expect(try inviting([.email("eve@example.org"), .phone("bob@example.org")]).isEmpty && inviting([]).isEmpty)
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.assignInvitations(to: [email], inZonesOf: .alice, to: .bob)
        }
        #expect(try inviting([email]) == [plans] && inviting([phone]) == [.notes, plans])
        let share = try #require(try store.records([Share.zoneWideName])[Share.zoneWideName]?.sharing)
        #expect(share.participants.map(\.user) == [.bob, nil] && share.participants.map(\.contact) == [email, phone])
        #expect(try store.zone(seenBy: .bob) == nil, "it is not accepted")
    }

    @Test("a zone that is no longer shared is listed as ended, and shared again it is another") func ends() async throws
    {
        try await store.share(with: [.joined(.bob)])
        let first = try #require(try store.zone(seenBy: .bob))
        try await store.share(with: [])
        #expect(try store.zone(seenBy: .bob) == nil)
        let ended = try store.look { try $0.zones(sharedWith: .bob) }
        #expect(ended.map(\.id) == [.notes] && ended.map(\.isDeleted) == [true])
        #expect(try #require(ended.first).lastChange > first.lastChange)
        #expect(try store.zone()?.sharing == .nothing)
        try await store.share(with: [.joined(.bob)])
        #expect(try store.zone(seenBy: .bob).map { $0.identity != first.identity } == true)
        #expect(try store.look { try $0.zones(sharedWith: .bob) }.map(\.isDeleted) == [false])
    }

    @Test("the end of a zone ends its shares") func deletedZone() async throws {
        try await store.share(with: [.joined(.bob)])
        let link = try #require(try store.records([Share.zoneWideName])[Share.zoneWideName]?.sharing?.shortGUID)
        try await store.deleteZone(.notes)
        #expect(try store.zone(seenBy: .bob) == nil)
        try store.look { reader throws in
            #expect(try reader.zones(sharedWith: .bob).map(\.isDeleted) == [true])
            #expect(try reader.share(ofLink: link) == nil)
        }
        try await store.makeZone()
        #expect(try store.zone(seenBy: .bob) == nil && store.zone()?.sharing == .nothing)
    }

    @Test("a user's shared zones of several owners are in the order of their changes for each owner") func owners()
        async throws
    {
        let plans = ZoneID("Plans", owner: .carol)
        try await store.makeZone(plans)
        let second = ZoneID("Second", owner: .alice)
        try await store.makeZone(second)
        for id in [ZoneID.notes, second, plans] { try await store.share(with: [.joined(.bob)], in: id) }
        try await store.save(["x"])
        let zones = try store.look { try $0.zones(sharedWith: .bob) }
        #expect(zones.filter { $0.id.owner == .alice }.map(\.id) == [second, .notes])
        #expect(zones.filter { $0.id.owner == .carol }.map(\.id) == [plans])
        #expect(zones.count == 3)
    }

    // MARK: Hierarchies

    /// root - leaf, and another root with a leaf.
    private func makeTree() async throws {
        try await store.put([
            Draft("root"), Draft("leaf", parent: "root"), Draft("other"), Draft("below", parent: "other"),
        ])
    }

    @Test("a participant of a hierarchy sees its records only") func hierarchy() async throws {
        try await makeTree()
        try await store.share("root", with: [.joined(.bob)])
        let zone = try #require(try store.zone(seenBy: .bob))
        #expect(
            zone.view?.isPartial == true && zone.view?.shares.map(\.root) == ["root"] && zone.sharing == .hierarchies
        )
        let names = ["root", "leaf", "other", "below", "share of root"]
        #expect(try Set(store.records(names, seenBy: .bob).keys) == ["root", "leaf", "share of root"])
        #expect(try Set(store.feed(seenBy: .bob)) == ["root", "leaf", "share of root"])
        #expect(try store.records(names).count == 5)
    }

    @Test("each record is covered by the share of its hierarchy") func covers() async throws {
        try await makeTree()
        try await store.share("root", with: [.joined(.bob)])
        try await store.share("other", with: [.joined(.carol)])
        let (zone, view) = (try #require(try store.zone()), try #require(try store.zone(seenBy: .bob)))
        let covers = try store.look { try $0.shares(covering: ["root", "leaf", "below", "none"], in: zone) }
        #expect(Set(covers.keys) == ["root", "leaf", "below"])
        #expect(covers["root"] == covers["leaf"] && covers["root"] == view.view?.shares.first?.share)
        #expect(covers["below"] != covers["root"])
    }

    @Test("a record that enters a hierarchy appears at a new position, and one that leaves ends in a tombstone")
    func moves() async throws {
        try await makeTree()
        try await store.share("root", with: [.joined(.bob)])
        let start = try #require(try store.zone(seenBy: .bob)).lastChange
        // Its record below comes along, although that one does not change.
        try await store.put([Draft("other", parent: "leaf")])
        #expect(try Set(store.feed(after: start, seenBy: .bob)) == ["other", "below"])
        let middle = try #require(try store.zone(seenBy: .bob)).lastChange
        try await store.put([Draft("other")])
        #expect(try Set(store.feed(after: middle, seenBy: .bob)) == ["-other", "-below"])
        #expect(try store.records(["other", "below"], seenBy: .bob).isEmpty)
        #expect(try store.feed(after: middle) == ["other"], "for the owner, one record has changed")
        // The tombstone says that the record still exists.
        let view = try #require(try store.zone(seenBy: .bob))
        try store.look { reader throws in
            try reader.visitRecords(in: view, changes: middle + 1...view.lastChange, backwards: false, limit: 9) {
                record,
                _ in
                #expect(record.isOutOfSight)
            }
        }
    }

    @Test("a record deleted in a hierarchy is a tombstone for its participants, and changes elsewhere are none")
    func changesInHierarchy() async throws {
        try await makeTree()
        try await store.share("root", with: [.joined(.bob)])
        let start = try #require(try store.zone(seenBy: .bob)).lastChange
        try await store.put([.deleted("below"), Draft("other")])
        #expect(try store.zone(seenBy: .bob)?.lastChange == start && store.feed(after: start, seenBy: .bob).isEmpty)
        try await store.put([.deleted("leaf"), Draft("new", parent: "root")])
        #expect(try store.feed(after: start, seenBy: .bob) == ["-leaf", "new"])
    }

    @Test("a participant of two hierarchies sees both, and keeps one when the other ends") func twoHierarchies()
        async throws
    {
        try await makeTree()
        for root in ["root", "other"] { try await store.share(root, with: [.joined(.bob)]) }
        let both = try #require(try store.zone(seenBy: .bob))
        #expect(both.view?.shares.map(\.root) == ["root", "other"])
        try await store.share("other", with: [])
        let one = try #require(try store.zone(seenBy: .bob))
        #expect(one.view?.shares.map(\.root) == ["root"] && one.identity != both.identity)
        #expect(try Set(store.records(["root", "leaf", "other", "below"], seenBy: .bob).keys) == ["root", "leaf"])
    }

    @Test("records above the root of a share are known") func aboveRoots() async throws {
        try await store.put([
            Draft("top"), Draft("middle", parent: "top"), Draft("root", parent: "middle"),
            Draft("leaf", parent: "root"),
            Draft("other", parent: "top"),
        ])
        try await store.share("root", with: [.joined(.bob)])
        let above = try await store.write(touching: .alice) { writer throws(RelayError) in
            guard let zone = try writer.zone(.notes) else { throw .zoneNotFound }
            return try writer.recordsAboveShareRoots(among: ["top", "middle", "root", "leaf", "other"], in: zone)
        }
        #expect(above.subtracting(["root"]) == ["top", "middle"])
    }

    @Test("two names that are exchanged in a share are exchanged for its participants alone") func aliases()
        async throws
    {
        try await store.put([Draft("root"), Draft("kept", title: "milk", parent: "root")])
        try await store.share("root", with: [.joined(.bob)])
        let share = try #require(try store.zone(seenBy: .bob)?.view?.shares.first).share
        try await store.write(touching: .alice) { writer throws(RelayError) in
            guard let zone = try writer.zone(.notes) else { throw .zoneNotFound }
            try writer.show([NewRecordAlias("kept", shownAs: "shown", in: share)], of: zone)
        }
        let aliases = try #require(try store.zone(seenBy: .bob)?.view).aliases
        #expect(aliases.target("shown") == "kept" && aliases.exchanged("kept") == "shown")
        let record = try #require(try store.records(["kept"])["kept"])
        #expect(aliases.viewed(record).name == "shown" && record.name == "kept")
    }

    // MARK: Tokens of a shared database

    private static let plans = ZoneID("Plans", owner: .carol)

    /// Shares the zones of two owners with bob.
    private func shareTwo() async throws {
        try await store.makeZone(Self.plans)
        for id in [ZoneID.notes, Self.plans] {
            try await store.save(["a"], in: id)
            try await store.share(with: [.joined(.bob)], in: id)
        }
    }

    private func zones(
        _ scope: DatabaseScope = .shared,
        of user: UserID = .bob,
        since token: String? = nil,
        limit: Int = 50
    ) throws -> DatabaseChanges.Page {
        let database = DatabaseAddress(scope: scope, caller: Caller(.user(user), deviceID: "phone"))
        let request = DatabaseChanges(database: database, token: token, limit: limit)
        return try store.look { try request.read(from: $0, epochs: store.epochs(of:)) }
    }

    private func names(_ page: DatabaseChanges.Page) -> [String] {
        page.zones.map { ($0.isDeleted ? "-" : "") + $0.id.zoneName }
    }

    private func vector(_ page: DatabaseChanges.Page) throws -> VectorToken {
        guard case .vector(let token) = page.token else { throw RelayError.changeTokenExpired }
        return token
    }

    @Test("pages of a shared database lose nothing that changes between them") func pages() async throws {
        try await shareTwo()
        let first = try zones(limit: 1)
        #expect(first.zones.count == 1 && first.moreComing)
        try await store.save(["x"], in: #require(first.zones.first).id)
        let second = try zones(since: first.token.encoded, limit: 1)
        #expect(second.moreComing)
        let third = try zones(since: second.token.encoded, limit: 1)
        #expect(!third.moreComing)
        #expect(Set((second.zones + third.zones).map(\.id)) == [.notes, Self.plans])
        #expect(try names(zones(since: third.token.encoded)).isEmpty)
        // Each owner's position is that of their own latest change.
        let places = try vector(third).places
        for zone in second.zones + third.zones {
            let owner = VectorToken.fingerprint(of: zone.id.owner)
            #expect(places.first { $0.owner == owner }?.position == zone.lastChange)
        }
    }

    @Test("an owner who has ended sharing leaves the token, and is listed from nothing when they share again")
    func ownerLeaves() async throws {
        try await shareTwo()
        let before = try zones()
        #expect(try vector(before).places.count == 2)
        try await store.share(with: [], in: Self.plans)
        let after = try zones(since: before.token.encoded)
        #expect(names(after) == ["-Plans"])
        #expect(try vector(after).places.map(\.owner) == [VectorToken.fingerprint(of: .alice)])
        #expect(try names(zones()) == ["Notes"])
        try await store.share(with: [.joined(.bob)], in: Self.plans)
        #expect(try names(zones(since: after.token.encoded)) == ["Plans"])
    }

    @Test("positions that no owner has issued are expired") func foreignPositions() async throws {
        try await shareTwo()
        let token = try vector(try zones())
        let place = try #require(token.places.first)
        let rest = Array(token.places.dropFirst())
        var (future, foreign, stranger) = (place, place, place)
        future.position += 1_000_000
        foreign.epoch &+= 1
        stranger.owner = 0
        for places in [[future] + rest, [foreign] + rest, [stranger] + rest] {
            let wrong = VectorToken(log: token.log, places: places).encoded
            #expect(throws: RelayError.changeTokenExpired) { try zones(since: wrong) }
        }
        let others = VectorToken(log: token.log &+ 1, places: token.places).encoded
        #expect(throws: RelayError.changeTokenExpired) { try zones(since: others) }
        #expect(throws: RelayError.changeTokenExpired) { try zones(.private, since: token.encoded) }
    }
}
