import HTTPTypes

/// Requests that fail as a whole, for any operation.
extension ErrorTableTests {
    static let json: [Row] = [
        Row("no JSON", "private/zones/lookup", "zones", is: 400, "BAD_REQUEST"),
        Row("an array", "private/zones/lookup", "[]", is: 400, "BAD_REQUEST", "object"),
        Row("text after the end", "private/zones/lookup", #"{"zones":[]} x"#, is: 400, "BAD_REQUEST"),
        Row("NaN", "private/zones/lookup", #"{"zones":NaN}"#, is: 400, "BAD_REQUEST"),
        Row("leading zeros", "private/zones/lookup", #"{"a":01,"zones":[]}"#, is: 400, "BAD_REQUEST"),
        Row("a control character", "private/zones/lookup", "{\"a\":\"\u{1}\",\"zones\":[]}", is: 400, "BAD_REQUEST"),
        Row(
            "a name twice",
            "private/zones/lookup",
            #"{"zones":[],"zones":[]}"#,
            is: 400,
            "BAD_REQUEST",
            "stands twice"
        ),
        Row("a lone surrogate", "private/zones/lookup", #"{"a":"\ud800","zones":[]}"#, is: 400, "BAD_REQUEST"),
        Row("a trailing comma", "private/zones/lookup", #"{"zones":[],}"#, is: 400, "BAD_REQUEST"),
        Row("a wrong type", "private/zones/lookup", #"{"zones":"x"}"#, is: 400, "BAD_REQUEST", "zones"),
        Row(
            "a wrong type inside",
            "private/zones/lookup",
            #"{"zones":[{"zoneName":1}]}"#,
            is: 400,
            "BAD_REQUEST",
            "zones[0].zoneName"
        ),
        Row("a missing key", "private/zones/lookup", "{}", is: 400, "BAD_REQUEST", "zones"),
        Row("no operations", "private/records/modify", "{}", is: 400, "BAD_REQUEST", "operations"),
        Row("empty operations", "private/records/modify", #"{"operations":[]}"#, is: 400, "BAD_REQUEST", "operations"),
        Row("no records", "private/records/lookup", "{}", is: 400, "BAD_REQUEST", "records"),
        Row("no query", "private/records/query", "{}", is: 400, "BAD_REQUEST", "query"),
        Row("no type", "private/records/query", #"{"query":{}}"#, is: 400, "BAD_REQUEST", "recordType"),
        Row(
            "no operationType",
            "private/records/modify",
            write(#"{"record":{"recordName":"x"}}"#),
            is: 400,
            "BAD_REQUEST",
            "operationType"
        ),
        Row(
            "an unknown operationType",
            "private/records/modify",
            write(#"{"operationType":"upsert","record":{}}"#),
            is: 400,
            "BAD_REQUEST",
            "upsert"
        ),
        Row(
            "a number out of range",
            "private/changes/database",
            #"{"resultsLimit":9223372036854775808}"#,
            is: 400,
            "BAD_REQUEST",
            "resultsLimit"
        ),
    ]

    static let paths: [Row] = [
        Row("an unknown operation", "private/records/frobnicate", is: 404, "NOT_FOUND"),
        Row("an unknown database", "secret/records/query", is: 404, "NOT_FOUND"),
        Row("no operation", "private", is: 404, "NOT_FOUND"),
        Row("GET where POST is meant", "private/records/modify", by: .get, is: 405, "BAD_REQUEST", "POST"),
        Row("PUT", "private/records/modify", by: .put, is: 405, "BAD_REQUEST", "POST"),
        Row("dots", "private/../records/query", is: 400, "BAD_REQUEST"),
        Row("an empty segment", "private//records/query", is: 400, "BAD_REQUEST"),
        Row("a backslash", "private/records%5Cquery", is: 400, "BAD_REQUEST"),
        Row("a NUL", "private/records/query%00", is: 400, "BAD_REQUEST"),
        Row("overlong UTF-8", "private/records/query%C0%AF", is: 400, "BAD_REQUEST"),
    ]

    static let callers: [Row] = [
        Row(
            "private without a user",
            "private/zones/list",
            as: nil,
            is: 421,
            "AUTHENTICATION_REQUIRED",
            "request needs authorization"
        ),
        Row("shared without a user", "shared/zones/list", as: nil, is: 421, "AUTHENTICATION_REQUIRED"),
        Row(
            "a public write without a user",
            "public/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note"}}"#, zone: "_defaultZone"),
            as: nil,
            is: 421,
            "AUTHENTICATION_REQUIRED"
        ),
        Row(
            "public zones without a user",
            "public/zones/lookup",
            #"{"zones":[]}"#,
            as: nil,
            is: 421,
            "AUTHENTICATION_REQUIRED"
        ),
        Row("the caller without a user", "public/users/caller", as: nil, by: .get, is: 421, "AUTHENTICATION_REQUIRED"),
        Row(
            "a made-up web token",
            "private/zones/list",
            as: "\u{0}",
            is: 401,
            "AUTHENTICATION_FAILED",
            "Authentication failed"
        ),
    ]
}

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

/// Zones and subscriptions that fail individually.
extension ErrorTableTests {
    static let otherItems: [Row] = [
        Row(
            "a missing zone looked up",
            "private/zones/lookup",
            #"{"zones":[{"zoneName":"Gone"}]}"#,
            is: 200,
            "ZONE_NOT_FOUND",
            in: "zones"
        ),
        Row(
            "a missing zone deleted",
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"Gone"}}}]}"#,
            is: 200,
            "ZONE_NOT_FOUND",
            in: "zones"
        ),
        Row(
            "the default zone deleted",
            "private/zones/modify",
            #"{"operations":[{"operationType":"delete","zone":{"zoneID":{"zoneName":"_defaultZone"}}}]}"#,
            is: 200,
            "BAD_REQUEST",
            in: "zones"
        ),
        Row(
            "a missing zone's changes",
            "private/changes/zone",
            #"{"zones":[{"zoneID":{"zoneName":"Gone"}}]}"#,
            is: 200,
            "ZONE_NOT_FOUND",
            in: "zones"
        ),
        Row(
            "the default zone's changes",
            "private/changes/zone",
            #"{"zones":[{"zoneID":{"zoneName":"_defaultZone"}}]}"#,
            is: 200,
            "BAD_REQUEST",
            "cannot get changes in default zone",
            in: "zones"
        ),
        Row(
            "a foreign zone token",
            "private/changes/zone",
            #"{"zones":[{"zoneID":{"zoneName":"Notes"},"syncToken":"AAAA"}]}"#,
            is: 200,
            "BAD_REQUEST",
            "client knowledge differs from server knowledge",
            in: "zones"
        ),
        Row(
            "a missing subscription",
            "private/subscriptions/lookup",
            #"{"subscriptions":[{"subscriptionID":"no"}]}"#,
            is: 200,
            "NOT_FOUND",
            in: "subscriptions"
        ),
        Row(
            "a missing subscription updated",
            "private/subscriptions/modify",
            #"{"operations":[{"operationType":"update","subscription":{"subscriptionID":"no","subscriptionType":"database"}}]}"#,
            is: 200,
            "NOT_FOUND",
            in: "subscriptions"
        ),
        Row(
            "a public zone subscription",
            "public/subscriptions/modify",
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"zone"}}]}"#,
            is: 200,
            "BAD_REQUEST",
            in: "subscriptions"
        ),
        Row(
            "a zone subscription to a type without a name",
            "private/subscriptions/modify",
            #"""
            {"operations":[{"operationType":"create","subscription":
             {"subscriptionID":"s","subscriptionType":"zone","recordType":""}}]}
            """#,
            is: 200,
            "BAD_REQUEST",
            in: "subscriptions"
        ),
        Row(
            "a public database subscription",
            "public/subscriptions/modify",
            #"{"operations":[{"operationType":"create","subscription":{"subscriptionID":"s","subscriptionType":"database"}}]}"#,
            is: 200,
            "BAD_REQUEST",
            in: "subscriptions"
        ),
    ]
}

/// Records that fail individually.
extension ErrorTableTests {
    static let recordItems: [Row] = [
        Row(
            "a missing record looked up",
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"no"}]}"#,
            is: 200,
            "NOT_FOUND",
            "Record not found",
            in: "records"
        ),
        Row(
            "created twice",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordName":"a","recordType":"Note"}}"#),
            is: 200,
            "CONFLICT",
            in: "records"
        ),
        Row(
            "a stale tag",
            "private/records/modify",
            write(#"{"operationType":"update","record":{"recordName":"a","recordChangeTag":"zz"}}"#),
            is: 200,
            "CONFLICT",
            "client oplock error updating record",
            in: "records"
        ),
        Row(
            "a stale tag deleting",
            "private/records/modify",
            write(#"{"operationType":"delete","record":{"recordName":"a","recordChangeTag":"zz"}}"#),
            is: 200,
            "CONFLICT",
            in: "records"
        ),
        Row(
            "no tag",
            "private/records/modify",
            write(#"{"operationType":"update","record":{"recordName":"a"}}"#),
            is: 200,
            "BAD_REQUEST",
            "recordChangeTag is required",
            in: "records"
        ),
        Row(
            "no tag deleting",
            "private/records/modify",
            write(#"{"operationType":"delete","record":{"recordName":"a"}}"#),
            is: 200,
            "BAD_REQUEST",
            "recordChangeTag is required",
            in: "records"
        ),
        Row(
            "a missing record updated",
            "private/records/modify",
            write(#"{"operationType":"update","record":{"recordName":"no","recordChangeTag":"1"}}"#),
            is: 200,
            "NOT_FOUND",
            in: "records"
        ),
        Row(
            "a missing record replaced",
            "private/records/modify",
            write(#"{"operationType":"replace","record":{"recordName":"no","recordChangeTag":"1"}}"#),
            is: 200,
            "NOT_FOUND",
            in: "records"
        ),
        Row(
            "a missing record deleted",
            "private/records/modify",
            write(#"{"operationType":"delete","record":{"recordName":"no","recordChangeTag":"1"}}"#),
            is: 200,
            "NOT_FOUND",
            in: "records"
        ),
        Row(
            "no type",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordName":"x"}}"#),
            is: 200,
            "BAD_REQUEST",
            "recordType",
            in: "records"
        ),
        Row(
            "another zone's record",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","zoneID":{"zoneName":"Other"}}}"#),
            is: 200,
            "BAD_REQUEST",
            "zoneID",
            in: "records"
        ),
        Row(
            "a user's record made",
            "public/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Users","recordName":"_x"}}"#,
                zone: "_defaultZone"
            ),
            is: 200,
            "ACCESS_DENIED",
            in: "records"
        ),
        Row(
            "somebody else's public record",
            "public/records/modify",
            write(
                #"{"operationType":"forceUpdate","record":{"recordName":"theirs","recordType":"Note"}}"#,
                zone: "_defaultZone"
            ),
            as: "bob",
            is: 200,
            "ACCESS_DENIED",
            in: "records"
        ),
        Row(
            "an atomic failure",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordName":"new","recordType":"Note"}},{"operationType":"delete","record":{"recordName":"no"}}"#,
                atomic: true
            ),
            is: 400,
            "ATOMIC_ERROR",
            "Atomic failure: 1 of 2 operations failed"
        ),
    ]

    static let fieldItems: [Row] = [
        Row(
            "a fractional timestamp",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"when":{"value":1.5,"type":"TIMESTAMP"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "Invalid value, expected type TIMESTAMP.",
            in: "records"
        ),
        Row(
            "a wrong type",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":"x","type":"STRING"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "invalid attempt to set value type STRING",
            in: "records"
        ),
        Row(
            "a value that is not of its type",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":"x"}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "expected type INT64",
            in: "records"
        ),
        Row(
            "bytes that are no base64",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"b":{"value":"?","type":"BYTES"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "expected type BYTES",
            in: "records"
        ),
        Row(
            "a list of lists",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"ll":{"value":[[1]]}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "ll",
            in: "records"
        ),
        Row(
            "a mixed list",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"ml":{"value":["a",1]}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "ml",
            in: "records"
        ),
        Row(
            "half a location",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"at":{"value":{"latitude":1},"type":"LOCATION"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "at",
            in: "records"
        ),
        Row(
            "encrypted in a plain field",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"n":{"value":1,"type":"INT64","isEncrypted":true}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "Attempt to save encrypted data in non encrypted field type",
            in: "records"
        ),
        Row(
            "plain in an encrypted field",
            "private/records/modify",
            write(#"{"operationType":"create","record":{"recordType":"Note","fields":{"secret":{"value":"x"}}}}"#),
            is: 200,
            "BAD_REQUEST",
            "invalid attempt to set value type ENCRYPTED_BYTES",
            in: "records"
        ),
        Row(
            "an encrypted reference",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"r2":{"value":{"recordName":"a"},"type":"REFERENCE","isEncrypted":true}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            "references and assets cannot be encrypted",
            in: "records"
        ),
        Row(
            "a hexadecimal number",
            "private/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"d2":{"value":"0x10","type":"DOUBLE"}}}}"#
            ),
            is: 200,
            "BAD_REQUEST",
            in: "records"
        ),
        Row(
            "encrypted in public",
            "public/records/modify",
            write(
                #"{"operationType":"create","record":{"recordType":"Note","fields":{"s2":{"value":"x","type":"STRING","isEncrypted":true}}}}"#,
                zone: "_defaultZone"
            ),
            is: 200,
            "BAD_REQUEST",
            "encrypted fields are not supported in the public database",
            in: "records"
        ),
    ]
}
