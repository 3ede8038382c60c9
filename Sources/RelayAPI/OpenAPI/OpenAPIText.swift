/// The parts of the description that are the same for all operations.
enum OpenAPIText {
    static let info = #"""
        {
          "title": "Zonecast",
          "version": "1",
          "description": "CloudKit Web Services as a relay of your own serves them. Every operation is a POST with a JSON object, whatever its Content-Type says; where GET is documented, POST does the same. Members that the relay does not know are ignored, and null is the same as absent. A request that fails as a whole is answered with an Error; an item that fails has serverErrorCode and reason in its own place of a 200. Every answer may carry a fresh web auth token in the header X-Apple-CloudKit-Web-Auth-Token; the one before stays good until its own end.",
          "license": { "name": "See the LICENSE file of the project" }
        }
        """#

    static let tags = #"""
        [
          { "name": "records", "description": "Records of one zone." },
          { "name": "zones", "description": "Zones of a database." },
          { "name": "changes", "description": "What changed since a token." },
          { "name": "subscriptions", "description": "Standing requests for notices." },
          { "name": "notices", "description": "Notices by long poll and WebSocket." },
          { "name": "assets", "description": "Files beside the records." },
          { "name": "users", "description": "People, as one container sees them." },
          { "name": "relay", "description": "The relay itself." }
        ]
        """#

    static let securitySchemes = #"""
        {
          "apiToken": {
            "type": "apiKey", "in": "query", "name": "ckAPIToken",
            "description": "A token of the container and environment, 64 hex digits. Alone it reads the public database."
          },
          "webAuthToken": {
            "type": "apiKey", "in": "query", "name": "ckWebAuthToken",
            "description": "A signed-in user's token, percent-encoded. On a relay started with --dev, dev-NAME is user NAME."
          },
          "serverKeyID": {
            "type": "apiKey", "in": "header", "name": "X-Apple-CloudKit-Request-KeyID",
            "description": "A server-to-server key; for the public database. The three headers go together and with no token."
          },
          "serverKeyDate": {
            "type": "apiKey", "in": "header", "name": "X-Apple-CloudKit-Request-ISO8601Date",
            "description": "When it was signed, in UTC and without fractions; good for 10 minutes."
          },
          "serverKeySignature": {
            "type": "apiKey", "in": "header", "name": "X-Apple-CloudKit-Request-SignatureV1",
            "description": "Base64 of the DER form of an ECDSA P-256 signature with SHA-256 over date, colon, base64 of the body's SHA-256, colon, path."
          }
        }
        """#

    static let parameters = #"""
        {
          "container": {
            "name": "container", "in": "path", "required": true,
            "description": "The container's identifier, compared case-sensitively.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]*$" },
            "example": "iCloud.com.example.notes"
          },
          "environment": {
            "name": "environment", "in": "path", "required": true,
            "schema": { "type": "string", "enum": ["development", "production"] }
          },
          "database": {
            "name": "database", "in": "path", "required": true,
            "schema": { "type": "string", "enum": ["public", "private", "shared"] }
          },
          "databaseWithChanges": {
            "name": "database", "in": "path", "required": true,
            "schema": { "type": "string", "enum": ["private", "shared"] }
          },
          "deviceID": {
            "name": "X-Zonecast-Device-ID", "in": "header", "required": false,
            "description": "Names the device that asks; it gets no notices of its own changes. Without it the session is the device.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$" }
          }
        }
        """#

    static let headers = #"""
        {
          "RequestUUID": {
            "description": "Names the request in the relay's log.",
            "schema": { "type": "string" }
          },
          "WebAuthToken": {
            "description": "A fresh web auth token, where the caller came with one that rotates.",
            "schema": { "type": "string" }
          }
        }
        """#

    /// The refusals that any operation may answer with, by name.
    static let refusals: [(name: String, description: String)] = [
        ("BadRequest", "The request cannot be understood or carried out: BAD_REQUEST."),
        ("AuthenticationFailed", "The credentials are not good: AUTHENTICATION_FAILED."),
        ("AccessDenied", "The caller may not do this: ACCESS_DENIED."),
        ("NotFound", "There is no such thing, for this caller: NOT_FOUND or ZONE_NOT_FOUND."),
        ("MethodNotAllowed", "The path is called by another method: BAD_REQUEST."),
        ("Conflict", "It exists already: CONFLICT or EXISTS."),
        ("ReferenceViolation", "A VALIDATE reference stands in the way: VALIDATING_REFERENCE_ERROR."),
        ("TooLarge", "The body is too large, or a quota is used up: BAD_REQUEST or QUOTA_EXCEEDED."),
        ("AuthenticationRequired", "Somebody has to sign in, at redirectURL: AUTHENTICATION_REQUIRED."),
        ("Throttled", "Too many requests: THROTTLED, with retryAfter."),
        ("InternalError", "The relay failed: INTERNAL_ERROR."),
        ("TryAgainLater", "The relay cannot serve this now: TRY_AGAIN_LATER, with retryAfter."),
        ("OtherRefusal", "Refused before it was read, as HTTP and not as this wire."),
    ]

    static let refusalsByStatus: [(status: String, name: String)] = [
        ("400", "BadRequest"), ("401", "AuthenticationFailed"), ("403", "AccessDenied"), ("404", "NotFound"),
        ("405", "MethodNotAllowed"), ("409", "Conflict"), ("412", "ReferenceViolation"), ("413", "TooLarge"),
        ("421", "AuthenticationRequired"), ("429", "Throttled"), ("500", "InternalError"), ("503", "TryAgainLater"),
        ("default", "OtherRefusal"),
    ]

    /// Paths outside the two trees of operations.
    static let otherPaths: [(path: String, item: String)] = [
        ("/device/1/{container}/{environment}/webcourier", webcourier),
        ("/push/1/{container}/{environment}", push),
        ("/asset/1/upload/{sealed}", upload),
        ("/asset/1/download/{sealed}", download),
        ("/openapi.json", description),
        ("/healthz", health("isAlive", "Whether the relay is up.")),
        ("/readyz", health("isReady", "Whether the relay takes requests.")),
    ]

    private static let webcourier = #"""
        {
          "parameters": [ { "$ref": "#/components/parameters/container" }, { "$ref": "#/components/parameters/environment" } ],
          "get": {
            "operationId": "pollForNotice", "tags": ["notices"], "security": [],
            "summary": "Waits for one notice: the webcourierURL of tokens/create.",
            "description": "Answers as soon as there is a notice, and with an empty body after some time without one: then ask again.",
            "parameters": [
              { "name": "tok", "in": "query", "required": true, "description": "The apnsToken.", "schema": { "type": "string" } }
            ],
            "responses": {
              "200": {
                "description": "A notice, or nothing in time.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/NoticePayload" } } }
              },
              "404": { "$ref": "#/components/responses/NotFound" },
              "503": { "$ref": "#/components/responses/TryAgainLater" },
              "default": { "$ref": "#/components/responses/OtherRefusal" }
            }
          }
        }
        """#

    private static let upload = #"""
        {
          "parameters": [ { "name": "sealed", "in": "path", "required": true, "schema": { "type": "string" } } ],
          "post": {
            "operationId": "uploadAsset", "tags": ["assets"], "security": [],
            "summary": "Takes an asset's content: an address from assets/upload.",
            "requestBody": {
              "required": true,
              "content": {
                "application/octet-stream": { "schema": { "type": "string", "format": "binary" } },
                "multipart/form-data": {
                  "schema": { "type": "object", "properties": { "files": { "type": "string", "format": "binary" } } }
                }
              }
            },
            "responses": {
              "200": {
                "description": "What to save in the record's field.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/UploadResponse" } } }
              },
              "400": { "$ref": "#/components/responses/BadRequest" },
              "404": { "$ref": "#/components/responses/NotFound" },
              "413": { "$ref": "#/components/responses/TooLarge" },
              "503": { "$ref": "#/components/responses/TryAgainLater" },
              "default": { "$ref": "#/components/responses/OtherRefusal" }
            }
          }
        }
        """#

    private static let download = #"""
        {
          "parameters": [ { "name": "sealed", "in": "path", "required": true, "schema": { "type": "string" } } ],
          "get": {
            "operationId": "downloadAsset", "tags": ["assets"], "security": [],
            "summary": "An asset's content, or with Range a part of it: the downloadURL of a record's asset.",
            "responses": {
              "200": {
                "description": "The content.",
                "content": { "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } }
              },
              "206": {
                "description": "The part asked for.",
                "content": { "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } }
              },
              "404": { "$ref": "#/components/responses/NotFound" },
              "416": { "description": "The range is not in the file." },
              "default": { "$ref": "#/components/responses/OtherRefusal" }
            }
          }
        }
        """#

    private static let push = #"""
        {
          "parameters": [ { "$ref": "#/components/parameters/container" }, { "$ref": "#/components/parameters/environment" } ],
          "get": {
            "operationId": "openNoticeSocket", "tags": ["notices"],
            "security": [ {}, { "apiToken": [] }, { "apiToken": [], "webAuthToken": [] } ],
            "summary": "Opens the WebSocket for notices, subprotocol zonecast.notices.1.",
            "description": "The first frame is the client's hello, which may carry the credentials.",
            "responses": {
              "101": { "description": "The connection is a WebSocket now." },
              "default": { "$ref": "#/components/responses/OtherRefusal" }
            }
          }
        }
        """#

    private static let description = #"""
        {
          "get": {
            "operationId": "describe", "tags": ["relay"], "security": [], "summary": "This description.",
            "responses": { "200": { "description": "OpenAPI 3.0.3.", "content": { "application/json": { "schema": { "type": "object" } } } } }
          }
        }
        """#

    private static func health(_ id: String, _ summary: String) -> String {
        """
        {
          "get": {
            "operationId": "\(id)", "tags": ["relay"], "security": [], "summary": "\(summary)",
            "responses": {
              "200": { "description": "Yes.", "content": { "text/plain": { "schema": { "type": "string" } } } },
              "503": { "description": "No.", "content": { "text/plain": { "schema": { "type": "string" } } } }
            }
          }
        }
        """
    }
}
