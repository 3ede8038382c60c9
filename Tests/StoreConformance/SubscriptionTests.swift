import Records
import RelayCore
import StoreTesting
import Testing
import Wire

/// Subscriptions, and what commits report.
@Suite struct SubscriptionTests {
    private let log = CommitLog()
    private let store: any Store

    init() throws { store = try log.open() }

    private static let query = SubscribedQuery(
        recordType: "Note",
        json: Array(#"{"recordType":"Note"}"#.utf8),
        zone: nil,
        firesOn: [.create, .update, .delete],
        firesOnce: true
    )
    private let watch = Subscription(id: "watch", kind: .query(query), notificationInfo: Array("{}".utf8))
    private let all = Subscription(id: "all", kind: .database)

    private func put(_ list: [Subscription], of user: UserID = .alice, in scope: DatabaseScope = .private) async throws
    {
        try await store.write(touching: user) { writer throws(RelayError) in try writer.put(list, of: user, in: scope) }
    }

    private func delete(_ ids: [String], of user: UserID = .alice, in scope: DatabaseScope = .private) async throws {
        try await store.write(touching: user) { writer throws(RelayError) in
            try writer.deleteSubscriptions(ids: ids, of: user, in: scope)
        }
    }

    private var version: UInt64 {
        get throws { try store.look { try $0.subscriptionsVersion } }
    }

    @Test("subscriptions are read per user and per database, by their IDs") func scopes() async throws {
        let zone = Subscription(id: "b", kind: .zone(ZoneID("one")), recordType: "Note")
        try await put([watch], in: .public)
        try await put([zone, all])
        try await put([all], in: .shared)
        try await put([zone], of: .bob)
        try store.look { reader throws in
            let together = try reader.subscriptions(of: .alice)
            #expect(together.map(\.scope) == [.public, .private, .private, .shared])
            #expect(together.map(\.subscription) == [watch, all, zone, all])
            for scope in DatabaseScope.allCases {
                let alone = try reader.subscriptions(of: .alice, in: scope)
                #expect(alone == together.filter { $0.scope == scope }.map(\.subscription))
            }
            #expect(try reader.subscriptions(of: UserID("_nobody")).isEmpty)
        }
    }

    @Test("a subscription of the same ID replaces the one before") func replacement() async throws {
        try await put([watch, all])
        let other = Subscription(id: "watch", kind: .zone(.notes))
        try await put([other])
        #expect(try store.look { try $0.subscriptions(of: .alice, in: .private) } == [all, other])
        #expect(try store.look { try $0.querySubscriptions() }.isEmpty)
    }

    @Test("deleted subscriptions are gone; those that never existed are ignored") func deletion() async throws {
        try await put([watch, all])
        try await put([watch], of: .bob)
        try await delete(["watch", "never"])
        #expect(try store.look { try $0.subscriptions(of: .alice, in: .private) } == [all])
        #expect(try store.look { try $0.subscriptions(of: .bob, in: .private) } == [watch])
    }

    @Test("query subscriptions of all users are listed, as commits report them") func queries() async throws {
        try await put([watch, all], in: .public)
        try await put([watch], of: .bob)
        let expected: Set<CommittedSubscription> = [
            .init(user: .alice, scope: .public, id: "watch", subscription: watch),
            .init(user: .bob, scope: .private, id: "watch", subscription: watch),
        ]
        #expect(try Set(store.look { try $0.querySubscriptions() }) == expected)
        let reported = log.all.flatMap(\.subscriptions)
        #expect(Set(reported.filter { $0.subscription == watch }) == expected)
    }

    @Test("the version grows with changes of subscriptions and with nothing else") func versions() async throws {
        var last = try version
        func expectGrowth(_ grows: Bool, _ what: String) throws {
            let now = try version
            #expect(grows ? now > last : now == last, "\(what)")
            if grows { #expect(log.all.last?.subscriptionsVersion == now, "\(what)") }
            last = now
        }
        try await put([all])
        try expectGrowth(true, "a new one")
        try await store.makeZone()
        try await store.save(["a"])
        try expectGrowth(false, "records")
        try await put([watch], of: .bob, in: .public)
        try expectGrowth(true, "another user's")
        try await delete(["watch"], of: .bob, in: .public)
        try expectGrowth(true, "a deletion")
    }

    @Test("a deleted subscription is reported without its content") func deletionReport() async throws {
        try await put([watch])
        try await delete(["watch"])
        let last = try #require(log.all.last?.subscriptions)
        #expect(last == [.init(user: .alice, scope: .private, id: "watch", subscription: nil)])
    }
}

/// What commits report of zones and records.
@Suite struct CommitTests {
    private let log = CommitLog()
    private let store: any Store

    init() async throws {
        store = try log.open()
        try await store.makeZone()
    }

    private func watch(_ events: RecordEvents = [.create, .update, .delete], by user: UserID = .alice) async throws {
        let query = SubscribedQuery(recordType: "Note", json: Array("{}".utf8), firesOn: events)
        try await store.write(touching: user) { writer throws(RelayError) in
            try writer.put([Subscription(id: "watch", kind: .query(query))], of: user, in: .private)
        }
    }

    @Test("a commit reports each changed zone with its new token and the device that changed it") func zones()
        async throws
    {
        let saved = try await store.put([Draft("a"), Draft("b")], by: "tablet")
        let zone = try #require(try store.zone())
        let change = try #require(log.all.last?.zones.first)
        #expect(change.zone == .notes && change.device == "tablet" && change.audience.isEmpty)
        #expect(change.author ?? .alice == .alice)
        let epoch = try store.epoch(of: .alice)
        #expect(change.token?.log == zone.identity && change.token?.epoch == epoch)
        #expect(change.token?.position == saved[1].change && log.all.last?.zones.count == 1)
    }

    @Test("changes of several devices or users in one commit are reported without a device") func devices()
        async throws
    {
        for (number, (author, device)) in [(UserID.alice, "tablet"), (.bob, "phone"), (.alice, "phone")].enumerated() {
            try await store.write(touching: .alice) { writer throws(RelayError) in
                for (name, author, device) in [("a", UserID.alice, "phone"), ("b", author, device)] {
                    guard let zone = try writer.zone(.notes) else { throw .zoneNotFound }
                    var draft = Draft("\(name)\(number)")
                    draft.author = author
                    try writer.put([draft.record(writer.takeChangeNumber())], replacing: [:], in: zone, by: device)
                }
            }
        }
        #expect(log.all.suffix(3).map { $0.zones.map(\.device) } == [[nil], [nil], ["phone"]])
    }

    @Test("a refused write and a write without changes are not reported") func nothing() async throws {
        let count = log.all.filter { !$0.isEmpty }.count
        _ = try? await store.save(["a"], in: ZoneID("None", owner: .alice))
        try await store.write(touching: .alice) { writer throws(RelayError) in _ = try writer.zoneCount(of: .alice) }
        #expect(log.all.filter { !$0.isEmpty }.count == count)
    }

    @Test("writes that share a commit are reported together, with the zone's last token") func shared() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<50 { group.addTask { try await store.save(["n\(writer)"]) } }
            try await group.waitForAll()
        }
        let zones = log.all.map(\.zones).filter { !$0.isEmpty }
        #expect(zones.allSatisfy { $0.count == 1 })
        #expect(try zones.last?.last?.token?.position == store.zone()?.lastChange)
        #expect(try store.feed().count == 50)
    }

