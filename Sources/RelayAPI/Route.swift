import HTTPTypes
package import Records

/// What a URL path means.
///
/// See Wire.md, "URLs".
package struct Route: Hashable, Sendable {
    package var home: ContainerEnvironment
    package var scope: DatabaseScope
    package var operation: Operation

    /// The methods it is called by, as the header `Allow` says them.
    var allowed: String { operation.allowsGet ? "GET, POST, OPTIONS" : "POST, OPTIONS" }

    /// The operations of the wire that this relay serves; the raw value is their path.
    package enum Operation: String, Hashable, Sendable, CaseIterable {
        case recordsModify = "records/modify"
        case recordsLookup = "records/lookup"
        case recordsQuery = "records/query"
        case recordsChanges = "records/changes"
        case recordsResolve = "records/resolve"
        case recordsAccept = "records/accept"
        /// Ours: asks the owner of a share to be let in.
        case recordsRequestAccess = "records/requestaccess"
        /// Ours: records from one zone to another, all or none.
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
        /// Of no database: its path has no such segment.
        case tokensCreate = "tokens/create"
        /// Likewise.
        case tokensRegister = "tokens/register"
        /// Ours: what a browser needs to subscribe to pushes.
        case pushKeys = "push/keys"
        /// Ours: wakes the device through a push service while it has no socket open.
        case pushRegister = "push/register"
        /// Ours: the opposite.
        case pushUnregister = "push/unregister"
        case usersCaller = "users/caller"
        case usersCurrent = "users/current"
        case usersDiscover = "users/discover"
        case usersLookupEmail = "users/lookup/email"
        case usersLookupID = "users/lookup/id"
        case usersLookupContacts = "users/lookup/contacts"
        /// Ours: whether the caller may be found by others.
        case usersDiscoverability = "users/discoverability"
        /// Ours: a foreign issuer's identity token for a web auth token.
        case usersSignIn = "users/signin"
        /// Ours: ends the session that the request comes by.
        case usersSignOut = "users/signout"
        /// Ours: bounds, space and rights of the caller.
        case limits

        /// Besides POST, is GET a way to call it? Where it is the documented one, POST is accepted too.
        package var allowsGet: Bool {
            switch self {
            case .zonesList, .subscriptionsList, .pushKeys, .usersCaller, .usersCurrent, .usersDiscover,
                .usersLookupContacts,
                .usersDiscoverability, .limits:
                true
            default: false
            }
        }

        /// Whether `/device/1/` leads to it.
        var isOfDevice: Bool {
            switch self {
            case .tokensCreate, .tokensRegister, .pushKeys, .pushRegister, .pushUnregister: true
            default: false
            }
        }

        /// Whether its path may leave out the database, which then is the private one.
        ///
        /// Apple's page of subscriptions/lookup leaves it out; its two neighbours go by the same rule. See
        /// Wire.md, "Operations".
        var needsNoDatabase: Bool {
            switch self {
            case .subscriptionsList, .subscriptionsLookup, .subscriptionsModify: true
            default: isOfDevice
            }
        }

        /// Whether it is about people and not about data, though its path says `public`: a busy public database must not
        /// keep anybody from signing in.
        var isAboutPeople: Bool {
            switch self {
            case .usersCaller, .usersCurrent, .usersDiscover, .usersLookupEmail, .usersLookupID, .usersLookupContacts,
                .usersDiscoverability, .usersSignIn, .usersSignOut:
                true
            default: false
            }
        }

        /// Whether its answers are records that were asked for.
        var readsRecords: Bool { self == .recordsLookup || self == .recordsQuery }

        /// Whether nobody in particular may call it in the public database.
        var allowsAnonymous: Bool {
            switch self {
            case .recordsLookup, .recordsQuery, .recordsResolve, .usersSignIn, .limits: true
            default: false
            }
        }
    }

    /// Reads a path as it stood in the request line; what stands in front of `/database/1/` is a proxy's prefix.
    ///
    /// Throws `badRequest` for a path that no honest client sends and `notFound` for any other that means nothing here.
    package init(path: String) throws(RelayError) {
        try self.init(segments: Self.segments(of: path))
    }

    /// The same of a path that has been taken apart.
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

    /// Which container a path speaks of, when it does; also for paths of operations that are not served.
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

    /// Splits and decodes, once.
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
