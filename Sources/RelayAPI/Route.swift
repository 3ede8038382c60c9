import HTTPTypes
package import Records

/// The meaning of a URL path.
///
/// See Wire.md, "URLs".
package struct Route: Hashable, Sendable {
    package var home: ContainerEnvironment
    package var scope: DatabaseScope
    package var operation: Operation

    /// The supported methods, as the value of the header `Allow`.
    var allowed: String { operation.allowsGet ? "GET, POST, OPTIONS" : "POST, OPTIONS" }

    /// The operations of the wire; the raw value is the last part of the path.
    package enum Operation: String, Hashable, Sendable, CaseIterable {
        case recordsModify = "records/modify"
        case recordsLookup = "records/lookup"
        case recordsQuery = "records/query"
        case recordsChanges = "records/changes"
        case recordsResolve = "records/resolve"
        case recordsAccept = "records/accept"
        /// Zonecast extension: requests access to a share from its owner.
        case recordsRequestAccess = "records/requestaccess"
        /// Zonecast extension: moves records to another zone, all or none.
        case recordsMove = "records/move"
        case zonesList = "zones/list"
        case zonesLookup = "zones/lookup"
        case zonesModify = "zones/modify"
        case zonesChanges = "zones/changes"
        case changesDatabase = "changes/database"
        case changesZone = "changes/zone"
        case subscriptionsList = "subscriptions/list"
        case subscriptionsLookup = "subscriptions/lookup"
        case subscriptionsModify = "subscriptions/modify"
        case assetsUpload = "assets/upload"
        case assetsRereference = "assets/rereference"
        /// Not bound to a database: the path has no such segment.
        case tokensCreate = "tokens/create"
        /// Not bound to a database: the path has no such segment.
        case tokensRegister = "tokens/register"
        /// Zonecast extension: returns the keys with which a browser subscribes to Web Push.
        case pushKeys = "push/keys"
        /// Zonecast extension: registers the device for push notifications while it has no open socket.
        case pushRegister = "push/register"
        /// Zonecast extension: ends the registration.
        case pushUnregister = "push/unregister"
        case usersCaller = "users/caller"
        case usersCurrent = "users/current"
        case usersDiscover = "users/discover"
        case usersLookupEmail = "users/lookup/email"
        case usersLookupID = "users/lookup/id"
        case usersLookupContacts = "users/lookup/contacts"
        /// Zonecast extension: reads or sets whether other users can discover the caller.
        case usersDiscoverability = "users/discoverability"
        /// Zonecast extension: exchanges a foreign issuer's identity token for a web auth token.
        case usersSignIn = "users/signin"
        /// Zonecast extension: ends the session of the request.
        case usersSignOut = "users/signout"
        /// Zonecast extension: returns the limits, storage use and rights of the caller.
        case limits

        /// Whether GET is supported.
        ///
        /// POST is accepted for every operation, even if only GET is documented.
        package var allowsGet: Bool {
            switch self {
            case .zonesList, .subscriptionsList, .pushKeys, .usersCaller, .usersCurrent, .usersDiscover,
                .usersLookupContacts,
                .usersDiscoverability, .limits:
                true
            default: false
            }
        }

        /// Whether the operation is also available below `/device/1/`.
        var isOfDevice: Bool {
            switch self {
            case .tokensCreate, .tokensRegister, .pushKeys, .pushRegister, .pushUnregister: true
            default: false
            }
        }

        /// Whether the path may omit the database, which is then the private one.
        ///
        /// Apple's page of subscriptions/lookup omits it; the relay applies the same rule to the two related
        /// operations. See Wire.md, "Operations".
        var needsNoDatabase: Bool {
            switch self {
            case .subscriptionsList, .subscriptionsLookup, .subscriptionsModify: true
            default: isOfDevice
            }
        }

        /// Whether the operation is about users and not about data, although its path contains `public`.
        ///
        /// Exempt from the public database's rate, so that a busy public database does not prevent sign-in.
        var isAboutPeople: Bool {
            switch self {
            case .usersCaller, .usersCurrent, .usersDiscover, .usersLookupEmail, .usersLookupID, .usersLookupContacts,
                .usersDiscoverability, .usersSignIn, .usersSignOut:
                true
            default: false
            }
        }

        /// Whether the response contains requested records.
        var readsRecords: Bool { self == .recordsLookup || self == .recordsQuery }

        /// Whether anonymous callers may use it in the public database.
        var allowsAnonymous: Bool {
            switch self {
            case .recordsLookup, .recordsQuery, .recordsResolve, .usersSignIn, .limits: true
            default: false
            }
        }
    }

    /// Parses the path of a request line; everything before `/database/1/` is a proxy's prefix and ignored.
    ///
    /// Throws `badRequest` if the path is malformed and `notFound` if it names no operation.
    package init(path: String) throws(RelayError) {
        try self.init(segments: Self.segments(of: path))
    }

    /// Parses a path that is already split into segments.
    init(segments: [String]) throws(RelayError) {
        var segments = segments
        guard let start = segments.firstIndex(where: { $0 == "database" || $0 == "device" }) else {
            throw .unknownPath
        }
        let isDevice = segments[start] == "device"
        segments.removeFirst(start + 1)
        guard segments.count >= 5, segments[0] == "1" else { throw .unknownPath }
        guard let container = ContainerID(segments[1]) else {
            throw RelayError(.notFound, ContainerID.rule(brokenBy: segments[1]))
        }
        guard let environment = Environment(rawValue: segments[2]) else { throw .unknownPath }
        let named = isDevice ? nil : DatabaseScope(pathName: segments[3])
        guard let operation = Operation(rawValue: segments[(named == nil ? 3 : 4)...].joined(separator: "/")),
            named != nil || operation.needsNoDatabase, !isDevice || operation.isOfDevice
        else { throw .unknownPath }
        home = ContainerEnvironment(container, environment)
        scope = named ?? .private
        self.operation = operation
    }

    /// Returns the container in a path, also if the path names no known operation.
    package static func home(ofPath path: String) -> ContainerEnvironment? {
        guard let segments = try? Self.segments(of: path) else { return nil }
        return home(of: segments)
    }

    static func home(of segments: [String]) -> ContainerEnvironment? {
        guard let start = segments.firstIndex(where: { $0 == "database" || $0 == "push" || $0 == "device" }),
            segments.count > start + 3, let container = ContainerID(segments[start + 2]),
            let environment = Environment(rawValue: segments[start + 3])
        else { return nil }
        return ContainerEnvironment(container, environment)
    }

    /// Splits and percent-decodes a path, once.
    ///
    /// See Reliability.md, "Paths and asset addresses".
    static func segments(of path: String) throws(RelayError) -> [String] {
        guard path != "/" else { throw .unknownPath }
        var path = path
        let segments = path.withUTF8 { bytes -> [String]? in
            guard bytes.first == UInt8(ascii: "/") else { return nil }
            var segments: [String] = []
            segments.reserveCapacity(8)
            var start = 1
            while start <= bytes.count {
                let end = bytes[start...].firstIndex(of: UInt8(ascii: "/")) ?? bytes.endIndex
                guard let segment = segment(bytes[start..<end]) else { return nil }
                segments.append(segment)
                start = end + 1
            }
            return segments
        }
        guard let segments else { throw .badPath }
        return segments
    }

    private static func segment(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) -> String? {
        guard let text = PercentCoding.decode(String(decoding: bytes, as: UTF8.self)), !text.isEmpty, text != "..",
            text != ".",
            !text.utf8.contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "\\") || $0 == UInt8(ascii: "/") })
        else { return nil }
        return text
    }
}