    @Test("a deleted zone is reported without a token") func deletedZone() async throws {
        try await store.deleteZone(.notes)
        let change = try #require(log.all.last?.zones.first)
        #expect(change.zone == .notes && change.token == nil && change.device == "phone")
    }

    @Test("a zone that is deleted and created again in one commit is reported once") func recreatedZone() async throws {
        let old = try #require(try store.zone())
        let new = try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.deleteZone(old, by: "phone")
            return try writer.makeZone(old.id, by: "phone")
        }
        let changes = try #require(log.all.last?.zones)
        #expect(changes.map(\.zone) == [old.id])
        #expect(changes.first?.token?.log == new.identity && changes.first?.token?.position == new.lastChange)
        #expect(try store.zone() == new)
    }

    @Test("participants are told of changes that they see, with tokens of their own") func audience() async throws {
        try await store.share(with: [.joined(.bob)])
        let saved = try await store.save(["a"])[0]
        let view = try #require(try store.zone(seenBy: .bob))
        let told = try #require(log.all.last?.zones.first?.audience)
        #expect(told.map(\.user) == [.bob] && told.map(\.knowsZone) == [true])
        #expect(told.first?.token?.log == view.identity && told.first?.token?.position == saved.change)
        try await store.share(with: [])
        #expect(log.all.last?.zones.first?.audience == [.init(user: .bob, token: nil)])
    }

    @Test("who is invited is told without the zone's name") func invitations() async throws {
        var invited = Share.Participant.joined(.carol)
        invited.hasAccepted = false
        try await store.share(with: [invited])
        #expect(log.all.last?.zones.first?.audience == [.init(user: .carol, token: nil, knowsZone: false)])
    }

    @Test("a change of a hierarchy is told to its participants only") func hierarchies() async throws {
        try await store.put([Draft("root"), Draft("other")])
        try await store.share("root", with: [.joined(.bob)])
        try await store.save(["other"])
        #expect(log.all.last?.zones.first?.audience == [])
        try await store.put([Draft("leaf", parent: "root")])
        #expect(log.all.last?.zones.first?.audience.map(\.user) == [.bob])
    }

    @Test("records of watched types are reported as they were and as they are, and others are not") func records()
        async throws
    {
        try await store.put([Draft("a", title: "one")])
        #expect(log.all.allSatisfy { $0.records.isEmpty })
        try await watch()
        let changed = try await store.put([Draft("a", title: "two"), Draft("b")])
        let reports = try #require(log.all.last?.records)
        #expect(reports.map(\.after) == changed && reports.allSatisfy { $0.zone == .notes && $0.device == "phone" })
        #expect(reports[0].before?.name == "a" && reports[0].before?.fields != changed[0].fields)
        #expect(reports[1].before == nil || reports[1].before?.isDeleted == true)
        var other = Draft("c")
        other.type = "Other"
        let type = other
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Other": RecordType()])
        }
        try await store.put([type])
        #expect(log.all.last?.records == [])
        try await store.put([.deleted("a")])
        let deleted = try #require(log.all.last?.records.first)
        #expect(deleted.after.isDeleted && deleted.before?.fields == changed[0].fields)
    }

    @Test("a participant is a viewer of reported records, before and after a change") func viewers() async throws {
        try await store.put([Draft("root"), Draft("a")])
        try await store.share("root", with: [.joined(.bob)])
        try await watch(by: .bob)
        try await store.put([Draft("a", parent: "root")])
        var viewer = try #require(log.all.last?.records.first { $0.after.name == "a" }?.viewers.first)
        #expect(viewer.user == .bob && !viewer.couldSee && viewer.canSee)
        try await store.put([Draft("a")])
        viewer = try #require(log.all.last?.records.first { $0.after.name == "a" }?.viewers.first)
        #expect(viewer.user == .bob && viewer.couldSee && !viewer.canSee)
    }

    /// A commit must not keep gigabytes for its listeners.
    @Test("deleted records are reported with their former contents, up to 64 MB") func formerContents() async throws {
        let names = (0..<70).map { "n\($0)" }
        try await watch([.delete])
        try await store.put(names.map { Draft($0, title: String(repeating: "x", count: 1 << 20)) })
        try await store.put(names.map { .deleted($0) })
        let told = try #require(log.all.last?.records)
        #expect(told.map(\.after.name) == names)
        #expect(told.allSatisfy { $0.before?.isDeleted == false })
        let bytes = told.map { $0.before?.fields.count ?? 0 }
        #expect(bytes.prefix(60).allSatisfy { $0 > 1 << 20 })
        #expect(bytes.reduce(0, +) <= 65 << 20)
    }

    @Test("a commit carries the schema after it") func schema() async throws {
        try await store.write(touching: .alice) { writer throws(RelayError) in
            try writer.define(["Task": RecordType()])
            _ = try writer.makeZone(ZoneID("Tasks", owner: .alice), by: "phone")
        }
        #expect(log.all.last?.schema.types["Task"] != nil && log.all.last?.schema == store.currentSchema)
    }
}
