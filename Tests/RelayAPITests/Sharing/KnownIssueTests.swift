import Foundation
import HTTPTypes
import Records
import RelayAPI
import Testing
import Wire

/// Seven known issues of CloudKit's mirrors, as far as a relay can avoid them.
///
/// See SharingRules.md, "Known issues of CloudKit mirrors".
///
/// Each test has two devices of the owner and two participants, once with all of them online and once with each offline
/// at the critical step. A device consists of what it has fetched by tokens.
@Suite struct KnownIssueTests {
    typealias World = ShareWorld

    /// The device that is offline; `nil` if all are online.
    static let away: [String?] = [nil, "phone", "laptop", "bob", "carol"]

    /// The records on one device.
    private final class Device {
        let user: String
        let database: String
        private(set) var records: [String: String] = [:]
        private var databaseToken: String?
        private var zoneTokens: [String: String] = [:]

        init(_ user: String, _ database: String) {
            self.user = user
            self.database = database
        }

        /// Fetches changes as a client does.
        func sync(_ world: World) async throws {
            let body = databaseToken.map { #"{"syncToken":"\#($0)"}"# } ?? "{}"
            let answer = try await world.world.ask("\(database)/changes/database", as: user, body)
            for zone in try answer.items("zones") {
                let id = try zone.required("zoneID")
                let name = id.text("zoneName") ?? "?"
                if zone.flag("deleted") == true { forget(name) } else { try await fetch(id, name, world) }
            }
            databaseToken = answer.json.text("syncToken")
        }

        private func forget(_ zone: String) {
            records = records.filter { !$0.key.hasPrefix(zone + "/") }
            zoneTokens[zone] = nil
        }

        private func fetch(_ id: JSONValue, _ name: String, _ world: World) async throws {
            let since = zoneTokens[name].map { #","syncToken":"\#($0)""# } ?? ""
            let answer = try await world.world.ask(
                "\(database)/changes/zone",
                as: user,
                #"{"zones":[{"zoneID":\#(id.source)\#(since)}]}"#
            )
            let page = try #require(try answer.items("zones").first)
            if page.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" {
                forget(name)
                return try await fetch(id, name, world)
            }
            #expect(page.text("serverErrorCode") == nil)
            for record in try page.required("records").elements() {
                let key = "\(name)/\(record.text("recordName") ?? "?")"
                records[key] = record.flag("deleted") == true ? nil : try record.field("title")?.string() ?? "share"
            }
            zoneTokens[name] = page.text("syncToken")
        }

        var names: [String] { records.keys.sorted() }
    }

    /// The devices of an owner and of participants of one zone.
    private struct Group {
        let world: World
        let devices = [
            "phone": Device("alice", "private"), "laptop": Device("alice", "private"),
            "bob": Device(World.bob, "shared"), "carol": Device(World.carol, "shared"),
        ]

        init() async throws {
            world = try World()
            try await world.makeZone(notes: ["a", "b"])
            try await world.one(HierarchyShareTests.child("kid", of: "a"))
            try await sync()
        }

        func sync(without away: String? = nil) async throws {
            for (name, device) in devices where name != away { try await device.sync(world) }
        }

        /// Syncs all devices but the offline one, then all.
        func syncAll(_ away: String?) async throws {
            try await sync(without: away)
            try await sync()
        }

        func names(_ device: String) -> [String] { devices[device]?.names ?? [] }
    }

    private let all = ["Notes/a", "Notes/b", "Notes/cloudkit.zoneshare", "Notes/kid"]

