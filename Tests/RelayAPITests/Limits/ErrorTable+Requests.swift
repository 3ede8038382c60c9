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
