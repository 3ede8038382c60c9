/// Ours: pushes to devices that sleep.
extension OpenAPIOperation {
    static let pushes = [
        OpenAPIOperation(
            route: "push/keys",
            id: "fetchPushKeys",
            tag: "notices",
            summary: "What a browser or app needs to subscribe to pushes.",
            methods: [.get, .post],
            databases: .device,
            callers: .users,
            request: "Empty",
            response: "PushKeysResponse"
        ),
        OpenAPIOperation(
            route: "push/register",
            id: "registerForPush",
            tag: "notices",
            summary: "Wakes this device through a push service while it has no notice socket open.",
            details: """
                One registration for each device of a user, named by X-Zonecast-Device-ID; another takes its place. A user \
                has 20 of them; another one ends the oldest. It ends with the sign-in.
                """,
            databases: .device,
            callers: .users,
            request: "RegisterForPushRequest",
            response: "RegisterForPushResponse"
        ),
        OpenAPIOperation(
            route: "push/unregister",
            id: "unregisterFromPush",
            tag: "notices",
            summary: "Ends the registration of this device, if there is one.",
            databases: .device,
            callers: .users,
            request: "Empty",
            response: "Empty"
        ),
    ]
}

extension OpenAPISchemas {
    static let pushes: [(name: String, schema: String)] = [
        (
            "PushKeysResponse",
            #"""
            { "type": "object",
              "properties": {
                "webPush": { "type": "object", "required": ["applicationServerKey"], "description": "Absent: no Web Push here.",
                  "properties": { "applicationServerKey": { "type": "string", "description": "For PushManager.subscribe()." } } } } }
            """#
        ),
        (
            "RegisterForPushRequest",
            #"""
            { "type": "object", "description": "One of the four.",
              "properties": {
                "apns": { "type": "object", "required": ["token", "topic"],
                  "properties": {
                    "token": { "type": "string", "description": "The device token in hex digits." },
                    "topic": { "type": "string", "description": "The app's bundle identifier." },
                    "environment": { "type": "string", "enum": ["development", "production"] } } },
                "webPush": { "type": "object", "required": ["endpoint", "keys"], "description": "PushSubscription.toJSON(); also UnifiedPush.",
                  "properties": {
                    "endpoint": { "type": "string", "format": "uri" },
                    "keys": { "type": "object", "required": ["p256dh", "auth"],
                      "properties": { "p256dh": { "type": "string" }, "auth": { "type": "string" } } } } },
                "ntfy": { "type": "object", "required": ["topicURL"],
                  "properties": { "topicURL": { "type": "string", "format": "uri" } } },
                "fcm": { "type": "object", "required": ["token"],
                  "properties": { "token": { "type": "string", "description": "Firebase's registration token." } } } } }
            """#
        ),
        (
            "RegisterForPushResponse",
            #"""
            { "type": "object", "required": ["registrationID", "deviceID"],
              "properties": {
                "registrationID": { "type": "string" },
                "deviceID": { "type": "string", "description": "The device that is woken, as the relay knows it." } } }
            """#
        ),
    ]
}
