extension OpenAPISchemas {
    /// Records and what is in them.
    static let values: [(name: String, schema: String)] = [
        (
            "FieldType",
            #"""
            { "type": "string",
              "enum": ["STRING", "INT64", "DOUBLE", "TIMESTAMP", "BYTES", "REFERENCE", "LOCATION", "ASSETID", "STRING_LIST", "INT64_LIST", "DOUBLE_LIST", "TIMESTAMP_LIST", "BYTES_LIST", "REFERENCE_LIST", "LOCATION_LIST", "ASSETID_LIST"] }
            """#
        ),
        (
            "Field",
            #"""
            { "type": "object",
              "description": "The value by type: a string; an integer; a number; milliseconds since 1970; base64; a Reference; a Location; an Asset; an array of one of these. null clears the field.",
              "properties": {
                "value": { "nullable": true },
                "type": { "$ref": "#/components/schemas/FieldType" },
                "isEncrypted": { "type": "boolean" } } }
            """#
        ),
        (
            "Fields",
            ##"{ "type": "object", "additionalProperties": { "$ref": "#/components/schemas/Field" } }"##
        ),
        (
            "Reference",
            #"""
            { "type": "object", "required": ["recordName"],
              "properties": {
                "recordName": { "type": "string" },
                "action": { "type": "string", "enum": ["NONE", "DELETE_SELF", "VALIDATE"] },
                "zoneID": { "$ref": "#/components/schemas/ZoneID" } } }
            """#
        ),
        (
            "Location",
            #"""
            { "type": "object", "required": ["latitude", "longitude"],
              "properties": {
                "latitude": { "type": "number" }, "longitude": { "type": "number" },
                "horizontalAccuracy": { "type": "number" }, "verticalAccuracy": { "type": "number" },
                "altitude": { "type": "number" }, "speed": { "type": "number" }, "course": { "type": "number" },
                "timestamp": { "type": "integer", "format": "int64" } } }
            """#
        ),
        (
            "Asset",
            #"""
            { "type": "object", "required": ["fileChecksum", "size"],
              "properties": {
                "fileChecksum": { "type": "string" },
                "size": { "type": "integer", "format": "int64", "minimum": 0 },
                "receipt": { "type": "string", "description": "From the upload; needed once, to save it." },
                "referenceChecksum": { "type": "string" },
                "wrappingKey": { "type": "string" },
                "downloadURL": { "type": "string", "description": "Only in answers; good for some time." } } }
            """#
        ),
        (
            "Stamp",
            #"""
            { "type": "object", "required": ["timestamp", "userRecordName", "deviceID"],
              "properties": {
                "timestamp": { "type": "integer", "format": "int64", "description": "Milliseconds since 1970." },
                "userRecordName": { "type": "string" },
                "deviceID": { "type": "string" } } }
            """#
        ),
        (
            "RecordInput",
            #"""
            { "type": "object",
              "properties": {
                "recordName": { "type": "string", "minLength": 1, "maxLength": 255, "description": "Printable ASCII; made by the relay if absent. A create without a name makes another record each time it is sent: who may have to send it again after a lost answer gives a name here, or an operationID beside operations." },
                "recordType": { "type": "string", "description": "Needed where the record may have to be created." },
                "recordChangeTag": { "type": "string", "description": "Needed to update, replace and delete." },
                "fields": { "$ref": "#/components/schemas/Fields" },
                "parent": { "$ref": "#/components/schemas/Reference" },
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "createShortGUID": { "type": "boolean", "default": false, "description": "Makes the link that a share of this record will have." },
                "forRecord": { "type": "object", "required": ["recordName"], "description": "Of a new cloudkit.share record: the root of what it shares; absent, the whole zone.",
                  "properties": { "recordName": { "type": "string" }, "recordChangeTag": { "type": "string" } } },
                "publicPermission": { "type": "string", "enum": ["NONE", "READ_ONLY", "READ_WRITE"] },
                "participants": { "type": "array", "maxItems": 101, "items": { "$ref": "#/components/schemas/ParticipantInput" }, "description": "Of a cloudkit.share record: all who shall be in it." },
                "accessRequests": { "$ref": "#/components/schemas/AccessRequestsInput" },
                "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } } } }
            """#
        ),
        (
            "Record",
            #"""
            { "type": "object", "required": ["recordName"],
              "description": "A record, a tombstone (deleted is true), or why it failed (serverErrorCode is there).",
              "properties": {
                "recordName": { "type": "string" },
                "recordType": { "type": "string" },
                "recordChangeTag": { "type": "string" },
                "fields": { "$ref": "#/components/schemas/Fields" },
                "pluginFields": { "type": "object" },
                "created": { "$ref": "#/components/schemas/Stamp" },
                "modified": { "$ref": "#/components/schemas/Stamp" },
                "zoneID": { "$ref": "#/components/schemas/ZoneID" },
                "parent": { "$ref": "#/components/schemas/Reference" },
                "deleted": { "type": "boolean" },
                "movedTo": { "type": "string", "description": "Of a tombstone, for the zone's owner: the name of the owner's zone that the record was moved to." },
                "shortGUID": { "type": "string" },
                "stableUrl": { "type": "object" },
                "share": { "type": "object", "description": "Of a root: the record of its share." },
                "rootRecord": { "type": "object", "description": "Of a cloudkit.share record: the root of what it shares." },
                "url": { "type": "string", "description": "Of a cloudkit.share record: its link." },
                "publicPermission": { "$ref": "#/components/schemas/SharePermission" },
                "participants": { "type": "array", "items": { "$ref": "#/components/schemas/Participant" } },
                "accessRequests": { "$ref": "#/components/schemas/AccessRequests" },
                "owner": { "$ref": "#/components/schemas/Participant" },
                "currentUserParticipant": { "$ref": "#/components/schemas/Participant" },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string" },
                "ckErrorCode": { "$ref": "#/components/schemas/FineErrorCode" },
                "retryAfter": { "type": "number" },
                "uuid": { "type": "string", "description": "Of a record that failed: the request's." },
                "serverRecord": { "$ref": "#/components/schemas/Record" } } }
            """#
        ),
        (
            "Comparator",
            #"""
            { "type": "string",
              "enum": ["EQUALS", "NOT_EQUALS", "LESS_THAN", "LESS_THAN_OR_EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUALS", "NEAR", "CONTAINS_ALL_TOKENS", "CONTAINS_ANY_TOKENS", "IN", "NOT_IN", "LIST_CONTAINS", "NOT_LIST_CONTAINS", "LIST_CONTAINS_ANY", "NOT_LIST_CONTAINS_ANY", "LIST_CONTAINS_ALL", "NOT_LIST_CONTAINS_ALL", "BEGINS_WITH", "NOT_BEGINS_WITH", "LIST_MEMBER_BEGINS_WITH", "NOT_LIST_MEMBER_BEGINS_WITH"] }
            """#
        ),
        (
            "Filter",
            #"""
            { "type": "object", "required": ["comparator", "fieldValue"],
              "properties": {
                "comparator": { "$ref": "#/components/schemas/Comparator" },
                "fieldName": { "type": "string", "description": "May be left out for tokens: then all searchable fields." },
                "fieldValue": { "$ref": "#/components/schemas/Field" },
                "distance": { "type": "number", "minimum": 0, "description": "Metres, for NEAR." } } }
            """#
        ),
        (
            "Sort",
            #"""
            { "type": "object", "required": ["fieldName"],
              "properties": {
                "fieldName": { "type": "string" },
                "ascending": { "type": "boolean", "default": true },
                "relativeLocation": { "description": "A field value or a bare location: sorts by the distance from it.",
                  "anyOf": [
                    { "$ref": "#/components/schemas/Location" },
                    { "type": "object", "required": ["value"],
                      "properties": {
                        "value": { "$ref": "#/components/schemas/Location" },
                        "type": { "type": "string", "enum": ["LOCATION"] } } }] } } }
            """#
        ),
        (
            "Query",
            #"""
            { "type": "object", "required": ["recordType"],
              "properties": {
                "recordType": { "type": "string" },
                "filterBy": { "type": "array", "maxItems": 16, "items": { "$ref": "#/components/schemas/Filter" } },
                "sortBy": { "type": "array", "maxItems": 4, "items": { "$ref": "#/components/schemas/Sort" } } } }
            """#
        ),
        (
            "NotificationInfo",
            #"""
            { "type": "object", "description": "How notices look; without it they are silent.",
              "properties": {
                "alertBody": { "type": "string" }, "alertLocalizationKey": { "type": "string" },
                "alertLocalizationArgs": { "type": "array", "items": { "type": "string" }, "description": "Fields whose values go into the text." },
                "title": { "type": "string" }, "titleLocalizationKey": { "type": "string" },
                "titleLocalizationArgs": { "type": "array", "items": { "type": "string" } },
                "subtitle": { "type": "string" }, "subtitleLocalizationKey": { "type": "string" },
                "subtitleLocalizationArgs": { "type": "array", "items": { "type": "string" } },
                "alertActionLocalizationKey": { "type": "string" }, "alertLaunchImage": { "type": "string" },
                "soundName": { "type": "string" }, "category": { "type": "string" },
                "shouldBadge": { "type": "boolean" }, "shouldSendContentAvailable": { "type": "boolean" },
                "shouldSendMutableContent": { "type": "boolean" },
                "additionalFields": { "type": "array", "items": { "type": "string" }, "description": "Fields whose values the notice carries." },
                "desiredKeys": { "type": "array", "items": { "type": "string" }, "description": "The same." } } }
            """#
        ),
        (
            "Subscription",
            #"""
            { "type": "object", "required": ["subscriptionID"],
              "description": "A subscription, one that has ended (deleted is true), or why it failed (serverErrorCode is there).",
              "properties": {
                "subscriptionID": { "type": "string" },
                "subscriptionType": { "type": "string", "enum": ["query", "zone", "database"] },
                "zoneID": { "$ref": "#/components/schemas/ZoneID" },
                "recordType": { "type": "string", "description": "Of a zone or a database: the one type that the client cares for. Kept and given back; notices tell of every type." },
                "zoneWide": { "type": "boolean", "description": "Of a query: every zone. True by default where no zone is named." },
                "query": { "$ref": "#/components/schemas/Query" },
                "firesOn": { "type": "array", "items": { "type": "string", "enum": ["create", "update", "delete"] } },
                "firesOnce": { "type": "boolean", "default": false },
                "notificationInfo": { "$ref": "#/components/schemas/NotificationInfo" },
                "deleted": { "type": "boolean" },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string" } } }
            """#
        ),
    ]
}
