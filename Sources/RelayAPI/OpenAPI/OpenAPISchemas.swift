/// The schemas of the description, each as its JSON.
enum OpenAPISchemas {
    static let all: [(name: String, schema: String)] = common + values + requests + answers + sharing + pushes

    /// Whether an object of this schema has to have members, so that a request needs a body.
    static func needsMembers(_ name: String) -> Bool {
        all.first { $0.name == name }.map { $0.schema.prefix(80).contains("\"required\"") } ?? true
    }

    private static let common: [(name: String, schema: String)] = [
        ("Empty", #"{ "type": "object", "description": "Needs no members." }"#),
        (
            "ErrorCode",
            #"""
            { "type": "string",
              "enum": ["ACCESS_DENIED", "ATOMIC_ERROR", "AUTHENTICATION_FAILED", "AUTHENTICATION_REQUIRED", "BAD_REQUEST", "CONFLICT", "EXISTS", "INTERNAL_ERROR", "NOT_FOUND", "QUOTA_EXCEEDED", "THROTTLED", "TRY_AGAIN_LATER", "UNIQUE_FIELD_ERROR", "VALIDATING_REFERENCE_ERROR", "ZONE_NOT_FOUND"] }
            """#
        ),
        (
            "FineErrorCode",
            #"""
            { "type": "string", "description": "This relay's own, where CloudKit has no code.",
              "enum": ["CHANGE_TOKEN_EXPIRED", "LIMIT_EXCEEDED", "USER_DELETED_ZONE", "ZONE_BUSY", "ALREADY_SHARED", "TOO_MANY_PARTICIPANTS", "PARTICIPANT_MAY_NEED_VERIFICATION", "PARTICIPANT_ALREADY_INVITED", "SERVER_RESPONSE_LOST"] }
            """#
        ),
        (
            "Error",
            #"""
            { "type": "object", "required": ["uuid", "serverErrorCode", "reason"],
              "properties": {
                "uuid": { "type": "string", "description": "Names the request in the relay's log." },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string", "description": "What a person can do about it." },
                "ckErrorCode": { "$ref": "#/components/schemas/FineErrorCode" },
                "retryAfter": { "type": "number", "description": "Seconds; absent where trying again does not help." },
                "redirectURL": { "type": "string", "description": "Where to sign in." } } }
            """#
        ),
        (
            "ZoneID",
            #"""
            { "type": "object", "required": ["zoneName"],
              "properties": {
                "zoneName": { "type": "string" },
                "ownerRecordName": { "type": "string", "description": "Whose zone it is; the caller's if absent or empty." },
                "zoneType": { "type": "string", "enum": ["DEFAULT_ZONE", "REGULAR_CUSTOM_ZONE"], "description": "Only in answers." } } }
            """#
        ),
        (
            "ZoneIDInput",
            #"""
            { "type": "object", "required": ["zoneName"],
              "properties": {
                "zoneName": { "type": "string", "pattern": "^(_defaultZone|[ -^`-~][ -~]{0,254})$", "description": "_defaultZone, or 1 to 255 printable ASCII characters without a leading underscore." },
                "ownerRecordName": { "type": "string", "description": "Whose zone it is; the caller's if absent or empty." } } }
            """#
        ),
        (
            "Zone",
            #"""
            { "type": "object", "required": ["zoneID"],
              "properties": {
                "zoneID": { "$ref": "#/components/schemas/ZoneID" },
                "syncToken": { "type": "string", "format": "byte", "description": "The end of the zone's history; absent where none is kept." },
                "atomic": { "type": "boolean" },
                "isEligibleForZoneShare": { "type": "boolean" },
                "isEligibleForHierarchicalShare": { "type": "boolean" },
                "share": { "type": "object", "properties": { "recordName": { "type": "string" } }, "description": "The zone-wide share, of a zone that has one." },
                "deleted": { "type": "boolean", "description": "True for a zone that has ended." },
                "reason": { "type": "string", "enum": ["purged", "encryptedDataReset"], "description": "With deleted, why: the user erased the application's data (what was never sent is not to make the zone anew), or nobody can read any more what is encrypted in it (send all of it again). Absent for a plain deletion." } } }
            """#
        ),
        (
            "ZoneFailure",
            #"""
            { "type": "object", "required": ["zoneID", "serverErrorCode", "reason"],
              "properties": {
                "zoneID": { "$ref": "#/components/schemas/ZoneID" },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string" },
                "ckErrorCode": { "$ref": "#/components/schemas/FineErrorCode" },
                "retryAfter": { "type": "number" } } }
            """#
        ),
        (
            "NameComponents",
            #"""
            { "type": "object",
              "properties": {
                "namePrefix": { "type": "string" }, "givenName": { "type": "string" }, "middleName": { "type": "string" },
                "familyName": { "type": "string" }, "nameSuffix": { "type": "string" }, "nickname": { "type": "string" } } }
            """#
        ),
        (
            "LookupInfo",
            #"""
            { "type": "object",
              "anyOf": [ { "required": ["emailAddress"] }, { "required": ["phoneNumber"] }, { "required": ["userRecordName"] } ],
              "properties": {
                "emailAddress": { "type": "string" }, "phoneNumber": { "type": "string" }, "userRecordName": { "type": "string" } } }
            """#
        ),
        (
            "UserIdentity",
            #"""
            { "type": "object", "required": ["userRecordName"],
              "properties": {
                "userRecordName": { "type": "string" },
                "nameComponents": { "$ref": "#/components/schemas/NameComponents" },
                "lookupInfo": { "$ref": "#/components/schemas/LookupInfo" } } }
            """#
        ),
        (
            "User",
            #"""
            { "type": "object", "required": ["userRecordName"],
              "properties": {
                "userRecordName": { "type": "string" },
                "firstName": { "type": "string", "nullable": true },
                "lastName": { "type": "string", "nullable": true },
                "emailAddress": { "type": "string" } } }
            """#
        ),
        (
            "NoticePayload",
            #"""
            { "type": "object", "description": "What a CloudKit push carries. One of met, fet and qry says what has changed.",
              "properties": {
                "aps": { "type": "object", "description": "What is to be shown; content-available alone for a silent notice." },
                "ck": { "type": "object", "required": ["cid", "nid"],
                  "properties": {
                    "cid": { "type": "string", "description": "The container." },
                    "ce": { "type": "integer", "description": "1 production, 2 development." },
                    "nid": { "type": "string", "description": "Names the notice." },
                    "ckuserid": { "type": "string" },
                    "p": { "type": "integer", "description": "Present where something was left out for its size." },
                    "met": { "$ref": "#/components/schemas/NoticeSubject" },
                    "fet": { "$ref": "#/components/schemas/NoticeSubject" },
                    "qry": { "$ref": "#/components/schemas/NoticeSubject" } } },
                "syncToken": { "type": "string", "format": "byte", "description": "The zone's token after the change." } } }
            """#
        ),
        (
            "NoticeSubject",
            #"""
            { "type": "object", "required": ["dbs", "sid"],
              "properties": {
                "dbs": { "type": "integer", "enum": [1, 2, 3], "description": "1 public, 2 private, 3 shared." },
                "sid": { "type": "string", "description": "The subscription." },
                "zid": { "type": "string", "description": "The zone's name; absent: ask the whole database." },
                "zoid": { "type": "string", "description": "The zone's owner." },
                "rid": { "type": "string", "description": "Of qry: the record." },
                "fo": { "type": "integer", "enum": [1, 2, 3], "description": "Of qry: 1 created, 2 updated, 3 deleted." },
                "af": { "type": "object", "description": "Of qry: the fields asked for." } } }
            """#
        ),
    ]
}
