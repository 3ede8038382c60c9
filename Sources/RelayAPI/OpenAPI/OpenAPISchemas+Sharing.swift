extension OpenAPISchemas {
    /// The schemas of sharing.
    static let sharing: [(name: String, schema: String)] = [
        ("SharePermission", #"{ "type": "string", "enum": ["NONE", "READ_ONLY", "READ_WRITE", "UNKNOWN"] }"#),
        (
            "ParticipantInput",
            #"""
            { "type": "object",
              "properties": {
                "participantId": { "type": "string", "description": "Of one who is there already; with oneTimeLink the number to be given." },
                "oneTimeLink": { "type": "boolean", "default": false, "description": "This relay's own: whoever first opens the participant's invitationURL." },
                "type": { "type": "string", "enum": ["OWNER", "ADMINISTRATOR", "USER", "PUBLIC_USER", "UNKNOWN"] },
                "permission": { "$ref": "#/components/schemas/SharePermission" },
                "acceptanceStatus": { "type": "string", "enum": ["INVITED", "PENDING", "ACCEPTED", "REMOVED", "UNKNOWN"] },
                "userIdentity": { "type": "object",
                  "properties": { "userRecordName": { "type": "string" }, "lookupInfo": { "$ref": "#/components/schemas/LookupInfo" } } } } }
            """#
        ),
        (
            "Participant",
            #"""
            { "type": "object", "required": ["participantId", "type", "permission", "acceptanceStatus", "userIdentity"],
              "properties": {
                "participantId": { "type": "string" },
                "type": { "type": "string", "enum": ["OWNER", "ADMINISTRATOR", "USER", "PUBLIC_USER"] },
                "permission": { "$ref": "#/components/schemas/SharePermission" },
                "acceptanceStatus": { "type": "string", "enum": ["INVITED", "ACCEPTED"] },
                "userIdentity": { "type": "object",
                  "properties": {
                    "userRecordName": { "type": "string" },
                    "nameComponents": { "type": "object" },
                    "lookupInfo": { "type": "object" } } },
                "dateAdded": { "type": "integer", "description": "This relay's own: milliseconds since 1970." },
                "isApprovedRequester": { "type": "boolean", "description": "This relay's own: they came by asking." },
                "oneTimeLink": { "type": "boolean" },
                "invitationURL": { "type": "string", "description": "This relay's own, for the owner: a link for this participant alone, whatever address their account has." } } }
            """#
        ),
        (
            "AccessRequestsInput",
            #"""
            { "type": "object",
              "properties": {
                "allowed": { "type": "boolean" },
                "deny": { "type": "array", "items": { "type": "string" }, "description": "Record names of users." },
                "block": { "type": "array", "items": { "type": "string" } },
                "unblock": { "type": "array", "items": { "type": "string" } } } }
            """#
        ),
        (
            "AccessRequests",
            #"""
            { "type": "object", "required": ["allowed", "requesters", "blocked"],
              "properties": {
                "allowed": { "type": "boolean" },
                "requesters": { "type": "array", "items": { "type": "object" } },
                "blocked": { "type": "array", "items": { "type": "object" } } } }
            """#
        ),
        (
            "ShareLinksRequest",
            #"""
            { "type": "object", "required": ["shortGUIDs"],
              "properties": {
                "shortGUIDs": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["value"],
                  "properties": {
                    "value": { "type": "string", "description": "The last part of a share's link." },
                    "shouldFetchRootRecord": { "type": "boolean", "default": false },
                    "rootRecordDesiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } } } } },
                "numbersAsStrings": { "type": "boolean", "default": false } } }
            """#
        ),
        (
            "MoveRecordsRequest",
            #"""
            { "type": "object", "required": ["destinationZoneID"],
              "anyOf": [{ "required": ["records"] }, { "required": ["allRecords"], "properties": { "allRecords": { "enum": [true] } } }],
              "properties": {
                "operationID": { "type": "string", "minLength": 1, "maxLength": 255, "description": "The client's own name for this move. Sent again under the same name after its answer was lost, it moves nothing again." },
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "destinationZoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "records": { "type": "array", "maxItems": 10000, "items": { "type": "object", "required": ["recordName"],
                  "properties": { "recordName": { "type": "string" }, "recordChangeTag": { "type": "string" } } } },
                "allRecords": { "type": "boolean", "default": false, "description": "Instead of records: all but those of type cloudkit.share." },
                "createDestination": { "type": "boolean", "default": false },
                "deleteSource": { "type": "boolean", "default": false, "description": "Ends its shares too." } } }
            """#
        ),
        (
            "MoveRecordsResponse",
            #"""
            { "type": "object", "required": ["records", "source", "destination"],
              "properties": {
                "records": { "type": "array", "items": { "type": "object", "required": ["recordName"],
                  "description": "Of a repeated move a record that has left the destination since comes with deleted alone.",
                  "properties": { "recordName": { "type": "string" }, "recordType": { "type": "string" }, "recordChangeTag": { "type": "string" }, "deleted": { "type": "boolean", "enum": [true] } } } },
                "source": { "$ref": "#/components/schemas/Zone" },
                "destination": { "$ref": "#/components/schemas/Zone" } } }
            """#
        ),
        (
            "ShareLinksResponse",
            #"""
            { "type": "object", "required": ["results"],
              "properties": { "results": { "type": "array", "items": { "$ref": "#/components/schemas/ShareLinkResult" } } } }
            """#
        ),
        (
            "ShareLinkResult",
            #"""
            { "type": "object", "required": ["shortGUID"],
              "description": "What a link leads to, or why it does not (serverErrorCode is there).",
              "properties": {
                "shortGUID": { "type": "object", "required": ["value"],
                  "properties": { "value": { "type": "string" }, "shouldFetchRootRecord": { "type": "boolean" } } },
                "containerIdentifier": { "type": "string" },
                "environment": { "type": "string", "enum": ["development", "production"] },
                "databaseScope": { "type": "string", "enum": ["PRIVATE", "SHARED"], "description": "Where the caller finds the zone." },
                "zoneID": { "$ref": "#/components/schemas/ZoneID" },
                "rootRecordName": { "type": "string" },
                "rootRecord": { "$ref": "#/components/schemas/Record" },
                "share": { "$ref": "#/components/schemas/Record" },
                "ownerIdentity": { "type": "object" },
                "participantType": { "type": "string", "enum": ["OWNER", "ADMINISTRATOR", "USER", "PUBLIC_USER", "UNKNOWN"] },
                "participantStatus": { "type": "string", "enum": ["INVITED", "ACCEPTED", "UNKNOWN"] },
                "participantPermission": { "$ref": "#/components/schemas/SharePermission" },
                "potentialMatchList": { "type": "array", "items": { "type": "object" }, "description": "Invitations of which one may be the caller's." },
                "webpageURL": { "type": "string", "nullable": true },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string" },
                "ckErrorCode": { "$ref": "#/components/schemas/FineErrorCode" } } }
            """#
        ),
    ]
}
