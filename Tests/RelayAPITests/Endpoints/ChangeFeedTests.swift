import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import Testing
import Wire

@Suite struct ChangeFeedTests {
    typealias Operation = RelayWorld.Operation

    /// For any history and any page size, the state at a token plus the feed since that token equals a full fetch.
    @Test(arguments: [UInt64](1...12)) func everyTokenLeadsToTheFullState(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        try await world.makeZone("Other")
        var model: [String: String] = [:]
        var kept: [(token: String, state: [String: String])] = []
        for step in 0..<60 {
            let name = "n\(random.next() % 12)"
            if random.next() % 4 == 0 {
                _ = try await world.modify([Operation(kind: "forceDelete", name: name)])
                model[name] = nil
            } else {
                _ = try await world.modify([
                    Operation(kind: "forceUpdate", name: name, fields: #"{"title":{"value":"s\#(step)"}}"#)
                ])
                model[name] = "s\(step)"
            }
            // Changes of another zone lie between them in the same log.
            if random.next() % 3 == 0 { _ = try await world.modify(zone: "Other", [.create(nil)]) }
            if random.next() % 6 == 0 {
                kept.append((try #require(try await world.changes().text("syncToken")), model))
            }
        }
        for (token, state) in kept + [("", [:])] {
            for limit in [1, 3, 200] {
                var state = state
                try await follow(world, from: token.isEmpty ? nil : token, limit: limit, &state)
                #expect(state == model, "seed \(seed), page size \(limit)")
            }
        }
    }

    private func large(_ count: Int, zone: String = "Notes", in world: RelayWorld) async throws -> Set<String> {
        let names = (0..<count).map { "\(zone)-\($0)" }
        let title = String(repeating: "x", count: 1_000)
        let fields = #"{"title":{"value":"\#(title)"}}"#
        let made = names.map { Operation(kind: "create", name: $0, fields: fields) }
        #expect(try await world.modify(zone: zone, made).status == 200)
        return Set(names)
    }

    /// A page is limited by its bytes as well as by its number of records.
    ///
    /// See Reliability.md, "Limits".
    @Test func aPageOfLargeRecordsEndsEarlier() async throws {
        var limits = Limits()
        limits.answerBytes = 8_000
        let world = try RelayWorld(limits: limits)
        try await world.makeZone("Notes")
        let names = try await large(30, in: world)
        for extra in ["", #","reverse":true"#] {
            var (found, token, pages): ([String], String?, Int) = ([], nil, 0)
            while true {
                let page = try await world.changes(since: token, extra: extra)
                let records = try page.required("records").elements()
                #expect(records.count < 10)
                found += records.compactMap { $0.text("recordName") }
                token = page.text("syncToken")
                pages += 1
                guard page.flag("moreComing") == true, pages < 50 else { break }
            }
            #expect(Set(found) == names && found.count == names.count)
        }
    }

    /// The first zone's records fill the response.
    ///
    /// The client requests the other zones again and misses nothing.
    @Test func zonesThatDoNotFitInTheResponseAreFetchedLater() async throws {
        var limits = Limits()
        limits.answerBytes = 8_000
        let world = try RelayWorld(limits: limits)
        var missing: Set<String> = []
        for zone in ["A", "B", "C"] {
            try await world.makeZone(zone)
            missing.formUnion(try await large(10, zone: zone, in: world))
        }
        var tokens: [String: String?] = ["A": nil, "B": nil, "C": nil]
        var rounds = 0
        while !tokens.isEmpty, rounds < 20 {
            let zones = tokens.sorted { $0.key < $1.key }.map { zone, token in
                #"{"zoneID":{"zoneName":"\#(zone)"}\#(token.map { #","syncToken":"\#($0)""# } ?? "")}"#
            }
            let answer = try await world.ask("private/changes/zone", #"{"zones":[\#(zones.joined(separator: ","))]}"#)
            for page in try answer.items("zones") {
                let zone = try page.required("zoneID").required("zoneName").string()
                for record in try page.required("records").elements() {
                    #expect(missing.remove(record.text("recordName") ?? "") != nil)
                }
                if page.flag("moreComing") == true {
                    tokens[zone] = .some(page.text("syncToken"))
                } else {
                    tokens[zone] = nil
                }
            }
            rounds += 1
        }
        #expect(missing.isEmpty && rounds < 10)
    }

    /// A request that finds no records must not keep the relay reading without bound.
    @Test func scannedRecordsThatDoNotMatchAreBoundedToo() async throws {
        var limits = Limits()
        limits.scannedBytes = 8_000
        let world = try RelayWorld(limits: limits)
        try await world.makeZone("Notes")
        let names = try await large(30, in: world)
        let entry = #"{"zoneID":{"zoneName":"Notes"},"desiredRecordTypes":["Other"]}"#
        let both = try await world.ask("private/changes/zone", #"{"zones":[\#(entry),\#(entry)]}"#).items("zones")
        #expect(both.count == 2 && both.allSatisfy { $0.flag("moreComing") == true })
        #expect(both[0].text("syncToken") != both[1].text("syncToken"), "the second entry had no room")

        for (extra, expected) in [(#","desiredRecordTypes":["Other"]"#, []), (#","desiredKeys":[]"#, names)] {
            var (found, token, pages): (Set<String>, String?, Int) = ([], nil, 0)
            while true {
                let page = try await world.changes(since: token, extra: extra)
                found.formUnion(try page.required("records").elements().compactMap { $0.text("recordName") })
                token = page.text("syncToken")
                pages += 1
                guard page.flag("moreComing") == true, pages < 50 else { break }
            }
            #expect(found == expected && pages > 3 && pages < 10)
        }
    }

    @Test func aLookupThatExceedsTheResponseLimitIsRefused() async throws {
        var limits = Limits()
        limits.answerBytes = 8_000
        let world = try RelayWorld(limits: limits)
        try await world.makeZone("Notes")
        let names = try await large(20, in: world).map { #"{"recordName":"\#($0)"}"# }
        func look(_ names: some Sequence<String>) async throws -> Answer {
            let list = names.joined(separator: ",")
            return try await world.ask(
                "private/records/lookup",
                #"{"zoneID":{"zoneName":"Notes"},"records":[\#(list)]}"#
            )
        }
        let all = try await look(names)
        #expect(all.code == "BAD_REQUEST" && all.json.text("ckErrorCode") == "LIMIT_EXCEEDED")
        #expect(try await look(names.prefix(5)).items("records").count == 5)
    }

    /// The token may stand beside the zones, as every other key may.
    @Test func aTokenBesideTheZonesAppliesToEachZone() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify([.create(nil)])
        let token = try #require(try await world.changes().text("syncToken"))
        let body = #"{"zones":[{"zoneID":{"zoneName":"Notes"}}],"syncToken":"\#(token)"}"#
        let page = try #require(try await world.ask("private/changes/zone", body).items("zones").first)
        #expect(try page.required("records").elements().isEmpty)
    }

    private func follow(
        _ world: RelayWorld,
        from start: String?,
        limit: Int,
        _ state: inout [String: String]
    ) async throws {
        var token = start
        for _ in 0..<200 {
            let page = try await world.changes(since: token, limit: limit)
            let records = try page.required("records").elements()
            #expect(records.count <= limit)
            #expect(Set(records.compactMap { $0.text("recordName") }).count == records.count)
            for record in records {
                let name = try record.required("recordName").string()
                state[name] = record.flag("deleted") == true ? nil : try record.field("title")?.string()
            }
            token = page.text("syncToken")
            if page.flag("moreComing") == false { return }
        }
        Issue.record("the feed has no end")
    }

    @Test func aFirstFetchHasLiveRecordsOnlyAndALaterOneHasTombstones() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify([.create("a"), .create("b")])
        let token = try await world.changes().text("syncToken")
        _ = try await world.modify([Operation(kind: "forceDelete", name: "a")])
        let fresh = try await world.changes().required("records").elements()
        #expect(fresh.map { $0.text("recordName") } == ["b"])
        let later = try await world.changes(since: token).required("records").elements()
        #expect(later.map { $0.text("recordName") } == ["a"])
        #expect(later[0].flag("deleted") == true)
    }

    /// Whole records are encoded independently of each other; rows reuse parts of the previous row.
    @Test func aRowIsEncodedLikeTheWholeRecord() async throws {
        let now = Mutex(Timestamp(milliseconds: 1_700_000_000_000))
        let time = TimeSource(now: { now.withLock { $0 } }, uptime: { .seconds(1) })
        let world = try RelayWorld(time: time)
        try await world.makeZone("Notes")
        let device = try #require(HTTPField.Name("X-Zonecast-Device-ID"))
        var random = SplitMix(state: 3)
        // Types, timestamps, devices and parents change now and then, independently of each other.
        for step in 0..<150 {
            if random.next() % 3 == 0 { now.withLock { $0.milliseconds += 7 } }
            let number = random.next() % 60
            let type = number.isMultiple(of: 4) ? "Card" : "Note"
            let parent = step > 0 && number > 40 ? #","parent":{"recordName":"n0"}"# : ""
            let record =
                #"{"recordName":"n\#(step == 0 ? 0 : number)","recordType":"\#(step == 0 ? "Card" : type)","fields":{"t":{"value":"\#(step)"}}\#(parent)}"#
            let answer = await world.relay.respond(
                to: APIRequest(
                    method: .post,
                    path: "/database/1/\(world.container)/development/private/records/modify",
                    query: "ckAPIToken=x&ckWebAuthToken=dev-alice",
                    headers: [device: "phone \(random.next() % 3)"],
                    body: Array(
                        #"{"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"forceReplace","record":\#(record)}]}"#
                            .utf8
                    )
                )
            )
            #expect(answer.status == .ok)
        }
        for part in ["", #","desiredRecordTypes":["Note"]"#] {
            let page = #"{"zones":[{"zoneID":{"zoneName":"Notes"}\#(part)"#
            let rows = try await world.ask("private/changes/zone", page + "}]}")
            let whole = try await world.ask("private/changes/zone", page + #","desiredKeys":["t"]}]}"#)
            #expect(try rows.items("zones")[0].required("records").elements().count > 30)
            #expect(rows.response.body == whole.response.body, "\(String(decoding: rows.response.body, as: UTF8.self))")
        }
    }

    @Test func aReversedFeedReturnsTheSameRecordsNewestFirst() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify((0..<5).map { .create("n\($0)") })
        var names: [String?] = []
        var token: String?
        var moreComing = true
        while moreComing {
            let page = try await world.changes(since: token, limit: 2, extra: #","reverse":true"#)
            names += try page.required("records").elements().map { $0.text("recordName") }
            token = page.text("syncToken")
            moreComing = page.flag("moreComing") == true
        }
        #expect(names == ["n4", "n3", "n2", "n1", "n0"])
        #expect(try await world.changes(since: token).required("records").elements().isEmpty)
    }

    @Test func changesMadeDuringAReversedFetchFollowIt() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify((0..<6).map { .create("n\($0)") })
        let first = try await world.changes(limit: 3, extra: #","reverse":true"#)
        #expect(first.flag("moreComing") == true)
        let forced = ["forceDelete", "forceUpdate"]
        _ = try await world.modify(zip(forced, ["n5", "n1"]).map { .init(kind: $0, name: $1) } + [.create("new")])
        var token = first.text("syncToken")
        var names: [String?] = []
        var moreComing = true
        while moreComing {
            let page = try await world.changes(since: token, limit: 3, extra: #","reverse":true"#)
            names += try page.required("records").elements().map { $0.text("recordName") }
            token = page.text("syncToken")
            moreComing = page.flag("moreComing") == true
        }
        #expect(names == ["n2", "n0"])
        let rest = try await world.changes(since: token).required("records").elements()
        #expect(rest.map { $0.text("recordName") } == ["n5", "n1", "new"])
        #expect(rest.first?.flag("deleted") == true)
    }

    @Test func tokensOfOtherZonesAreExpired() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        try await world.makeZone("Other")
        let foreign = try await world.changes(zone: "Other").text("syncToken")
        for token in [foreign, "AAAA", "nonsense"] {
            let answer = try await world.changes(since: token)
            #expect(answer.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
            #expect(answer.text("serverErrorCode") == "BAD_REQUEST")
            #expect(answer.text("reason") == "client knowledge differs from server knowledge")
        }
    }

    @Test func aRecreatedZoneRefusesTokensOfItsPredecessor() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify([.create("a")])
        let token = try await world.changes().text("syncToken")
        let database = try await world.ask("private/changes/database").json.text("syncToken")
        let gone = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        )
        #expect(try gone.items("zones").first?.flag("deleted") == true)
        #expect(try await world.changes(since: token).text("serverErrorCode") == "ZONE_NOT_FOUND")
        let changed = try await world.ask("private/changes/database", #"{"syncToken":"\#(database ?? "")"}"#)
        #expect(try changed.items("zones").map { $0.flag("deleted") } == [true])
        try await world.makeZone("Notes")
        #expect(try await world.changes(since: token).text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        #expect(try await world.changes().required("records").elements().isEmpty)
    }

    @Test func aZoneThatWasDeletedTwiceIsListedOnce() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        let token = try await world.ask("private/changes/database").json.text("syncToken") ?? ""
        for isLast in [false, true] {
            _ = try await world.ask(
                "private/zones/modify",
                #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
            )
            if !isLast { try await world.makeZone("Notes") }
        }
        let changed = try await world.ask("private/changes/database", #"{"syncToken":"\#(token)"}"#)
        #expect(try changed.items("zones").map { $0.flag("deleted") } == [true])
    }

    @Test func theDatabaseFeedNamesChangedZonesOnly() async throws {
        let world = try RelayWorld()
        for name in ["A", "B", "C"] { try await world.makeZone(name) }
        let all = try await world.ask("private/changes/database", #"{"resultsLimit":2}"#)
        #expect(try all.items("zones").count == 2)
        #expect(all.json.flag("moreComing") == true)
        let rest = try await world.ask(
            "private/changes/database",
            #"{"syncToken":"\#(all.json.text("syncToken") ?? "")"}"#
        )
        #expect(try rest.items("zones").count == 1)
        #expect(rest.json.flag("moreComing") == false)
        _ = try await world.modify(zone: "B", [.create("x")])
        let later = try await world.ask(
            "private/zones/changes",
            #"{"metaSyncToken":"\#(rest.json.text("syncToken") ?? "")"}"#
        )
        #expect(try later.items("zones").map { try $0.required("zoneID").text("zoneName") } == ["B"])
        #expect(later.json.text("metaSyncToken") != nil)
        #expect(later.json["syncToken"] == nil)
    }

    /// If the zone and its deletion were in one page, the client could not tell which came first.
    @Test func aRecreatedZoneIsNotReportedAsDeleted() async throws {
        let world = try RelayWorld()
        for name in ["A", "B"] { try await world.makeZone(name) }
        let before = try await world.ask("private/changes/database")
        for name in ["A", "B"] {
            _ = try await world.ask(
                "private/zones/modify",
                #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"\#(name)"}}}]}"#
            )
        }
        try await world.makeZone("A")
        let later = try await world.ask(
            "private/changes/database",
            #"{"syncToken":"\#(before.json.text("syncToken") ?? "")"}"#
        )
        let zones = try later.items("zones")
        #expect(zones.map { $0["zoneID"]?.text("zoneName") } == ["B", "A"])
        #expect(zones.map { $0.flag("deleted") ?? false } == [true, false])
    }

    /// The client's records do not exist in the new zone, so the relay says how the former zone ended.
    @Test(arguments: [nil, "purged", "encryptedDataReset"])
    func aTokenOfAFormerZoneIsRefusedWithTheReasonOfItsDeletion(_ word: String?) async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify([.create("a")])
        let token = try #require(try await world.changes().text("syncToken"))
        let why = word.map { #","reason":"\#($0)""# } ?? ""
        _ = try await world.ask(
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Notes"}}\#(why)}]}"#
        )
        #expect(try await world.changes(since: token).text("serverErrorCode") == "ZONE_NOT_FOUND")
        for name in ["Notes", "Other"] { try await world.makeZone(name) }
        let entry = try await world.changes(since: token)
        #expect(entry.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED")
        #expect(entry["formerZone"]?.flag("deleted") == true)
        #expect(entry["formerZone"]?.text("reason") == word)
        // A token of a zone with another name says nothing about this zone.
        let other = try await world.changes(zone: "Other", since: token)
        #expect(other.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" && other["formerZone"] == nil)
        let mine = try #require(try await world.changes().text("syncToken"))
        let foreign = try await world.changes(zone: "Other", since: mine)
        #expect(foreign.text("ckErrorCode") == "CHANGE_TOKEN_EXPIRED" && foreign["formerZone"] == nil)
    }

    @Test func theDefaultZoneAndThePublicDatabaseHaveNoFeed() async throws {
        let world = try RelayWorld()
        let old = try await world.ask("private/records/changes", "{}")
        #expect(old.status == 400)
        #expect(old.json.text("reason") == "cannot get changes in default zone")
        let entry = try await world.changes(zone: "_defaultZone")
        #expect(entry.text("reason") == "cannot get changes in default zone")
        #expect(try await world.ask("public/changes/database").code == "BAD_REQUEST")
    }

    @Test func usersSeeNothingOfEachOther() async throws {
        let world = try RelayWorld()
        try await world.makeZone("Notes")
        _ = try await world.modify([.create("a")])
        let alice = try #require(try await world.ask("public/users/caller", method: .get).json.text("userRecordName"))
        let stranger = try await world.ask(
            "private/changes/zone",
            as: "bob",
            #"{"zones":[{"zoneID":{"zoneName":"Notes","ownerRecordName":"\#(alice)"}},{"zoneID":{"zoneName":"Notes"}}]}"#
        )
        #expect(try stranger.items("zones").map { $0.text("serverErrorCode") } == ["ZONE_NOT_FOUND", "ZONE_NOT_FOUND"])
        #expect(try await world.ask("private/changes/database", as: "bob").items("zones").isEmpty)
    }

    /// Counting visits each record, so it is bounded, for all entries of a request together.
    @Test func remainingRecordsAreCountedUpToABound() async throws {
        var limits = Limits()
        limits.countedRecords = 10
        let world = try RelayWorld(limits: limits)
        try await world.makeZone("Notes")
        _ = try await world.modify((0..<8).map { .create("n\($0)") })
        let zone = #"{"zoneID":{"zoneName":"Notes"},"resultsLimit":1,"countRemaining":true}"#
        func remaining(_ zones: [String]) async throws -> [Int64?] {
            let body = #"{"zones":[\#(zones.joined(separator: ","))]}"#
            return try await world.ask("private/changes/zone", body).items("zones").map { try $0["remaining"]?.int64() }
        }
        #expect(try await remaining([zone, zone, zone]) == [7, nil, nil])
        let backwards = #"{"zoneID":{"zoneName":"Notes"},"resultsLimit":1,"countRemaining":true,"reverse":true}"#
        #expect(try await remaining([backwards, zone]) == [nil, 7])
        _ = try await world.modify((8..<12).map { .create("n\($0)") })
        #expect(try await remaining([zone]) == [nil])
    }
}

/// A small deterministic random number generator.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