    /// Issue 1: with "anyone can join", related objects appear only after the next edit.
    @Test(arguments: away) func acceptingFetchesAllRecordsWithoutAnEdit(_ away: String?) async throws {
        for permission in ["READ_ONLY", "READ_WRITE", nil] as [String?] {
            let group = try await Group()
            let people = [World.participant(World.bob), World.participant(World.carol)]
            let share = try await group.world.one(
                World.share(publicly: permission, with: permission == nil ? people : nil)
            )
            for user in [World.bob, World.carol] { try await group.world.accept(share, as: user) }
            try await group.syncAll(away)
            for name in ["phone", "laptop", "bob", "carol"] { #expect(group.names(name) == all, "\(name)") }
        }
    }

    /// Issue 2: a public link sent directly to an account shows the share as cancelled.
    @Test(arguments: away) func aLinkWorksInEveryForm(_ away: String?) async throws {
        let group = try await Group()
        let share = try await group.world.one(World.share(publicly: "READ_ONLY"))
        let url = try #require(share.text("url"))
        let guid = try #require(share.text("shortGUID"))
        // The link is copied, or mailed with the title appended, and opened by people that the relay does not know yet.
        for (index, link) in [guid, url, url + "#My%20notes"].enumerated() {
            for user in [World.bob, World.carol, "newcomer\(index)"] {
                let result = try await group.world.open(link, as: user, by: "accept")
                #expect(result.text("participantStatus") == "ACCEPTED", "\(link) for \(user)")
            }
        }
        try await group.syncAll(away)
        for name in ["phone", "laptop", "bob", "carol"] { #expect(group.names(name) == all, "\(name)") }
    }

    /// Issue 3: a link opened in a browser cannot be accepted.
    @Test(arguments: away, [nil, "READ_WRITE"])
    func aLinkCanBeAcceptedInABrowser(_ away: String?, _ permission: String?) async throws {
        let group = try await Group()
        let people = [World.participant(World.bob), World.participant(World.carol)]
        let share = try await group.world.one(
            World.share(publicly: permission, with: permission == nil ? people : nil, title: "Notes")
        )
        let url = try #require(share.text("url"))
        let path = try #require(URLComponents(string: url)).path
        for user in [World.bob, World.carol] {
            let browser = Browser(group.world.world.relay)
            try await browser.open(path)
            #expect(await browser.submit(path, ["name": user]).status == .ok)
            #expect(browser.page.contains("id=\"joined\""))
        }
        try await group.syncAll(away)
        for name in ["phone", "laptop", "bob", "carol"] { #expect(group.names(name) == all, "\(name)") }
    }

    /// Issue 4: after removing a participant, the owner's share object is stale, and managing it fails.
    @Test(arguments: away) func afterRemovingAParticipantTheNextChangeSucceeds(_ away: String?) async throws {
        let group = try await Group()
        let share = try await group.world.shareZone(with: [World.bob: "READ_ONLY", World.carol: "READ_ONLY"])
        try await group.sync()
        let kept = try group.world.participants(of: share).filter { !$0.source.contains(World.bob) }.map(\.source)
        let tag = share.text("recordChangeTag")
        let first = try await group.world.one(World.share("update", tag: tag, with: kept))
        let again = try group.world.participants(of: first).map(\.source) + [World.participant("dave@example.org")]
        let second = try await group.world.one(
            World.share("update", tag: first.text("recordChangeTag"), with: again)
        )
        #expect(try group.world.participants(of: second).count == 3)
        try await group.syncAll(away)
        #expect(group.names("bob") == [] && group.names("carol") == all)
    }

    /// Issue 5: after the owner stops sharing, the cached share and the records of the share's zone remain.
    @Test(arguments: away) func afterStoppingNoRecordsRemainAndTheZoneCanBeSharedAgain(_ away: String?) async throws {
        let group = try await Group()
        try await group.world.shareZone(with: [World.bob: "READ_ONLY", World.carol: "READ_WRITE"])
        try await group.sync()
        try await group.world.one(World.delete(Share.zoneWideName))
        try await group.syncAll(away)
        let own = ["Notes/a", "Notes/b", "Notes/kid"]
        #expect(group.names("phone") == own && group.names("laptop") == own)
        #expect(group.names("bob") == [] && group.names("carol") == [])
        try await group.world.shareZone(with: [World.bob: "READ_ONLY"])
        try await group.syncAll(away)
        #expect(group.names("bob") == all && group.names("laptop") == all && group.names("carol") == [])
    }

    /// Issues 6 and 7: a removed participant, or one who left, still sees data.
    @Test(arguments: away, ["remove", "leave"])
    func aFormerParticipantHasNoRecords(_ away: String?, _ way: String) async throws {
        let group = try await Group()
        let share = try await group.world.shareZone(with: [World.bob: "READ_WRITE", World.carol: "READ_WRITE"])
        try await group.sync()
        if way == "leave" {
            try await group.world.one(World.delete(Share.zoneWideName), in: "shared", as: World.bob)
        } else {
            let kept = try group.world.participants(of: share).filter { !$0.source.contains(World.bob) }.map(\.source)
            try await group.world.one(World.share("forceUpdate", with: kept))
        }
        // Applies even before the device learns of it.
        let refused = try await group.world.refusal(World.save("a"), in: "shared", as: World.bob)
        #expect(refused == "ZONE_NOT_FOUND")
        try await group.syncAll(away)
        #expect(group.names("bob") == [])
        for name in ["phone", "laptop", "carol"] { #expect(group.names(name) == all, "\(name)") }
        let current = try await group.world.record(Share.zoneWideName)
        #expect(try group.world.participants(of: current).count == 2)
    }
}
