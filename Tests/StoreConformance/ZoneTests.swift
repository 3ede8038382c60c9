import Records
import RelayCore
import StoreTesting
import Testing

/// Zones, their change numbers, epochs and ends.
@Suite struct ZoneTests {
    private let store: any Store

    init() throws { store = try TestStore.current.makeHome().store() }

    private func names(_ zones: [Zone]) -> [String] { zones.map { ($0.isDeleted ? "-" : "") + $0.id.zoneName } }

    @Test("a new store has the public database's zone, and no user's") func fresh() throws {
        let zone = try #require(try store.zone(.common))
        #expect(zone.isPublic && !zone.tracksChanges && zone.use == StorageUse())
        #expect(try store.zone() == nil)
        try store.look { reader throws in
            #expect(try reader.liveZones(of: .alice).isEmpty)
            #expect(try reader.endedZones(of: .alice, after: 0).isEmpty)
            #expect(try reader.lastDeletion(ofZonesOf: .alice) == 0)
            #expect(try reader.zoneCount(of: .alice) == 0 && reader.userCount == 0)
        }
    }

    @Test("a zone is found by its name and owner only") func lookup() async throws {
        let zone = try await store.makeZone()
        #expect(zone.id == .notes && zone.lastChange > 0 && zone.sharing == .nothing && zone.view == nil)
        #expect(try store.zone() == zone)
        for id in [ZoneID("notes", owner: .alice), ZoneID("Notes", owner: .bob), ZoneID("Notes ", owner: .alice)] {
            #expect(try store.zone(id) == nil)
        }
    }

    @Test("an owner's change numbers grow with every change, and the zone has the latest") func changeNumbers()
        async throws
    {
        var last = try await store.makeZone().lastChange
        for round in 0..<5 {
            let saved = try await store.save(["a", "b\(round)"])
            #expect(saved[0].change > last && saved[1].change > saved[0].change)
            last = saved[1].change
            #expect(try store.zone()?.lastChange == last)
        }
        // Not reused after a deletion either.
        #expect(try await store.deleteZone(.notes) > last)
    }

