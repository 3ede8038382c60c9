import Records
import RelayCore
import StoreKit
import Testing
import Wire

@Suite struct ShareUpdateTests {
    private let rows = MemorySharingRows()
    private let bob = UserID("_bob")
    private let carol = UserID("_carol")

    private func participant(_ user: UserID, accepted: Bool = true) -> Share.Participant {
        Share.Participant(id: user.recordName, permission: .readOnly, hasAccepted: accepted, user: user)
    }

    private func share(_ link: String = "link", root: String?, _ people: [Share.Participant] = []) -> Share {
        Share(root: root, shortGUID: link, publicPermission: .none, participants: people)
    }

    private func change(_ old: Share?, _ new: Share?, name: String = "share") -> ShareUpdate.Change {
        ShareUpdate.Change(name: name, change: rows.takeChangeNumber(), old: old, new: new)
    }

    @Test("shares of one write are inserted together, and invited users are notified")
    func creation() throws {
        let update = try rows.update([
            change(nil, share("one", root: "a", [participant(bob, accepted: false)]), name: "s1"),
            change(nil, share("two", root: "b"), name: "s2"),
        ])
        #expect(rows.zone.sharing == .hierarchies)
        #expect(update.newHierarchies.map(\.root) == ["a", "b"])
        #expect(update.recipients == [.init(user: bob, token: nil, knowsZone: false)])
        #expect(rows.accessRows.isEmpty)
        #expect(rows.calls == ["insertShares", "writeSharing", "writeParticipants"])
    }

    @Test("who joins gets access with the change; who leaves loses it and is notified")
    func joinAndLeave() throws {
        let (invited, joined) = (
            share(root: "a", [participant(bob, accepted: false)]), share(root: "a", [participant(bob)])
        )
        _ = try rows.update([change(nil, invited)])
        let join = change(invited, joined)
        #expect(try rows.update([join]).recipients.isEmpty)
        #expect(rows.accessRows[bob]?.change == join.change && rows.accessRows[bob]?.hasEnded == false)
        let leave = change(joined, share(root: "a"))
        #expect(try rows.update([leave]).recipients == [.init(user: bob, token: nil)])
        #expect(rows.accessRows[bob]?.change == leave.change && rows.accessRows[bob]?.hasEnded == true)
    }

    @Test("who leaves one hierarchy of a zone and stays in another gets a new view of the zone")
    func staysInAnother() throws {
        let (first, second) = (share("one", root: "a", [participant(bob)]), share("two", root: "b", [participant(bob)]))
        _ = try rows.update([change(nil, first, name: "s1"), change(nil, second, name: "s2")])
        let before = try #require(rows.accessRows[bob]?.identity)
        let leave = change(first, share("one", root: "a"), name: "s1")
        let update = try rows.update([leave])
        let access = try #require(rows.accessRows[bob])
        #expect(!access.hasEnded && access.identity != before)
        #expect(update.recipients == [.init(user: bob, token: MemorySharingRows.token(access.identity, leave.change))])
    }

    @Test("the zone is no longer shared once its last share ends")
    func ends() throws {
        let (first, second) = (share("one", root: "a", [participant(bob)]), share("two", root: "b"))
        _ = try rows.update([change(nil, first, name: "s1"), change(nil, second, name: "s2")])
        _ = try rows.update([change(second, nil, name: "s2")])
        #expect(rows.zone.sharing == .hierarchies && rows.shareRows.count == 1)
        _ = try rows.update([change(first, nil, name: "s1")])
        #expect(rows.zone.sharing == .nothing && rows.shareRows.isEmpty)
        #expect(rows.accessRows[bob]?.hasEnded == true)
    }

    @Test("only what has changed is written")
    func changesOnly() throws {
        let old = share(root: "a", [participant(bob)])
        _ = try rows.update([change(nil, old)])
        rows.resetCalls()
        var new = old
        new.allowsAccessRequests = true
        new.requesters = [carol]
        _ = try rows.update([change(old, new)])
        #expect(rows.calls == ["sharesWithLinks", "writeSettings", "writeRequests"])
        #expect(rows.shareRows[1]?.settings.allowsAccessRequests == true)
        #expect(rows.shareRows[1]?.requests.requesters == [carol])
    }

    @Test("the shares of a deleted zone end for all who have access")
    func zoneEnds() throws {
        _ = try rows.update([change(nil, share(root: nil, [participant(bob), participant(carol)]))])
        rows.zone.lastChange = 77
        let told = try ShareUpdate.end(sharesOf: rows.zone, rows: rows, numbers: rows)
        #expect(told.map(\.user) == [bob, carol])
        #expect(rows.accessRows.values.allSatisfy { $0.hasEnded && $0.change == 77 } && rows.shareRows.isEmpty)
    }
}

@Suite struct CommitAudienceTests {
    private let rows = MemorySharingRows()
    private let bob = UserID("_bob")
    private let carol = UserID("_carol")

    /// Bob sees the first of two hierarchies, Carol both.
    private func lists() throws -> (first: Int64, second: Int64) {
        try rows.put([rows.record("a"), rows.record("b")])
        return (try rows.share("a", with: [bob, carol]), try rows.share("b", with: [carol]))
    }

    @Test("a change of a hierarchy concerns those who have joined it, at the last change of their view")
    func hierarchies() throws {
        let (_, second) = try lists()
        let update = try rows.put([rows.record("n", in: "b")])
        var audience = CommitAudience()
        audience.add(update, of: rows.zone.id)
        let told = try audience.participants(of: [rows.zone], rows: rows, token: MemorySharingRows.token)
        let access = try #require(rows.accessRows[carol])
        let last = try #require(rows.shareRows[second]?.lastChange)
        #expect(told[rows.zone.id] == [.init(user: carol, token: MemorySharingRows.token(access.identity, last))])
    }

