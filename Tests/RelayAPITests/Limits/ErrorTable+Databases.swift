/// Requests that fail as a whole because of their subject: databases, zones, tokens, queries.
extension ErrorTableTests {
    static let scopes: [Row] = [
        Row("changes of the public database", "public/changes/database", is: 400, "BAD_REQUEST"),
        Row("changes of public zones", "public/changes/zone", #"{"zones":[]}"#, is: 400, "BAD_REQUEST"),
        Row("record changes of public zones", "public/records/changes", is: 400, "BAD_REQUEST"),
        Row("changed zones of the public database", "public/zones/changes", is: 400, "BAD_REQUEST"),
        Row(
            "public zones made",
            "public/zones/modify",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"A"}}}]}"#,
            is: 400,
            "BAD_REQUEST",
            "zones cannot be modified in the public database"
        ),
        Row(
            "own zones left",
            "private/zones/modify",
            #"{"operations":[{"operationType":"leave","zone":{"zoneID":{"zoneName":"A"}}}]}"#,
            is: 400,
            "BAD_REQUEST",
            "Delete a zone of the private database; only zones of other users can be left."
        ),
        Row(
            "shared zones deleted",
            "shared/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"A"}}}]}"#,
            is: 403,
            "ACCESS_DENIED"
        ),
        Row(
            "shared zones made",
            "shared/zones/modify",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"A"}}}]}"#,
            is: 403,
            "ACCESS_DENIED"
        ),
        Row(
            "a custom zone of the public database",
            "public/records/query",
            #"{"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note"}}"#,
            is: 404,
            "ZONE_NOT_FOUND"
        ),
        Row(
            "a missing zone written",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note"}}"#, zone: "Gone"),
            is: 404,
            "ZONE_NOT_FOUND"
        ),
        Row(
            "a missing zone read",
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Gone"},"records":[]}"#,
            is: 404,
            "ZONE_NOT_FOUND"
        ),
        Row(
            "a missing zone queried",
            "private/records/query",
            #"{"zoneID":{"zoneName":"Gone"},"query":{"recordType":"Note"}}"#,
            is: 404,
            "ZONE_NOT_FOUND"
        ),
        Row(
            "somebody else's zone",
            "private/records/query",
            #"{"zoneID":{"zoneName":"Notes","ownerRecordName":"_0"},"query":{"recordType":"Note"}}"#,
            is: 404,
            "ZONE_NOT_FOUND"
        ),
        Row(
            "a zone of the shared database",
            "shared/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[]}"#,
            is: 404,
            "ZONE_NOT_FOUND"
        ),
        Row(
            "the default zone's changes",
            "private/records/changes",
            #"{"zoneID":{"zoneName":"_defaultZone"}}"#,
            is: 400,
            "BAD_REQUEST",
            "cannot get changes in default zone"
        ),
        Row(
            "a foreign database token",
            "private/changes/database",
            #"{"syncToken":"AAAA"}"#,
            is: 400,
            "BAD_REQUEST",
            "client knowledge differs from server knowledge"
        ),
        Row(
            "a foreign metaSyncToken",
            "private/zones/changes",
            #"{"metaSyncToken":"AAAA"}"#,
            is: 400,
            "BAD_REQUEST",
            "client knowledge differs from server knowledge"
        ),
    ]

    static let queries: [Row] = [
        Row(
            "an unknown comparator",
            "private/records/query",
            query(#"{"comparator":"LIKE","fieldName":"n","fieldValue":{"value":1}}"#),
            is: 400,
            "BAD_REQUEST",
            "LIKE"
        ),
        Row(
            "an unknown field",
            "private/records/query",
            query(#"{"comparator":"EQUALS","fieldName":"zz","fieldValue":{"value":1}}"#),
            is: 400,
            "BAD_REQUEST",
            "zz"
        ),
        Row(
            "IN without a list's tag",
            "private/records/query",
            query(#"{"comparator":"IN","fieldName":"n","fieldValue":{"value":[1]}}"#),
            is: 400,
            "BAD_REQUEST",
            "BadRequestException: Unexpected input"
        ),
        Row(
            "a value of another type",
            "private/records/query",
            query(#"{"comparator":"EQUALS","fieldName":"n","fieldValue":{"value":"x","type":"STRING"}}"#),
            is: 400,
            "BAD_REQUEST",
            "n"
        ),
        Row(
            "an encrypted field",
            "private/records/query",
            query(#"{"comparator":"EQUALS","fieldName":"secret","fieldValue":{"value":"x","type":"STRING"}}"#),
            is: 400,
            "BAD_REQUEST",
            "Field 'secret' has a value type of ENCRYPTED_STRING and cannot be queried using filter type EQUALS"
        ),
        Row(
            "a marker of nothing",
            "private/records/query",
            #"{"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note"},"continuationMarker":"AAAA"}"#,
            is: 400,
            "BAD_REQUEST",
            "continuationMarker"
        ),
        Row(
            "an unknown type",
            "private/records/query",
            #"{"query":{"recordType":"Nothing"}}"#,
            is: 404,
            "NOT_FOUND",
            "Nothing"
        ),
    ]
}