    @Test("a number that a refused write took is not given to another record") func refusedNumbers() async throws {
        try await store.makeZone()
        await #expect(throws: RelayError.recordNotFound) {
            try await store.write(touching: .alice) { writer throws(RelayError) in
                _ = writer.takeChangeNumber()
                throw .recordNotFound
            }
        }
        let saved = try await store.save(["a", "b", "c"])
        #expect(Set(saved.map(\.change)).count == 3)
        #expect(try store.feed() == ["a", "b", "c"])
    }

    @Test("an owner's live zones are listed in the order of their latest changes") func order() async throws {
        for name in ["A", "B", "C"] { try await store.makeZone(ZoneID(name, owner: .alice)) }
        try await store.makeZone(ZoneID("D", owner: .bob))
        try await store.save(["x"], in: ZoneID("A", owner: .alice))
        try store.look { reader throws in
            #expect(names(try reader.liveZones(of: .alice)) == ["B", "C", "A"])
            #expect(names(try reader.liveZones(of: .bob)) == ["D"])
            #expect(try reader.zoneCount(of: .alice) == 3)
        }
    }

    @Test("deleted zones are listed by their end, and not among the living") func ends() async throws {
        for name in ["A", "B", "C"] { try await store.makeZone(ZoneID(name, owner: .alice)) }
        let first = try await store.deleteZone(ZoneID("B", owner: .alice))
        let second = try await store.deleteZone(ZoneID("A", owner: .alice))
        #expect(first < second)
        func ended(after change: UInt64) throws -> [String] {
            try store.look { names(try $0.endedZones(of: .alice, after: change)) }
        }
        #expect(try ended(after: 0) == ["-B", "-A"])
        #expect(try ended(after: first) == ["-A"])
        #expect(try ended(after: second).isEmpty)
        #expect(try store.look { names(try $0.liveZones(of: .alice)) } == ["C"])
        #expect(try store.look { try $0.zoneCount(of: .alice) } == 1)
        // A later zone of the same name exists, and the earlier one's end is still reported.
        try await store.makeZone(ZoneID("A", owner: .alice))
        #expect(try ended(after: first) == ["-A"])
        #expect(try store.look { names(try $0.liveZones(of: .alice)) } == ["C", "A"])
    }

    @Test("a deleted zone is remembered with its identity and reason", arguments: ZoneDeletionReason.allCases)
    func reasons(_ reason: ZoneDeletionReason) async throws {
        let zone = try await store.makeZone()
        func known(_ identity: UInt64) throws -> ZoneDeletionReason? {
            try store.look { try $0.deletionReason(of: .notes, identity: identity) }
        }
        #expect(try known(zone.identity) == nil, "it exists")
        try await store.deleteZone(.notes, as: reason)
        let again = try await store.makeZone()
        #expect(again.identity != zone.identity)
        #expect(try known(zone.identity) == reason)
        #expect(try known(again.identity) == nil && known(zone.identity &+ 1) == nil)
        #expect(try store.look { try $0.endedZones(of: .alice, after: 0).map(\.deletionReason) } == [reason])
    }

    @Test("a zone created again under its name has none of its records") func recreation() async throws {
        try await store.makeZone()
        try await store.save(["a", "b"])
        try await store.deleteZone(.notes)
        #expect(try store.feed().isEmpty)
        let again = try await store.makeZone()
        #expect(try store.feed().isEmpty && store.records(["a"]).isEmpty && store.zone()?.use == StorageUse())
        try await store.save(["a"])
        #expect(try store.feed() == ["a"] && store.zone()?.lastChange ?? 0 > again.lastChange)
    }

    @Test("the public zone remembers the latest modification, which deletions do not take back") func lastModified()
        async throws
    {
        try await store.makeZone()
        try await store.save(["a"], in: .common, at: 50)
        try await store.save(["b"], in: .common, at: 40)
        #expect(try store.zone(.common)?.lastModified == Timestamp(milliseconds: 50))
        try await store.put([.deleted("a", at: 60)], in: .common)
        #expect(try store.zone(.common)?.lastModified == Timestamp(milliseconds: 60))
    }

    @Test("users are counted from the creation of their default zone") func users() async throws {
        try await store.makeZone()
        try await store.save(["a"], in: .common)
        #expect(try store.look { try $0.userCount } == 0)
        for user in [UserID.alice, .bob] { try await store.makeZone(ZoneID(ZoneID.defaultName, owner: user)) }
        #expect(try store.look { try $0.userCount } == 2)
    }

    @Test("every owner has an epoch that stays while the store is open") func epochs() async throws {
        try await store.makeZone()
        let owners = [UserID.alice, .bob, Zone.publicOwner]
        let before = try owners.map { try store.epochs(of: $0) }
        for id in [ZoneID.notes, .common, ZoneID("Notes", owner: .bob)] {
            if id.owner == .bob { try await store.makeZone(id) }
            try await store.save(["a"], in: id)
        }
        #expect(try owners.map { try store.epochs(of: $0) } == before)
        #expect(try owners.map { try store.epoch(of: $0) } == before.map(\.current))
    }

    @Test("change tokens of one owner do not depend on another owner's changes") func ownersApart() async throws {
        try await store.makeZone()
        let theirs = ZoneID("Notes", owner: .bob)
        try await store.makeZone(theirs)
        try await store.save(["a"])
        let token = try store.page().token
        try await store.save((0..<30).map { "b\($0)" }, in: theirs)
        #expect(try store.page(since: token).names.isEmpty)
        try await store.save(["c"])
        #expect(try store.page(since: token).names == ["c"])
    }

    // MARK: Positions of views

    @Test("the zones of a view after a change are those that changed or ended since") func zonesAfter() async throws {
        let view = OwnerView(of: .alice, seenBy: .alice)
        for name in ["A", "B", "C"] { try await store.makeZone(ZoneID(name, owner: .alice)) }
        func zones(after change: UInt64) throws -> [String] {
            try store.look { names(try $0.zones(in: view, after: change)).sorted() }
        }
        let start = try #require(try store.look { try $0.lastChanges(seenBy: [.alice])[view] })
        #expect(try zones(after: start).isEmpty && zones(after: 0) == ["A", "B", "C"])
        try await store.save(["x"], in: ZoneID("B", owner: .alice))
        try await store.deleteZone(ZoneID("C", owner: .alice))
        #expect(try zones(after: start) == ["-C", "B"])
        let end = try #require(try store.look { try $0.lastChanges(seenBy: [.alice])[view] })
        #expect(try end > start && zones(after: end).isEmpty)
    }

    @Test("the last changes that users see are given for each owner") func lastChanges() async throws {
        try await store.makeZone()
        try await store.makeZone(ZoneID("Private", owner: .alice))
        try await store.makeZone(ZoneID("Plans", owner: .carol))
        try await store.share(with: [.joined(.bob)])
        let (own, shared) = (OwnerView(of: .alice, seenBy: .alice), OwnerView(of: .alice, seenBy: .bob))
        let nothing = OwnerView(of: .bob, seenBy: .bob)
        func changes() throws -> [OwnerView: UInt64] {
            try store.look { try $0.lastChanges(seenBy: [.alice, .bob]) }
        }
        let first = try changes()
        #expect(Set(first.keys) == [own, shared, nothing])
        #expect(try first[shared] == store.zone(seenBy: .bob)?.lastChange && first[nothing] == 0)
        // A change of a zone that the participant does not see is none for them.
        let hidden = try await store.save(["a"], in: ZoneID("Private", owner: .alice))[0].change
        #expect(try changes() == first.merging([own: hidden]) { $1 })
        let seen = try await store.save(["b"])[0].change
        #expect(try changes() == [own: seen, shared: seen, nothing: 0])
        let end = try await store.deleteZone(.notes)
        #expect(try changes() == [own: end, shared: end, nothing: 0])
    }

    @Test("a participant's view lists changed zones, and those that are no longer shared as ended")
    func sharedZonesAfter() async throws {
        let view = OwnerView(of: .alice, seenBy: .bob)
        for name in ["A", "B", "C"] {
            let id = ZoneID(name, owner: .alice)
            try await store.makeZone(id)
            if name != "C" { try await store.share(with: [.joined(.bob)], in: id) }
        }
        let start = try #require(try store.look { try $0.lastChanges(seenBy: [.bob])[view] })
        try await store.save(["x"], in: ZoneID("A", owner: .alice))
        try await store.save(["x"], in: ZoneID("C", owner: .alice))
        try await store.share(with: [], in: ZoneID("B", owner: .alice))
        let zones = try store.look { try $0.zones(in: view, after: start) }
        #expect(names(zones).sorted() == ["-B", "A"])
        #expect(try zones.map(\.lastChange).max() == store.look { try $0.lastChanges(seenBy: [.bob])[view] })
    }
}