    @Test("a change of a zone that is shared as a whole concerns everybody with access")
    func wholeZone() throws {
        _ = try lists()
        rows.zone.sharing = .everything
        rows.zone.lastChange = 500
        rows.resetCalls()
        let told = try CommitAudience().participants(of: [rows.zone], rows: rows, token: MemorySharingRows.token)
        #expect(told[rows.zone.id]?.map(\.user) == [bob, carol])
        #expect(told[rows.zone.id]?.allSatisfy { $0.token?.position == 500 } == true)
        #expect(rows.calls == ["access"])
    }

    @Test("who has lost access is told once, and not if the change concerns them anyway")
    func lost() throws {
        _ = try lists()
        let update = try rows.put([rows.record("n", in: "b")])
        var audience = CommitAudience()
        audience.add(update, of: rows.zone.id)
        audience.add([.init(user: bob, token: nil), .init(user: carol, token: nil)], of: rows.zone.id)
        audience.add([.init(user: bob, token: nil)], of: rows.zone.id)
        let told = try audience.participants(of: [rows.zone], rows: rows, token: MemorySharingRows.token)
        #expect(told[rows.zone.id]?.map(\.user) == [carol, bob])
        #expect(told[rows.zone.id]?.first?.token != nil)
    }

    @Test("the viewers of a moved record are those who saw it and those who see it")
    func viewers() throws {
        _ = try lists()
        try rows.put([rows.record("n", in: "a")])
        let moved = rows.record("n", in: "b")
        let update = try rows.put([moved])
        var audience = CommitAudience()
        audience.add(update, of: rows.zone.id)
        audience.add(try #require(update.changes[moved.change]), of: moved.change)
        var records = [CommittedRecord(zone: rows.zone.id, before: nil, after: moved, device: "")]
        try audience.addViewers(to: &records, zone: { _ in rows.zone }, rows: rows)
        #expect(
            records[0].viewers == [
                .init(user: bob, couldSee: true, canSee: false), .init(user: carol, couldSee: true, canSee: true),
            ]
        )
    }
}

@Suite struct AliasUpdateTests {
    private let rows = MemorySharingRows()
    private let bob = UserID("_bob")

    @Test("a name that is visible, or that two shares use for different records, is no alias")
    func namesOfAView() {
        let aliases = RecordAliases(
            of: [
                ShareAlias(share: 1, shown: "one", kept: "k1"), ShareAlias(share: 1, shown: "two", kept: "k2"),
                ShareAlias(share: 2, shown: "two", kept: "k3"),
                ShareAlias(share: 1, shown: "three", kept: "k4", shownCover: 2),
                ShareAlias(share: 1, shown: "four", kept: "k5", shownCover: 9),
                ShareAlias(share: 3, shown: "five", kept: "k6"),
            ],
            joined: [1, 2]
        )
        #expect(aliases.target("one") == "k1" && aliases.target("four") == "k5")
        for name in ["two", "three", "five"] { #expect(aliases.target(name) == name) }
    }

    @Test("new aliases of one share are written together and expire no tokens where the names were free")
    func free() throws {
        try rows.put([rows.record("a")])
        let share = try rows.share("a", with: [bob])
        rows.resetCalls()
        let aliases = [
            ShareAlias(share: share, shown: "x", kept: "k1"), ShareAlias(share: share, shown: "y", kept: "k2"),
        ]
        try rows.show(aliases, of: rows.zone, numbers: rows)
        #expect(rows.aliasRows == aliases)
        #expect(rows.calls == ["aliasesShowing", "writeAliases", "aliasesKeeping"])
    }

    @Test("a name that another share of the user shows expires the user's tokens")
    func taken() throws {
        try rows.put([rows.record("a"), rows.record("b"), rows.record("k1", in: "a")])
        let (first, second) = (try rows.share("a", with: [bob]), try rows.share("b", with: [bob]))
        try rows.show([ShareAlias(share: first, shown: "x", kept: "k1")], of: rows.zone, numbers: rows)
        rows.accessRows = [:]
        try rows.show([ShareAlias(share: second, shown: "x", kept: "k2")], of: rows.zone, numbers: rows)
        #expect(rows.accessRows[bob] != nil)
        // The record that has the name in the share keeps it.
        try rows.show([ShareAlias(share: first, shown: "x", kept: "k3")], of: rows.zone, numbers: rows)
        #expect(rows.aliasRows.contains(ShareAlias(share: first, shown: "x", kept: "k1")))
    }
}

@Suite struct ParticipantViewTests {
    private let rows = MemorySharingRows()

    @Test("a view has the shares, the change that gave access, and the last change of its hierarchies")
    func view() throws {
        let bob = UserID("_bob")
        try rows.put([rows.record("a"), rows.record("b")])
        let share = try rows.share("a", with: [bob])
        _ = try rows.share("b")
        var zone = rows.zone
        zone.lastChange = 2
        var zones = [zone]
        rows.resetCalls()
        try rows.addViews(of: bob, to: &zones, lastChanges: [1: 900])
        #expect(zones[0].view?.shares == [.init(share: share, root: "a", permission: .readWrite)])
        #expect(zones[0].view?.since == 2 && zones[0].lastChange == rows.shareRows[share]?.lastChange)
        #expect(rows.calls == ["membershipsOfUsers"])
    }
}
