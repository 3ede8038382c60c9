extension OpenAPISchemas {
    /// The bodies of answers.
    static let answers: [(name: String, schema: String)] = [
        (
            "ModifyRecordsResponse",
            #"""
            { "type": "object", "required": ["records"],
              "properties": {
                "records": { "type": "array", "items": { "$ref": "#/components/schemas/Record" }, "description": "In the order of the operations." },
                "syncToken": { "type": "string", "format": "byte" } } }
            """#
        ),
        (
            "AtomicFailure",
            #"""
            { "type": "object", "required": ["uuid", "serverErrorCode", "reason"],
              "description": "An Error; where an atomic request failed, each operation's own failure besides.",
              "properties": {
                "uuid": { "type": "string" },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string" },
                "ckErrorCode": { "$ref": "#/components/schemas/FineErrorCode" },
                "records": { "type": "array", "items": { "$ref": "#/components/schemas/Record" } } } }
            """#
        ),
        (
            "RecordsResponse",
            #"""
            { "type": "object", "required": ["records"],
              "properties": { "records": { "type": "array", "items": { "$ref": "#/components/schemas/Record" } } } }
            """#
        ),
        (
            "QueryRecordsResponse",
            #"""
            { "type": "object", "required": ["records"],
              "properties": {
                "records": { "type": "array", "maxItems": 200, "items": { "$ref": "#/components/schemas/Record" } },
                "continuationMarker": { "type": "string", "format": "byte", "description": "Only where there is more." } } }
            """#
        ),
        (
            "RecordChangesResponse",
            #"""
            { "type": "object", "required": ["records", "syncToken", "moreComing"],
              "properties": {
                "records": { "type": "array", "maxItems": 200, "items": { "$ref": "#/components/schemas/Record" } },
                "syncToken": { "type": "string", "format": "byte" },
                "remaining": { "type": "integer", "description": "Where it was asked for, and they are not too many to count: records after this page." },
                "moreComing": { "type": "boolean" } } }
            """#
        ),
        (
            "ZoneChangesResponse",
            #"""
            { "type": "object", "required": ["zones"],
              "properties": { "zones": { "type": "array", "items": { "$ref": "#/components/schemas/ZoneChanges" } } } }
            """#
        ),
        (
            "ZoneChanges",
            #"""
            { "type": "object", "required": ["zoneID"], "description": "A page of a zone's changes, or why it failed (serverErrorCode is there).",
              "properties": {
                "zoneID": { "$ref": "#/components/schemas/ZoneID" },
                "records": { "type": "array", "maxItems": 200, "items": { "$ref": "#/components/schemas/Record" } },
                "syncToken": { "type": "string", "format": "byte" },
                "remaining": { "type": "integer", "description": "Where it was asked for, and they are not too many to count: records after this page." },
                "moreComing": { "type": "boolean" },
                "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                "reason": { "type": "string" },
                "ckErrorCode": { "$ref": "#/components/schemas/FineErrorCode" },
                "formerZone": { "type": "object", "description": "With CHANGE_TOKEN_EXPIRED, where the token is of an earlier zone of this name: how that one ended, in the words of Zone.", "properties": { "deleted": { "type": "boolean" }, "reason": { "type": "string", "enum": ["purged", "encryptedDataReset"] } } } } }
            """#
        ),
        (
            "ZonesResponse",
            #"""
            { "type": "object", "required": ["zones"],
              "properties": { "zones": { "type": "array", "items": { "anyOf": [ { "$ref": "#/components/schemas/Zone" }, { "$ref": "#/components/schemas/ZoneFailure" } ] } } } }
            """#
        ),
        (
            "DatabaseChangesResponse",
            #"""
            { "type": "object", "required": ["zones", "syncToken", "moreComing"],
              "properties": {
                "zones": { "type": "array", "items": { "$ref": "#/components/schemas/Zone" } },
                "syncToken": { "type": "string", "format": "byte" },
                "moreComing": { "type": "boolean" },
                "schemaVersion": { "type": "integer", "description": "Only if asked for: another one than before means that a refused write is worth another try." } } }
            """#
        ),
        (
            "ChangedZonesResponse",
            #"""
            { "type": "object", "required": ["zones", "metaSyncToken", "moreComing"],
              "properties": {
                "zones": { "type": "array", "items": { "$ref": "#/components/schemas/Zone" } },
                "metaSyncToken": { "type": "string", "format": "byte" },
                "moreComing": { "type": "boolean" } } }
            """#
        ),
        (
            "SubscriptionsResponse",
            #"""
            { "type": "object", "required": ["subscriptions"],
              "properties": { "subscriptions": { "type": "array", "items": { "$ref": "#/components/schemas/Subscription" } } } }
            """#
        ),
        (
            "RequestUploadsResponse",
            #"""
            { "type": "object", "required": ["tokens"],
              "properties": {
                "tokens": { "type": "array", "items": {
                  "type": "object", "required": ["recordName", "fieldName", "url"],
                  "properties": {
                    "recordName": { "type": "string" },
                    "fieldName": { "type": "string" },
                    "url": { "type": "string", "format": "uri", "description": "POST or PUT the content here." } } } } } }
            """#
        ),
        (
            "UploadResponse",
            #"""
            { "type": "object", "required": ["singleFile"],
              "properties": { "singleFile": { "$ref": "#/components/schemas/Asset" } } }
            """#
        ),
        (
            "RereferenceAssetsResponse",
            #"""
            { "type": "object", "required": ["assets"],
              "properties": {
                "assets": { "type": "array", "items": {
                  "type": "object", "required": ["recordName", "fieldName"],
                  "properties": {
                    "recordName": { "type": "string" },
                    "fieldName": { "type": "string" },
                    "fileChecksum": { "type": "string" },
                    "size": { "type": "integer", "format": "int64" },
                    "receipt": { "type": "string" },
                    "serverErrorCode": { "$ref": "#/components/schemas/ErrorCode" },
                    "reason": { "type": "string" } } } } } }
            """#
        ),
        (
            "CreateTokenResponse",
            #"""
            { "type": "object", "required": ["apnsEnvironment", "apnsToken", "webcourierURL"],
              "properties": {
                "apnsEnvironment": { "type": "string", "enum": ["development", "production"] },
                "apnsToken": { "type": "string", "description": "Good for 30 days." },
                "webcourierURL": { "type": "string", "format": "uri" } } }
            """#
        ),
        (
            "CallerResponse",
            #"""
            { "type": "object", "required": ["userRecordName", "users"],
              "properties": {
                "userRecordName": { "type": "string" },
                "nameComponents": { "$ref": "#/components/schemas/NameComponents" },
                "users": { "type": "array", "items": { "$ref": "#/components/schemas/UserIdentity" } } } }
            """#
        ),
        (
            "IdentitiesResponse",
            #"""
            { "type": "object", "required": ["users"],
              "properties": { "users": { "type": "array", "items": { "$ref": "#/components/schemas/UserIdentity" } } } }
            """#
        ),
        (
            "UsersResponse",
            #"""
            { "type": "object", "required": ["users"],
              "properties": { "users": { "type": "array", "items": { "$ref": "#/components/schemas/User" } } } }
            """#
        ),
        (
            "ContactsResponse",
            #"""
            { "type": "object", "required": ["users", "contacts"],
              "properties": {
                "users": { "type": "array", "items": { "$ref": "#/components/schemas/User" } },
                "contacts": { "type": "array", "items": { "$ref": "#/components/schemas/User" } } } }
            """#
        ),
        (
            "LimitsResponse",
            #"""
            { "type": "object", "required": ["limits", "schemaVersion"],
              "properties": {
                "limits": { "type": "object", "additionalProperties": { "type": "integer" },
                  "description": "Bounds by name: recordBytes, fieldBytes, assetBytes, requestItems, zones, subscriptions, participants." },
                "storage": { "type": "object", "required": ["used"], "description": "In the private database: bytes.",
                  "properties": { "used": { "type": "integer" }, "limit": { "type": "integer" } } },
                "rights": { "type": "object", "description": "In the public database, by record type: what the caller's roles may do, apart from being a record's creator.",
                  "additionalProperties": { "type": "array", "items": { "type": "string", "enum": ["READ", "CREATE", "WRITE"] } } },
                "schemaVersion": { "type": "integer" } } }
            """#
        ),
        (
            "DiscoverabilityResponse",
            #"""
            { "type": "object", "required": ["userRecordName", "isDiscoverable"],
              "properties": { "userRecordName": { "type": "string" }, "isDiscoverable": { "type": "boolean" } } }
            """#
        ),
        (
            "SignInResponse",
            #"""
            { "type": "object", "required": ["ckWebAuthToken", "userRecordName", "expires"],
              "properties": {
                "ckWebAuthToken": { "type": "string" },
                "userRecordName": { "type": "string" },
                "expires": { "type": "integer", "format": "int64", "description": "Milliseconds since 1970." } } }
            """#
        ),
    ]
}
