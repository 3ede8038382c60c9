import Records
import Testing
import Wire

/// The bytes that a client sends.
@Suite struct ClientRequestTests {
    let notes = ZoneID("Notes")
    let bobs = ZoneID("Notes", owner: UserID("_bob"))

    func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func writesOfAllKindsAreEncoded() {
        let create = ClientRequest.Write(
            .create,
            "n1",
            recordType: "Note",
            fields: ["title": .string("Milk \"2%\"")],
            parent: .some("folder")
        )
        #expect(
            text(ClientRequest.modify([create], in: notes, atomically: true)) == """
                {"zoneID":{"zoneName":"Notes"},"atomic":true,"operations":[{"operationType":"create","record":\
                {"recordName":"n1","recordType":"Note","parent":{"recordName":"folder"},\
                "fields":{"title":{"value":"Milk \\"2%\\"","type":"STRING"}}}}]}
                """
        )
        let update = ClientRequest.Write(
            .update,
            "n1",
            recordType: "Note",
            changeTag: "k1",
            fields: ["title": nil],
            parent: .some(nil)
        )
        var empty = ClientRequest.Write(.update, "n3", changeTag: "k2", fields: ["list": .list(.string, [])])
        empty.untypedLists = ["list"]
        #expect(
            text(ClientRequest.modify([empty], in: notes, atomically: true)).hasSuffix(
                #""fields":{"list":{"value":[],"type":"UNKNOWN_LIST"}}}}]}"#
            )
        )
        empty.encrypted = ["list"]
        #expect(
            text(ClientRequest.modify([empty], in: notes, atomically: true)).hasSuffix(
                #""fields":{"list":{"value":[],"type":"UNKNOWN_LIST","isEncrypted":true}}}}]}"#
            )
        )
        // Encrypted fields and lists have an explicit type.
        for (value, form) in [
            (FieldValue.bytes([1]), #"{"value":"AQ==","type":"BYTES","isEncrypted":true}"#),
            (.list(.int64, [.int64(1)]), #"{"value":[1],"type":"INT64_LIST","isEncrypted":true}"#),
        ] {
            empty.fields["list"] = value
            #expect(
                text(ClientRequest.modify([empty], in: notes, atomically: true)).hasSuffix(
                    #""fields":{"list":\#(form)}}}]}"#
                )
            )
        }
        let delete = ClientRequest.Write(.forceDelete, "n2")
        #expect(
            text(ClientRequest.modify([update, delete], in: bobs, atomically: false, desiredKeys: [])) == """
                {"zoneID":{"zoneName":"Notes","ownerRecordName":"_bob"},"atomic":false,"desiredKeys":[],"operations":[\
                {"operationType":"update","record":{"recordName":"n1","recordType":"Note","recordChangeTag":"k1",\
                "parent":null,"fields":{"title":{"value":null}}}},\
                {"operationType":"forceDelete","record":{"recordName":"n2"}}]}
                """
        )
    }

    @Test func readsAreEncoded() {
        #expect(
            text(ClientRequest.lookup(["a"], in: notes, desiredKeys: ["t"]))
                == #"{"zoneID":{"zoneName":"Notes"},"desiredKeys":["t"],"records":[{"recordName":"a"}]}"#
        )
        #expect(text(ClientRequest.databaseChanges(since: nil, limit: nil)) == "{}")
        #expect(
            text(ClientRequest.databaseChanges(since: "AQ==", limit: 5)) == #"{"syncToken":"AQ==","resultsLimit":5}"#
        )
        #expect(
            text(ClientRequest.zoneChanges(in: notes, since: "AQ==", desiredKeys: [], limit: 9)) == """
                {"zones":[{"zoneID":{"zoneName":"Notes"},"syncToken":"AQ==","resultsLimit":9,"desiredKeys":[]}]}
                """
        )
        #expect(text(ClientRequest.lookup(zones: [notes])) == #"{"zones":[{"zoneName":"Notes"}]}"#)
    }

    @Test func zonesAndSubscriptionsAreEncoded() {
        #expect(
            text(ClientRequest.modify(creating: [notes], deleting: [ZoneID("Old")], of: .private)) == """
                {"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}},\
                {"operationType":"delete","zone":{"zoneID":{"zoneName":"Old"}}}]}
                """
        )
        let info = Array(#"{"shouldSendContentAvailable":true}"#.utf8)
        let whole = Subscription(id: "all", kind: .database, notificationInfo: info)
        let one = Subscription(id: "one", kind: .zone(bobs), recordType: "Note")
        #expect(
            text(ClientRequest.modify(creating: [whole, one], deleting: ["old"])) == """
                {"operations":[{"operationType":"create","subscription":{"subscriptionID":"all",\
                "subscriptionType":"database","notificationInfo":{"shouldSendContentAvailable":true}}},\
                {"operationType":"create","subscription":{"subscriptionID":"one","subscriptionType":"zone",\
                "zoneID":{"zoneName":"Notes","ownerRecordName":"_bob"},"recordType":"Note"}},\
                {"operationType":"delete","subscription":{"subscriptionID":"old"}}]}
                """
        )
    }

    @Test func queriesAreEncoded() {
        let query = Query(
            recordType: "Note",
            filters: [
                Query.Filter(.modified, .greaterThan, [.timestamp(Timestamp(milliseconds: 5))]),
                Query.Filter(.recordName, .in, [.string("a"), .string("b")]),
            ],
            sorts: [Query.Sort(.modified, ascending: false)]
        )
        let encoded = ClientRequest.encode(query)
        #expect(
            text(encoded) == """
                {"recordType":"Note","filterBy":[{"comparator":"GREATER_THAN","fieldName":"___modTime",\
                "fieldValue":{"value":5,"type":"TIMESTAMP"}},{"comparator":"IN","fieldName":"___recordID",\
                "fieldValue":{"value":[{"recordName":"a","action":"NONE"},{"recordName":"b","action":"NONE"}],\
                "type":"REFERENCE_LIST"}}],"sortBy":[{"fieldName":"___modTime","ascending":false}]}
                """
        )
        #expect(
            text(ClientRequest.query(encoded, in: nil, desiredKeys: nil, limit: 3, marker: "bQ=="))
                == #"{"zoneWide":true,"resultsLimit":3,"continuationMarker":"bQ==","query":"# + text(encoded) + "}"
        )
    }
}
