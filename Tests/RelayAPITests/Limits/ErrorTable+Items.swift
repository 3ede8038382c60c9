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
