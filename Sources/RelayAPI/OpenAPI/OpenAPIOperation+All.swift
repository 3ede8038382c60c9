extension OpenAPIOperation {
    /// Every operation that the relay serves under `/database/1/` and `/device/1/`.
    package static let all: [OpenAPIOperation] =
        records + zones + changes + subscriptions + assets + tokens + pushes + users

    private static let records = [
        OpenAPIOperation(
            route: "records/modify",
            id: "modifyRecords",
            tag: "records",
            summary: "Creates, changes and deletes records of one zone.",
            details: "In custom zones the operations are carried out together or, with atomic false, each for itself.",
            request: "ModifyRecordsRequest",
            response: "ModifyRecordsResponse"
        ),
        OpenAPIOperation(
            route: "records/lookup",
            id: "lookupRecords",
            tag: "records",
            summary: "Records by their names, in the order asked for.",
            callers: .everybody,
            request: "LookupRecordsRequest",
            response: "RecordsResponse"
        ),
        OpenAPIOperation(
            route: "records/query",
            id: "queryRecords",
            tag: "records",
            summary: "Records of one type that match all filters, page by page.",
            details: "There are more results while the answer has a continuationMarker: send the same query with it.",
            callers: .everybody,
            request: "QueryRecordsRequest",
            response: "QueryRecordsResponse"
        ),
        OpenAPIOperation(
            route: "records/changes",
            id: "fetchRecordChanges",
            tag: "changes",
            summary: "What changed in one zone since a token; older form of changes/zone.",
            databases: .privateAndShared,
            request: "RecordChangesRequest",
            response: "RecordChangesResponse"
        ),
        OpenAPIOperation(
            route: "records/resolve",
            id: "resolveShares",
            tag: "records",
            summary: "What links of shares lead to.",
            details: "With an API token alone only links that anybody may join by.",
            databases: .publicOnly,
            callers: .everybody,
            request: "ShareLinksRequest",
            response: "ShareLinksResponse"
        ),
        OpenAPIOperation(
            route: "records/accept",
            id: "acceptShares",
            tag: "records",
            summary: "Joins shares by their links.",
            databases: .publicOnly,
            callers: .users,
            request: "ShareLinksRequest",
            response: "ShareLinksResponse"
        ),
        OpenAPIOperation(
            route: "records/requestaccess",
            id: "requestAccess",
            tag: "records",
            summary: "Asks the owners of shares, by their links, to be let in. This relay's own.",
            details: "A share that takes no requests is like one that is not there.",
            databases: .publicOnly,
            callers: .users,
            request: "ShareLinksRequest",
            response: "ShareLinksResponse"
        ),
        OpenAPIOperation(
            route: "records/move",
            id: "moveRecords",
            tag: "records",
            summary: "Moves records between two zones of the private database, all or none. This relay's own.",
            details: "In one commit they are gone from the one feed and there in the other; to repeat it is a success.",
            databases: .privateAndShared,
            callers: .users,
            request: "MoveRecordsRequest",
            response: "MoveRecordsResponse"
        ),
    ]

    private static let zones = [
        OpenAPIOperation(
            route: "zones/list",
            id: "listZones",
            tag: "zones",
            summary: "All zones of the database.",
            methods: [.get, .post],
            request: "Empty",
            response: "ZonesResponse"
        ),
        OpenAPIOperation(
            route: "zones/lookup",
            id: "lookupZones",
            tag: "zones",
            summary: "Zones by their IDs.",
            request: "LookupZonesRequest",
            response: "ZonesResponse"
        ),
        OpenAPIOperation(
            route: "zones/modify",
            id: "modifyZones",
            tag: "zones",
            summary: "Makes and ends custom zones of the private database, and leaves those of others.",
            databases: .privateAndShared,
            request: "ModifyZonesRequest",
            response: "ZonesResponse"
        ),
    ]

    private static let changes = [
        OpenAPIOperation(
            route: "zones/changes",
            id: "fetchChangedZones",
            tag: "changes",
            summary: "Which zones changed since a token; older form of changes/database.",
            databases: .privateAndShared,
            request: "ChangedZonesRequest",
            response: "ChangedZonesResponse"
        ),
        OpenAPIOperation(
            route: "changes/database",
            id: "fetchDatabaseChanges",
            tag: "changes",
            summary: "Which zones changed since a token.",
            databases: .privateAndShared,
            request: "DatabaseChangesRequest",
            response: "DatabaseChangesResponse"
        ),
        OpenAPIOperation(
            route: "changes/zone",
            id: "fetchZoneChanges",
            tag: "changes",
            summary: "What changed in some custom zones since a token for each.",
            databases: .privateAndShared,
            request: "ZoneChangesRequest",
            response: "ZoneChangesResponse"
        ),
    ]

    private static let subscriptions = [
        OpenAPIOperation(
            route: "subscriptions/list",
            id: "listSubscriptions",
            tag: "subscriptions",
            summary: "All subscriptions of the caller in this database.",
            methods: [.get, .post],
            request: "Empty",
            response: "SubscriptionsResponse"
        ),
        OpenAPIOperation(
            route: "subscriptions/lookup",
            id: "lookupSubscriptions",
            tag: "subscriptions",
            summary: "Subscriptions by their names.",
            details: "The path may leave out the database, which then is the private one.",
            request: "LookupSubscriptionsRequest",
            response: "SubscriptionsResponse"
        ),
        OpenAPIOperation(
            route: "subscriptions/modify",
            id: "modifySubscriptions",
            tag: "subscriptions",
            summary: "Makes, replaces and ends subscriptions.",
            details: "The public database has query subscriptions only.",
            request: "ModifySubscriptionsRequest",
            response: "SubscriptionsResponse"
        ),
    ]

    private static let assets = [
        OpenAPIOperation(
            route: "assets/upload",
            id: "requestUploads",
            tag: "assets",
            summary: "Addresses to put assets to, in the order asked for.",
            details: "The answer of an upload is the asset's value for records/modify.",
            request: "RequestUploadsRequest",
            response: "RequestUploadsResponse"
        ),
        OpenAPIOperation(
            route: "assets/rereference",
            id: "rereferenceAssets",
            tag: "assets",
            summary: "Assets that records hold, with receipts to save them in other records.",
            request: "RereferenceAssetsRequest",
            response: "RereferenceAssetsResponse"
        ),
    ]

    private static let tokens = [
        OpenAPIOperation(
            route: "tokens/create",
            id: "createToken",
            tag: "notices",
            summary: "A token for notices by long poll.",
            details: "The same under /database/1/. A user has 20 of them; another one ends the oldest.",
            databases: .device,
            callers: .users,
            request: "CreateTokenRequest",
            response: "CreateTokenResponse"
        ),
        OpenAPIOperation(
            route: "tokens/register",
            id: "registerToken",
            tag: "notices",
            summary: "Says that a token from tokens/create is in use.",
            databases: .device,
            callers: .users,
            request: "RegisterTokenRequest",
            response: "Empty"
        ),
    ]

    private static let users = [
        OpenAPIOperation(
            route: "users/caller",
            id: "fetchCaller",
            tag: "users",
            summary: "Who the caller is.",
            methods: [.get, .post],
            databases: .publicOnly,
            request: "Empty",
            response: "CallerResponse"
        ),
        OpenAPIOperation(
            route: "users/current",
            id: "fetchCurrentUser",
            tag: "users",
            summary: "Who the caller is; older form of users/caller.",
            methods: [.get, .post],
            databases: .publicOnly,
            callers: .users,
            request: "Empty",
            response: "User"
        ),
        OpenAPIOperation(
            route: "users/discover",
            id: "discoverUsers",
            tag: "users",
            summary: "People who want to be found, by address, number or record name.",
            details: "As a GET it would list the caller's contacts, of which this relay keeps none.",
            methods: [.post, .get],
            databases: .publicOnly,
            callers: .users,
            request: "DiscoverUsersRequest",
            response: "IdentitiesResponse"
        ),
        OpenAPIOperation(
            route: "users/lookup/email",
            id: "lookupUsersByEmail",
            tag: "users",
            summary: "People by e-mail address; older form of users/discover.",
            databases: .publicOnly,
            callers: .users,
            request: "LookupUsersByEmailRequest",
            response: "UsersResponse"
        ),
        OpenAPIOperation(
            route: "users/lookup/id",
            id: "lookupUsersByRecordName",
            tag: "users",
            summary: "People by record name; older form of users/discover.",
            databases: .publicOnly,
            callers: .users,
            request: "LookupUsersByRecordNameRequest",
            response: "UsersResponse"
        ),
        OpenAPIOperation(
            route: "users/lookup/contacts",
            id: "lookupContacts",
            tag: "users",
            summary: "The caller's contacts: always none.",
            methods: [.get, .post],
            databases: .publicOnly,
            callers: .users,
            request: "Empty",
            response: "ContactsResponse"
        ),
        OpenAPIOperation(
            route: "users/discoverability",
            id: "setDiscoverability",
            tag: "users",
            summary: "Whether the caller may be found by others in this container.",
            details: "This relay's own, not CloudKit's.",
            methods: [.post, .get],
            databases: .publicOnly,
            callers: .users,
            request: "DiscoverabilityRequest",
            response: "DiscoverabilityResponse"
        ),
        OpenAPIOperation(
            route: "limits",
            id: "describeLimits",
            tag: "users",
            summary: "The bounds that hold for the caller, the space used, and the rights of the caller's roles.",
            details: "This relay's own, not CloudKit's.",
            methods: [.post, .get],
            callers: .everybody,
            request: "Empty",
            response: "LimitsResponse"
        ),
        OpenAPIOperation(
            route: "users/signin",
            id: "signIn",
            tag: "users",
            summary: "A web auth token for a password, or an identity token of an issuer that the container trusts.",
            details: "This relay's own, not CloudKit's.",
            databases: .publicOnly,
            callers: .anybody,
            request: "SignInRequest",
            response: "SignInResponse"
        ),
        OpenAPIOperation(
            route: "users/signout",
            id: "signOut",
            tag: "users",
            summary: "Ends the session that the request comes by, with every token of it.",
            details: "This relay's own, not CloudKit's.",
            databases: .publicOnly,
            callers: .users,
            request: "Empty",
            response: "Empty"
        ),
    ]
}
