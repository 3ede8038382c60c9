import Records
import RelayCore
import Testing
import Wire

/// `records/query` as a web client sees it.
@Suite struct QueryTests {
    let world: RelayWorld

    init() async throws {
        world = try RelayWorld()
        try await world.makeZone("Notes")
    }

    private func save(_ name: String, _ fields: String, in zone: String = "Notes", type: String = "Note") async throws {
        let operation = RelayWorld.Operation(kind: "forceReplace", name: name, type: type, fields: fields)
        let answer = try await world.modify(zone: zone, [operation])
        let failure = try answer.items("records").first?.text("reason")
        #expect(failure == nil, "\(name): \(failure ?? "")")
    }

    private func ask(
        _ query: String,
        zone: String? = "Notes",
        extra: String = "",
        as user: String = "alice"
    ) async throws -> Answer {
        let place = zone.map { #""zoneID":{"zoneName":"\#($0)"}"# } ?? #""zoneWide":true"#
        return try await world.ask("private/records/query", as: user, "{\(place),\"query\":\(query)\(extra)}")
    }

    /// Returns the names of the records that a filter finds, in name order.
    private func names(_ filter: String, sort: String = "") async throws -> [String] {
        let answer = try await ask(#"{"recordType":"Note","filterBy":[\#(filter)],"sortBy":[\#(sort)]}"#)
        #expect(answer.status == 200, "\(answer.json.text("reason") ?? "")")
        guard answer.status == 200 else { return [] }
        return try answer.items("records").compactMap { $0.text("recordName") }
    }

    private func filter(
        _ field: String?,
        _ comparator: String,
        _ value: String,
        type: String? = nil,
        extra: String = ""
    )
        -> String
    {
        let name = field.map { #""fieldName":"\#($0)","# } ?? ""
        let tag = type.map { #","type":"\#($0)""# } ?? ""
        return #"{\#(name)"comparator":"\#(comparator)","fieldValue":{"value":\#(value)\#(tag)}\#(extra)}"#
    }

    /// Three notes, one of them empty.
    private func saveNotes() async throws {
        try await save(
            "a",
            """
            {"title":{"value":"Bread and Milk"},"count":{"value":3},"ratio":{"value":0.5,"type":"DOUBLE"},\
            "due":{"value":1000,"type":"TIMESTAMP"},"blob":{"value":"AQI=","type":"BYTES"},\
            "folder":{"value":{"recordName":"f1","action":"NONE"}},"tags":{"value":["home","shop"]},\
            "spot":{"value":{"latitude":52.52,"longitude":13.405}},"numbers":{"value":[1,2,3],"type":"INT64_LIST"}}
            """
        )
        try await save(
            "b",
            """
            {"title":{"value":"bread"},"count":{"value":7},"ratio":{"value":2,"type":"DOUBLE"},\
            "due":{"value":2000,"type":"TIMESTAMP"},"blob":{"value":"AQM=","type":"BYTES"},\
            "folder":{"value":{"recordName":"f2","action":"NONE"}},"tags":{"value":["work"]},\
            "spot":{"value":{"latitude":48.8566,"longitude":2.3522}},"numbers":{"value":[3],"type":"INT64_LIST"}}
            """
        )
        try await save("c", "{}")
    }

    @Test func everyComparatorFindsTheMatchingRecords() async throws {
        try await saveNotes()
        let cases: [(String, [String])] = [
            (filter("title", "EQUALS", #""bread""#), ["b"]),
            (filter("title", "NOT_EQUALS", #""bread""#), ["a", "c"]),
            (filter("count", "LESS_THAN", "7"), ["a"]),
            (filter("count", "LESS_THAN_OR_EQUALS", "7"), ["a", "b"]),
            (filter("ratio", "GREATER_THAN", "0.5"), ["b"]),
            (filter("ratio", "GREATER_THAN_OR_EQUALS", "1", type: "INT64"), ["b"]),
            (filter("due", "GREATER_THAN", "1000", type: "TIMESTAMP"), ["b"]),
            (filter("title", "GREATER_THAN", #""C""#), ["b"]),
            (filter("blob", "EQUALS", #""AQI=""#), ["a"]),
            (filter("folder", "EQUALS", #"{"recordName":"f1"}"#), ["a"]),
            (
                filter("folder", "IN", #"[{"recordName":"f1"},{"recordName":"f2"}]"#, type: "REFERENCE_LIST"),
                ["a", "b"]
            ),
            (filter("count", "IN", "[7,8]", type: "INT64_LIST"), ["b"]),
            (filter("count", "NOT_IN", "[7,8]", type: "INT64_LIST"), ["a", "c"]),
            (filter("title", "BEGINS_WITH", #""Bread""#), ["a"]),
            (filter("title", "NOT_BEGINS_WITH", #""Bread""#), ["b", "c"]),
            (filter("title", "CONTAINS_ALL_TOKENS", #""milk BREAD""#), ["a"]),
            (filter("title", "CONTAINS_ANY_TOKENS", #""milk bréad""#), ["a", "b"]),
            (filter(nil, "CONTAINS_ALL_TOKENS", #""home milk""#), ["a"]),
            (filter("tags", "LIST_CONTAINS", #""home""#), ["a"]),
            (filter("tags", "NOT_LIST_CONTAINS", #""home""#), ["b", "c"]),
            (filter("tags", "LIST_CONTAINS_ANY", #"["home","work"]"#, type: "STRING_LIST"), ["a", "b"]),
            (filter("tags", "NOT_LIST_CONTAINS_ANY", #"["home","work"]"#, type: "STRING_LIST"), ["c"]),
            (filter("numbers", "LIST_CONTAINS_ALL", "[1,3]", type: "INT64_LIST"), ["a"]),
            (filter("numbers", "NOT_LIST_CONTAINS_ALL", "[1,3]", type: "INT64_LIST"), ["b", "c"]),
            (filter("tags", "LIST_MEMBER_BEGINS_WITH", #""sh""#), ["a"]),
            (filter("tags", "NOT_LIST_MEMBER_BEGINS_WITH", #""sh""#), ["b", "c"]),
            (
                filter(
                    "spot",
                    "NEAR",
                    #"{"latitude":52.5,"longitude":13.4}"#,
                    type: "LOCATION",
                    extra: #","distance":5000"#
                ), ["a"]
            ),
            (
                filter("spot", "NEAR", #"{"latitude":52.5,"longitude":13.4}"#, extra: #","distance":900000"#),
                ["a", "b"]
            ),
            (filter("___recordID", "EQUALS", #"{"recordName":"b"}"#, type: "REFERENCE"), ["b"]),
            (filter("recordName", "IN", #"["a","c","x"]"#, type: "STRING_LIST"), ["a", "c"]),
            (filter("___modTime", "GREATER_THAN", "0", type: "TIMESTAMP"), ["a", "b", "c"]),
        ]
        for (filter, expected) in cases {
            #expect(Set(try await names(filter)) == Set(expected), "\(filter)")
            let sorted = try await names(filter, sort: #"{"fieldName":"recordName","ascending":false}"#)
            #expect(sorted == expected.reversed(), "\(filter)")
        }
    }

    @Test func laterSortsOrderRecordsThatEarlierOnesLeaveEqual() async throws {
        try await saveNotes()
        try await save(
            "d",
            #"{"title":{"value":"bread"},"count":{"value":1},"spot":{"value":{"latitude":0,"longitude":0}}}"#
        )
        let byTitle = #"{"fieldName":"title","ascending":true},{"fieldName":"count","ascending":false}"#
        #expect(try await names("", sort: byTitle) == ["c", "a", "b", "d"])
        #expect(try await names("", sort: #"{"fieldName":"count","ascending":false}"#) == ["b", "a", "d", "c"])
        let near = #"{"fieldName":"spot","relativeLocation":{"value":{"latitude":50,"longitude":3},"type":"LOCATION"}}"#
        #expect(try await names("", sort: near) == ["b", "a", "d", "c"])
    }

    @Test func thePageAfterAMarkerIsUnaffectedByWrites() async throws {
        for number in 10..<20 { try await save("n\(number)", #"{"count":{"value":\#(number)}}"#) }
        let query = #"{"recordType":"Note","sortBy":[{"fieldName":"count"}]}"#
        let first = try await ask(query, extra: #","resultsLimit":4"#)
        #expect(try first.items("records").compactMap { $0.text("recordName") } == ["n10", "n11", "n12", "n13"])
        let marker = try #require(first.json.text("continuationMarker"))
        _ = try await world.modify([.init(kind: "forceDelete", name: "n13"), .init(kind: "forceDelete", name: "n14")])
        try await save("early", #"{"count":{"value":5}}"#)
        try await save("late", #"{"count":{"value":16}}"#)
        let second = try await ask(query, extra: #","resultsLimit":6,"continuationMarker":"\#(marker)""#)
        let names = try second.items("records").compactMap { $0.text("recordName") }
        #expect(names == ["n15", "late", "n16", "n17", "n18", "n19"])
        #expect(second.json.text("continuationMarker") == nil, "the page ends exactly at the last record")
        let other = try await ask(
            #"{"recordType":"Note","sortBy":[{"fieldName":"count","ascending":false}]}"#,
            extra: #","continuationMarker":"\#(marker)""#
        )
        #expect(other.status == 400)
        #expect(other.code == "BAD_REQUEST")
        let elsewhere = try await ask(query, zone: nil, extra: #","continuationMarker":"\#(marker)""#)
        #expect(elsewhere.status == 400)
    }

    @Test func markersRevealNothingAndCannotBeForged() async throws {
        for number in 10..<14 { try await save("n\(number)", #"{"count":{"value":\#(number)}}"#) }
        let query = #"{"recordType":"Note","sortBy":[{"fieldName":"count"}]}"#
        let first = try await ask(query, extra: #","resultsLimit":2"#)
        let marker = try #require(first.json.text("continuationMarker"))
        var bytes = try #require(Base64.decode(marker))
        #expect(!String(decoding: bytes, as: UTF8.self).contains("n11"))
        #expect(try await ask(query, extra: #","resultsLimit":2"#).json.text("continuationMarker") == marker)
        bytes[bytes.count / 2] ^= 1
        for forged in [Base64.encode(bytes), Base64.encode(Array(#"{"q":"1","n":"n1"}"#.utf8)), "", "%"] {
            #expect(try await ask(query, extra: #","continuationMarker":"\#(forged)""#).status == 400)
        }
    }

    @Test func aQueryCoversAllZonesInOneOrder() async throws {
        try await world.makeZone("Other")
        for (zone, numbers) in [("Notes", [1, 4, 5]), ("Other", [2, 3, 6])] {
            for number in numbers { try await save("n\(number)", #"{"count":{"value":\#(number)}}"#, in: zone) }
        }
        for sort in [#","sortBy":[{"fieldName":"count"}]"#, ""] {
            var (seen, marker): ([String], String) = ([], "")
            for _ in 0..<3 {
                let page = try await ask(
                    #"{"recordType":"Note"\#(sort)}"#,
                    zone: nil,
                    extra: #","resultsLimit":2\#(marker)"#
                )
                for record in try page.items("records") {
                    let zone = record["zoneID"]?.text("zoneName") ?? ""
                    seen.append("\(record.text("recordName") ?? "") \(zone)")
                }
                marker = page.json.text("continuationMarker").map { #","continuationMarker":"\#($0)""# } ?? ""
            }
            #expect(marker.isEmpty)
            let expected = ["n1 Notes", "n2 Other", "n3 Other", "n4 Notes", "n5 Notes", "n6 Other"]
            #expect((sort.isEmpty ? seen.sorted() : seen) == expected)
        }
    }

    /// A reference that names a zone matches that zone's record only, even if other zones have a record of the same
    /// name.
    @Test func aReferenceThatNamesAZoneMatchesInThatZoneOnly() async throws {
        try await world.makeZone("Other")
        for zone in ["Notes", "Other"] {
            let target = #"{"recordName":"f","action":"NONE"}"#
            try await save("a", #"{"folder":{"value":\#(target)},"all":{"value":[\#(target)]}}"#, in: zone)
        }
        let here = #"{"recordName":"f","zoneID":{"zoneName":"Notes"}}"#
        let name = #"{"recordName":"a","zoneID":{"zoneName":"Notes"}}"#
        let nowhere = #"{"recordName":"f","zoneID":{"zoneName":"Notes","ownerRecordName":"_nobody"}}"#
        let cases: [(String, [String])] = [
            (filter("folder", "EQUALS", #"{"recordName":"f"}"#), ["Notes", "Other"]),
            (filter("folder", "EQUALS", here), ["Notes"]),
            (filter("folder", "NOT_EQUALS", here), ["Other"]),
            (filter("folder", "IN", "[\(here)]", type: "REFERENCE_LIST"), ["Notes"]),
            (filter("folder", "EQUALS", nowhere), []),
            (filter("all", "LIST_CONTAINS", here), ["Notes"]),
            (filter("all", "NOT_LIST_CONTAINS", here), ["Other"]),
            (filter("all", "LIST_CONTAINS_ALL", #"[{"recordName":"f"},\#(here)]"#, type: "REFERENCE_LIST"), ["Notes"]),
            (filter("___recordID", "EQUALS", name), ["Notes"]),
            (filter("recordName", "NOT_IN", "[\(name)]", type: "REFERENCE_LIST"), ["Other"]),
            (
                filter("recordName", "GREATER_THAN", #"{"recordName":"A","zoneID":{"zoneName":"Notes"}}"#),
                ["Notes", "Other"]
            ),
        ]
        for (filter, expected) in cases {
            let query = #"{"recordType":"Note","filterBy":[\#(filter)]}"#
            let everywhere = try await ask(query, zone: nil)
            #expect(everywhere.status == 200, "\(everywhere.json.text("reason") ?? "")")
            #expect(try zones(of: everywhere) == expected, "\(filter)")
            for zone in ["Notes", "Other"] {
                #expect(try zones(of: await ask(query, zone: zone)) == expected.filter { $0 == zone }, "\(filter)")
            }
        }
    }

    private func zones(of answer: Answer) throws -> [String] {
        try answer.items("records").compactMap { $0["zoneID"]?.text("zoneName") }.sorted()
    }

    @Test func desiredKeysAndStringNumbersApplyToQueries() async throws {
        try await saveNotes()
        let answer = try await ask(
            #"{"recordType":"Note","filterBy":[\#(filter("count", "EQUALS", #""3""#, type: "INT64"))]}"#,
            extra: #","desiredKeys":["count"],"numbersAsStrings":true"#
        )
        let record = try #require(try answer.items("records").first)
        #expect(try record.required("fields").members().map(\.name) == ["count"])
        #expect(try record.field("count")?.string() == "3")
    }

    static let refusals: [(String, String)] = [
        (#"{"fieldName":"nothing","comparator":"EQUALS","fieldValue":{"value":1}}"#, "Unknown field 'nothing'"),
        (
            #"{"fieldName":"title","comparator":"LIST_CONTAINS","fieldValue":{"value":"x"}}"#,
            "Field 'title' has a value type of STRING and cannot be queried using filter type LIST_CONTAINS"
        ),
        (
            #"{"fieldName":"tags","comparator":"EQUALS","fieldValue":{"value":"x"}}"#,
            "Field 'tags' has a value type of STRING_LIST and cannot be queried using filter type EQUALS"
        ),
        (#"{"fieldName":"count","comparator":"IN","fieldValue":{"value":[1,2]}}"#, "Unexpected input"),
        (#"{"fieldName":"count","comparator":"EQUALS","fieldValue":{"value":"x"}}"#, "expected type INT64"),
        (
            #"{"fieldName":"count","comparator":"EQUALS","fieldValue":{"value":"x","type":"STRING"}}"#,
            "Field 'count' has a value type of INT64 and cannot be compared with a value of type STRING"
        ),
        (#"{"fieldName":"count","comparator":"LIKES","fieldValue":{"value":1}}"#, "'LIKES' is not a comparator"),
        (#"{"comparator":"EQUALS","fieldValue":{"value":1}}"#, "fieldName is required"),
        (#"{"fieldName":"title","comparator":"CONTAINS_ALL_TOKENS","fieldValue":{"value":" ,"}}"#, "1 to 100 words"),
        (
            #"{"fieldName":"spot","comparator":"NEAR","fieldValue":{"value":{"latitude":1,"longitude":1}}}"#,
            "NEAR needs a distance"
        ),
        (
            #"{"fieldName":"spot","comparator":"NEAR","fieldValue":{"value":{"latitude":91,"longitude":1}},"distance":1}"#,
            "latitude of -90 to 90"
        ),
        (#"{"fieldName":"secret","comparator":"EQUALS","fieldValue":{"value":"x"}}"#, "ENCRYPTED_STRING"),
    ]

    @Test(arguments: refusals) func anInvalidFilterIsRefusedWithAReason(_ filter: String, _ reason: String)
        async throws
    {
        try await saveNotes()
        try await save("s", #"{"secret":{"value":"x","type":"STRING","isEncrypted":true}}"#)
        let answer = try await ask(#"{"recordType":"Note","filterBy":[\#(filter)]}"#)
        #expect(answer.status == 400)
        #expect(answer.code == "BAD_REQUEST")
        #expect(answer.json.text("reason")?.contains(reason) == true, "\(answer.json.text("reason") ?? "")")
    }

    @Test func invalidSortsAreRefused() async throws {
        try await saveNotes()
        for (sort, reason) in [
            (#"{"fieldName":"tags"}"#, "is a list"), (#"{"fieldName":"spot"}"#, "needs a relativeLocation"),
            (#"{"fieldName":"count","relativeLocation":{"latitude":1,"longitude":2}}"#, "is not a LOCATION"),
            (#"{"fieldName":"nothing"}"#, "Unknown field 'nothing'"),
        ] {
            let answer = try await ask(#"{"recordType":"Note","sortBy":[\#(sort)]}"#)
            #expect(answer.status == 400)
            #expect(answer.json.text("reason")?.contains(reason) == true, "\(answer.json.text("reason") ?? "")")
        }
    }

    /// A type that was not promoted is reported by queries and by writes.
    @Test func productionReportsATypeThatExistsOnlyInDevelopment() async throws {
        try await save("a", #"{"title":{"value":"a"}}"#)
        let told =
            #"Record type "Note" exists in development but not in production. "#
            + "zonecast schema promote --dry-run shows what would change."
        let query = try await world.ask(
            "private/records/query",
            #"{"query":{"recordType":"Note"}}"#,
            environment: "production"
        )
        #expect(query.code == "NOT_FOUND" && query.json.text("reason") == "Did not find record type: Note. " + told)
        for (type, expected) in [("Note", told), ("Other", "does not exist in this environment")] {
            let record = #"{"operationType":"create","record":{"recordType":"\#(type)"}}"#
            let write = try await world.ask(
                "private/records/modify",
                #"{"operations":[\#(record)]}"#,
                environment: "production"
            )
            let item = try #require(try write.items("records").first)
            #expect(item.text("serverErrorCode") == "NOT_FOUND")
            #expect(item.text("reason")?.contains(expected) == true, "\(item.text("reason") ?? "")")
        }
    }

    /// The index that each query part needs, on a type that has none; with the declared index the query succeeds.
    static let indexRules: [(query: String, reason: String, fix: @Sendable (inout RecordType) -> Void)] = [
        ("{}", "Field 'recordName' is not marked queryable", { $0.systemIndexes[.recordName] = .queryable }),
        (
            #"{"filterBy":[{"fieldName":"title","comparator":"EQUALS","fieldValue":{"value":"a"}}]}"#,
            "Field 'title' is not marked queryable", { $0.fields["title"]?.indexes = .queryable }
        ),
        (
            #"{"filterBy":[{"fieldName":"count","comparator":"LESS_THAN","fieldValue":{"value":1}}]}"#,
            "Field 'count' is not marked queryable", { $0.fields["count"]?.indexes = .sortable }
        ),
        (
            #"{"filterBy":[{"fieldName":"title","comparator":"CONTAINS_ANY_TOKENS","fieldValue":{"value":"a"}}]}"#,
            "Field 'title' is not marked searchable", { $0.fields["title"]?.indexes = .searchable }
        ),
        (
            #"{"filterBy":[{"comparator":"CONTAINS_ANY_TOKENS","fieldValue":{"value":"a"}}]}"#,
            "no field that is marked searchable", { $0.fields["title"]?.indexes = .searchable }
        ),
        (
            #"{"filterBy":[{"fieldName":"___modTime","comparator":"GREATER_THAN","fieldValue":{"value":1}}]}"#,
            "Field '___modTime' is not marked queryable", { $0.systemIndexes[.modified] = .queryable }
        ),
        (
            #"{"filterBy":[{"fieldName":"recordName","comparator":"EQUALS","fieldValue":{"value":"a"}}],"#
                + #""sortBy":[{"fieldName":"title"}]}"#,
            "Field 'recordName' is not marked queryable",
            {
                $0.systemIndexes[.recordName] = .queryable
                $0.fields["title"]?.indexes = .sortable
            }
        ),
    ]

    @Test(arguments: indexRules.indices) func aQueryNeedsTheIndexesThatCloudKitNeeds(_ rule: Int) async throws {
        let (body, reason, fix) = Self.indexRules[rule]
        var type = RecordType(
            fields: ["title": .init(.scalar(.string), indexes: []), "count": .init(.scalar(.int64), indexes: [])],
            systemIndexes: [:]
        )
        let container = try #require(ContainerID(world.container))
        let store = try world.stores.store(of: ContainerEnvironment(container, .development))
        let bare = type
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": bare])
        }
        try await save("a", #"{"title":{"value":"a"},"count":{"value":0}}"#)
        let query = #"{"recordType":"Note","# + (body == "{}" ? #""filterBy":[]}"# : String(body.dropFirst()))
        let refused = try await ask(query)
        #expect(refused.status == 400)
        #expect(refused.code == "BAD_REQUEST")
        #expect(refused.json.text("reason")?.contains(reason) == true, "\(refused.json.text("reason") ?? "")")
        fix(&type)
        let cured = type
        try await store.write(touching: Zone.publicOwner) { writer throws(RelayError) in
            try writer.define(["Note": cured])
        }
        let answer = try await ask(query)
        #expect(answer.status == 200, "\(answer.json.text("reason") ?? "")")
    }
}
