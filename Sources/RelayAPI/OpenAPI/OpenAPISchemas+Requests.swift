extension OpenAPISchemas {
    /// The bodies of requests.
    static let requests: [(name: String, schema: String)] = [
        (
            "ModifyRecordsRequest",
            #"""
            { "type": "object", "required": ["operations"],
              "properties": {
                "operations": { "type": "array", "minItems": 1, "maxItems": 400, "description": "At most 200, and 400 with an operationID.", "items": { "$ref": "#/components/schemas/RecordOperation" } },
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "atomic": { "type": "boolean", "default": true, "description": "Without meaning in the default zone." },
                "operationID": { "type": "string", "minLength": 1, "maxLength": 255, "description": "The client's own name for this write. Sent again under the same name after its answer was lost, it takes effect once; its creates without a recordName then make the same records." },
                "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "numbersAsStrings": { "type": "boolean", "default": false } } }
            """#
        ),
        (
            "RecordOperation",
            #"""
            { "type": "object", "required": ["operationType", "record"],
              "properties": {
                "operationType": { "type": "string", "enum": ["create", "update", "forceUpdate", "replace", "forceReplace", "delete", "forceDelete"] },
                "record": { "$ref": "#/components/schemas/RecordInput" } } }
            """#
        ),
        (
            "LookupRecordsRequest",
            #"""
            { "type": "object", "required": ["records"],
              "properties": {
                "records": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["recordName"],
                  "properties": {
                    "recordName": { "type": "string" },
                    "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } } } } },
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "numbersAsStrings": { "type": "boolean", "default": false } } }
            """#
        ),
        (
            "QueryRecordsRequest",
            #"""
            { "type": "object", "required": ["query"],
              "properties": {
                "query": { "$ref": "#/components/schemas/Query" },
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "zoneWide": { "type": "boolean", "default": false },
                "resultsLimit": { "type": "integer", "minimum": 1, "default": 200 },
                "continuationMarker": { "type": "string", "format": "byte" },
                "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "numbersAsStrings": { "type": "boolean", "default": false } } }
            """#
        ),
        (
            "RecordChangesRequest",
            #"""
            { "type": "object", "required": ["zoneID"],
              "properties": {
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "syncToken": { "type": "string", "format": "byte", "description": "Absent: from the beginning." },
                "resultsLimit": { "type": "integer", "minimum": 1, "default": 200 },
                "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "desiredRecordTypes": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "reverse": { "type": "boolean", "default": false },
                "countRemaining": { "type": "boolean", "default": false, "description": "Ours: with the answer's remaining." },
                "numbersAsStrings": { "type": "boolean", "default": false } } }
            """#
        ),
        (
            "ZoneChangesRequest",
            #"""
            { "type": "object", "required": ["zones"], "description": "What stands outside zones is the default for each.",
              "properties": {
                "zones": { "type": "array", "maxItems": 200, "items": { "$ref": "#/components/schemas/RecordChangesRequest" } },
                "resultsLimit": { "type": "integer", "minimum": 1, "default": 200 },
                "desiredKeys": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "desiredRecordTypes": { "type": "array", "nullable": true, "items": { "type": "string" } },
                "reverse": { "type": "boolean", "default": false },
                "countRemaining": { "type": "boolean", "default": false, "description": "Ours: with the answer's remaining." },
                "numbersAsStrings": { "type": "boolean", "default": false } } }
            """#
        ),
        (
            "DatabaseChangesRequest",
            #"""
            { "type": "object",
              "properties": {
                "syncToken": { "type": "string", "format": "byte", "description": "Absent: every zone." },
                "resultsLimit": { "type": "integer", "minimum": 1, "default": 200 },
                "schemaVersion": { "type": "boolean", "default": false, "description": "The answer tells the schema's version." } } }
            """#
        ),
        (
            "ChangedZonesRequest",
            #"""
            { "type": "object",
              "properties": {
                "metaSyncToken": { "type": "string", "format": "byte", "description": "Absent: every zone." },
                "resultsLimit": { "type": "integer", "minimum": 1, "default": 200 } } }
            """#
        ),
        (
            "LookupZonesRequest",
            #"""
            { "type": "object", "required": ["zones"],
              "properties": { "zones": { "type": "array", "maxItems": 200, "items": { "$ref": "#/components/schemas/ZoneIDInput" } } } }
            """#
        ),
        (
            "ModifyZonesRequest",
            #"""
            { "type": "object", "required": ["operations"],
              "properties": {
                "operationID": { "type": "string", "minLength": 1, "maxLength": 255, "description": "As in records/modify: what has taken effect is not done again." },
                "operations": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["operationType", "zone"],
                "properties": {
                  "operationType": { "type": "string", "enum": ["create", "delete", "leave"], "description": "Zones of the shared database can only be left, which is this relay's own: the caller gives up all that is shared with them there." },
                  "reason": { "type": "string", "enum": ["purged", "encryptedDataReset"], "description": "With a deletion: what the user's other devices are told of why." },
                  "zone": { "type": "object", "required": ["zoneID"], "properties": { "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" } } } } } } } }
            """#
        ),
        (
            "LookupSubscriptionsRequest",
            #"""
            { "type": "object", "required": ["subscriptions"],
              "properties": { "subscriptions": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["subscriptionID"],
                "properties": { "subscriptionID": { "type": "string" } } } } } }
            """#
        ),
        (
            "ModifySubscriptionsRequest",
            #"""
            { "type": "object", "required": ["operations"],
              "properties": { "operations": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["operationType", "subscription"],
                "properties": {
                  "operationType": { "type": "string", "enum": ["create", "update", "delete"] },
                  "subscription": { "$ref": "#/components/schemas/Subscription" } } } } } }
            """#
        ),
        (
            "RequestUploadsRequest",
            #"""
            { "type": "object", "required": ["tokens"],
              "properties": {
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "tokens": { "type": "array", "maxItems": 200, "items": {
                  "type": "object", "required": ["recordType", "fieldName"],
                  "properties": {
                    "recordName": { "type": "string", "minLength": 1, "maxLength": 255, "description": "Made by the relay if absent." },
                    "recordType": { "type": "string" },
                    "fieldName": { "type": "string" } } } } } }
            """#
        ),
        (
            "RereferenceAssetsRequest",
            #"""
            { "type": "object", "required": ["assets"],
              "properties": {
                "zoneID": { "$ref": "#/components/schemas/ZoneIDInput" },
                "assets": { "type": "array", "maxItems": 200, "items": {
                  "type": "object", "required": ["recordName", "fieldName"],
                  "properties": {
                    "recordName": { "type": "string" },
                    "fieldName": { "type": "string" } } } } } }
            """#
        ),
        (
            "CreateTokenRequest",
            #"""
            { "type": "object",
              "properties": {
                "apnsEnvironment": { "type": "string", "enum": ["development", "production"] },
                "clientId": { "type": "string", "description": "Not looked at." } } }
            """#
        ),
        (
            "RegisterTokenRequest",
            #"""
            { "type": "object", "required": ["apnsToken"],
              "properties": {
                "apnsEnvironment": { "type": "string", "enum": ["development", "production"] },
                "apnsToken": { "type": "string" },
                "clientId": { "type": "string", "description": "Not looked at." } } }
            """#
        ),
        (
            "DiscoverUsersRequest",
            #"""
            { "type": "object", "required": ["lookupInfos"],
              "properties": { "lookupInfos": { "type": "array", "maxItems": 200, "items": { "$ref": "#/components/schemas/LookupInfo" } } } }
            """#
        ),
        (
            "LookupUsersByEmailRequest",
            #"""
            { "type": "object", "required": ["users"],
              "properties": { "users": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["emailAddress"],
                "properties": { "emailAddress": { "type": "string" } } } } } }
            """#
        ),
        (
            "LookupUsersByRecordNameRequest",
            #"""
            { "type": "object", "required": ["users"],
              "properties": { "users": { "type": "array", "maxItems": 200, "items": { "type": "object", "required": ["userRecordName"],
                "properties": { "userRecordName": { "type": "string" } } } } } }
            """#
        ),
        (
            "DiscoverabilityRequest",
            #"""
            { "type": "object",
              "properties": { "isDiscoverable": { "type": "boolean", "description": "Absent: only tell." } } }
            """#
        ),
        (
            "SignInRequest",
            #"""
            { "anyOf": [{ "required": ["identityToken"] }, { "required": ["emailAddress", "password"] }],
              "properties": {
                "identityToken": { "type": "string", "description": "A JWT." },
                "emailAddress": { "type": "string" }, "password": { "type": "string" },
                "keepSignedIn": { "type": "boolean", "default": false } } }
            """#
        ),
    ]
}