extension RelayError {
    static let unknownPath = RelayError(.notFound, "There is nothing at this path.")
    static let badPath = RelayError.badRequest("The path is malformed.")
}

extension Route.Operation {
    /// Runs the endpoint.
    func perform(_ context: RequestContext) async throws -> EndpointAnswer {
        switch self {
        case .recordsModify: try await modifyRecords(context)
        case .recordsLookup: try lookupRecords(context)
        case .recordsQuery: try await queryRecords(context)
        case .recordsChanges: try fetchRecordChanges(context)
        case .recordsResolve: try resolveShares(context)
        case .recordsAccept: try await acceptShares(context)
        case .recordsRequestAccess: try await requestAccess(context)
        case .recordsMove: try await moveRecords(context)
        case .zonesList: try listZones(context)
        case .zonesLookup: try lookupZones(context)
        case .zonesModify: try await modifyZones(context)
        case .zonesChanges: try fetchChangedZones(context)
        case .changesDatabase: try fetchDatabaseChanges(context)
        case .changesZone: try fetchZoneChanges(context)
        case .subscriptionsList: try listSubscriptions(context)
        case .subscriptionsLookup: try lookupSubscriptions(context)
        case .subscriptionsModify: try await modifySubscriptions(context)
        case .assetsUpload: try requestUploads(context)
        case .assetsRereference: try rereferenceAssets(context)
        case .tokensCreate: try createToken(context)
        case .tokensRegister: try registerToken(context)
        case .pushKeys: try fetchPushKeys(context)
        case .pushRegister: try await registerForPush(context)
        case .pushUnregister: try await unregisterFromPush(context)
        case .usersCaller: try callerIdentity(context)
        case .usersCurrent: try currentUser(context)
        case .usersDiscover: try discoverUsers(context)
        case .usersLookupEmail: try lookupUsersByEmail(context)
        case .usersLookupID: try lookupUsersByRecordName(context)
        case .usersLookupContacts: try lookupContacts(context)
        case .usersDiscoverability: try await discoverability(context)
        case .usersSignIn: try await signIn(context)
        case .usersSignOut: try await signOut(context)
        case .limits: try describeLimits(context)
        }
    }
}
