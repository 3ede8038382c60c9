import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Testing
import Wire

/// Tokens, links, asset addresses and sockets that were issued under a right are worthless after the right ends.
@Suite(.timeLimit(.minutes(15))) struct RevokedAccessTests {
    typealias World = ShareWorld

    /// Creates a zone with a picture, shared with bob and carol.
    private func pictures() async throws -> (world: World, share: JSONValue) {
        let world = try World()
        try await world.makeZone()
        let upload = try await world.world.ask(
            "private/assets/upload",
            #"{"zoneID":{"zoneName":"Notes"},"tokens":[{"recordName":"p","recordType":"Photo","fieldName":"file"}]}"#
        )
        let address = try #require(try upload.items("tokens").first?.text("url"))
        let stored = await get(world, address, method: .post, body: Array("a picture".utf8))
        let file = try JSONDocument(parsing: stored.body).root.required("singleFile").source
        try await world.one(
            #"{"operationType":"create","record":{"recordName":"p","recordType":"Photo","fields":{"file":{"value":\#(file)}}}}"#
        )
        return (world, try await world.shareZone(with: [World.bob: "READ_WRITE", World.carol: "READ_WRITE"]))
    }

    private func get(
        _ world: World,
        _ address: String,
        method: HTTPRequest.Method = .get,
        body: [UInt8] = []
    ) async -> APIResponse {
        let parts = URLComponents(string: address)
        return await world.world.relay.respond(
            to: APIRequest(method: method, path: parts?.path ?? "", query: parts?.percentEncodedQuery, body: body)
        )
    }

    private func picture(_ world: World, as user: String) async throws -> String {
        let record = try await world.record("p", in: "shared", as: user)
        return try #require(try record.required("fields").required("file").required("value").text("downloadURL"))
    }

    /// Removes bob's access in the given way.
    private func end(_ way: String, _ world: World, _ share: JSONValue) async throws {
        switch way {
        case "removed":
            let kept = try world.participants(of: share).filter { !$0.source.contains(World.bob) }.map(\.source)
            try await world.one(World.share("forceUpdate", with: kept))
        case "left": try await world.one(World.delete(Share.zoneWideName), in: "shared", as: World.bob)
        default: try await world.one(World.delete(Share.zoneWideName))
        }
    }

    @Test(arguments: ["removed", "left", "stopped"]) func assetAddressesEndWithTheRight(_ way: String) async throws {
        let (world, share) = try await pictures()
        let (bobs, carols) = (try await picture(world, as: World.bob), try await picture(world, as: World.carol))
        #expect(await get(world, bobs).status == .ok)
        let upload = try await world.world.ask(
            "shared/assets/upload",
            as: World.bob,
            #"""
            {"zoneID":\#(try await world.zoneID()),
            "tokens":[{"recordName":"q","recordType":"Photo","fieldName":"file"}]}
            """#
        )
        let place = try #require(try upload.items("tokens").first?.text("url"))
        let receipt = try JSONDocument(
            parsing: await get(world, place, method: .post, body: Array("another".utf8)).body
        ).root.required("singleFile").source
        try await end(way, world, share)
        #expect(await get(world, bobs).status == .notFound)
        #expect(await get(world, carols).status == (way == "stopped" ? .notFound : .ok))
        // Earlier uploads can no longer be saved there.
        let save =
            #"{"operationType":"create","record":{"recordName":"q","recordType":"Photo","fields":{"file":{"value":\#(receipt)}}}}"#
        #expect(try await world.refusal(save, in: "shared", as: World.bob) == "ZONE_NOT_FOUND")
        #expect(try await world.record("q").text("serverErrorCode") == "NOT_FOUND")
    }

    /// The right ends during the upload; the received bytes do not count against the owner's quota.
    @Test(arguments: ["removed", "left", "stopped", "read only"]) func anUploadEndsWithTheRight(_ way: String)
        async throws
    {
        let (world, share) = try await pictures()
        let upload = try await world.world.ask(
            "shared/assets/upload",
            as: World.bob,
            #"{"zoneID":\#(try await world.zoneID()),"tokens":[{"recordType":"Photo","fieldName":"file"}]}"#
        )
        let address = try #require(try upload.items("tokens").first?.text("url"))
        let place = try #require(URLComponents(string: address))
        let request = APIRequest(method: .post, path: place.path, body: Array("late".utf8))
        let intake = try #require(world.world.relay.intake(for: request))
        _ = intake.take(Array("la".utf8)) {}
        if way == "read only" {
            let people = [World.participant(World.bob), World.participant(World.carol, "READ_WRITE")]
            try await world.one(World.share("forceUpdate", with: people))
        } else {
            try await end(way, world, share)
        }
        _ = intake.take(Array("te".utf8)) {}
        var whole = request
        whole.intake = intake
        #expect(await world.world.relay.respond(to: whole).status == .notFound)
        // No other upload can start at that address.
        #expect(await get(world, place.path, method: .post, body: Array("later".utf8)).status == .notFound)
    }

    @Test func aReadOnlyParticipantCannotUploadAssets() async throws {
        let world = try World()
        try await world.makeZone()
        try await world.shareZone(with: [World.bob: "READ_WRITE", World.carol: "READ_ONLY"])
        let body = #"""
            {"zoneID":\#(try await world.zoneID()),
            "tokens":[{"recordName":"a","recordType":"Note","fieldName":"file"}]}
            """#
        #expect(try await world.world.ask("shared/assets/upload", as: World.bob, body).status == 200)
        let refused = try await world.world.ask("shared/assets/upload", as: World.carol, body)
        #expect(refused.status == 403 && refused.code == "ACCESS_DENIED")
    }

    @Test(arguments: ["removed", "left", "stopped"]) func tokensAndLinksEndWithTheRight(_ way: String) async throws {
        let (world, share) = try await pictures()
        let page = try await world.changes(limit: 1)
        #expect(page.flag("moreComing") == true)
        let query = #"{"zoneID":\#(try await world.zoneID()),"resultsLimit":1,"query":{"recordType":"Note"}}"#
        let found = try await world.world.ask("shared/records/query", as: World.bob, query)
        let marker = try #require(found.json.text("continuationMarker"))
        let link = try #require(share.text("shortGUID"))
        try await end(way, world, share)
        #expect(try await world.changes(since: page.text("syncToken")).text("serverErrorCode") == "ZONE_NOT_FOUND")
        let next = query.dropLast() + #","continuationMarker":"\#(marker)"}"#
        #expect(try await world.world.ask("shared/records/query", as: World.bob, String(next)).code == "ZONE_NOT_FOUND")
        for operation in ["resolve", "accept"] {
            let opened = try await world.open(link, as: World.bob, by: operation)
            #expect(opened.text("serverErrorCode") == (way == "stopped" ? "NOT_FOUND" : "ACCESS_DENIED"))
            #expect(opened["share"] == nil && opened["rootRecord"] == nil)
        }
        // After a new invitation, earlier tokens are not continued.
        guard way == "removed" else { return }
        try await world.one(World.share("forceUpdate", with: [World.participant(World.bob)]))
        try await world.accept(share, as: World.bob)
        #expect(try await world.changes(since: page.text("syncToken")).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
    }

    /// The hub checks rights when it sends.
    ///
    /// An open socket gets a notice of the end of access and none after it. Five seconds are allowed for that; without
    /// a clock, this hub sends at once.
    @Test(arguments: ["removed", "left", "stopped"])
    func anOpenSocketIsNotifiedOfTheEndAndNothingAfterIt(_ way: String) async throws {
        let (world, share) = try await pictures()
        _ = try await world.world.ask(
            "shared/subscriptions/modify",
            as: World.bob,
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"all","subscriptionType":"database"}}]}"#
        )
        let tablet = await world.world.device("tablet", of: World.bob, since: [.shared: "x"])
        await world.world.settle()
        tablet.forget()
        try await world.one(World.save("a"))
        await world.world.settle()
        #expect(tablet.zones == ["Notes"])
        tablet.forget()
        try await end(way, world, share)
        await world.world.settle()
        #expect(tablet.zones == ["Notes"] && tablet.notices.first?.syncToken == nil)
        tablet.forget()
        try await world.one(World.save("a"))
        await world.world.settle()
        #expect(tablet.zones == [])
    }
}

/// Records that were deleted before a user got access stay unknown to the user: neither a forged token nor catching up
/// reveals their names.
@Suite(.timeLimit(.minutes(15))) struct EarlierDeletionTests {
    typealias World = ShareWorld

    /// Returns tokens that claim to have seen nearly all of the log, forged from a valid one.
    private func forged(of page: JSONValue) throws -> [String] {
        let own = try #require(page.text("syncToken").flatMap { ChangeToken(encoded: $0) })
        var (early, backwards) = (own, own)
        (early.position, early.floor) = (1, 0)
        backwards.kind = .reverse
        (backwards.position, backwards.floor, backwards.top) = (own.position, 1, own.position)
        var inside = own
        (inside.position, inside.floor) = (1, 2)
        return [early, backwards, inside].map(\.encoded)
    }

    @Test func aForgedZoneTokenRevealsNoEarlierDeletions() async throws {
        let world = try World()
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.one(World.delete("b"))
        try await world.shareZone()
        let page = try await world.changes()
        #expect(try World.names(page).sorted() == ["a", "c", Share.zoneWideName])
        for token in try forged(of: page) {
            #expect(try World.names(try await world.changes(since: token)).contains("-b") == false)
        }
        // Later deletions are reported, with any token.
        try await world.one(World.delete("c"))
        #expect(try World.names(try await world.changes(since: page.text("syncToken"))) == ["-c"])
        #expect(try World.names(try await world.changes(since: try forged(of: page)[0])).contains("-c"))
    }

    @Test func aForgedHierarchyTokenRevealsNoEarlierDeletions() async throws {
        let world = try World()
        try await world.makeZone(notes: [])
        try await world.modify([
            World.save("list"), HierarchyShareTests.child("gone", of: "list"),
            HierarchyShareTests.child("moved", of: "list"), HierarchyShareTests.child("item", of: "list"),
        ]).checked()
        let people = [World.participant(World.bob), World.participant(World.carol)]
        let share = try await world.one(World.share(name: "share", root: "list", with: people))
        try await world.accept(share, as: World.carol)
        try await world.one(World.delete("gone"))
        try await world.one(HierarchyShareTests.child("moved", of: nil))
        try await world.accept(share, as: World.bob)
        let page = try await world.changes()
        #expect(try World.names(page).sorted() == ["item", "list", "share"])
        for token in try forged(of: page) {
            let names = try World.names(try await world.changes(since: token))
            #expect(!names.contains("-gone") && !names.contains("-moved"))
        }
    }

    /// A returning client with an older token is told of the zone, but not of the records that were deleted before.
    @Test func catchingUpRevealsNoEarlierDeletions() async throws {
        let world = try World()
        _ = try await world.name(of: World.bob)
        let token = try await world.zones().token
        try await world.makeZone(notes: ["a", "b", "c"])
        try await world.world.subscribe("all", in: "shared", as: World.bob)
        try await world.one(World.delete("b"))
        try await world.shareZone()
        try await world.one(World.delete("c"))
        await world.world.settle()
        let bob = await world.world.device(of: World.bob, since: [.shared: token])
        await world.world.settle()
        let names = bob.notices.compactMap(\.query?.recordName)
        #expect(!names.contains("b"))
        #expect(names.contains("a") && names.contains("c"))
    }
}
