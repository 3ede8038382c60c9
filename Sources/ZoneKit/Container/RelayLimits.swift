package import Records
import Wire

/// The limits of a relay, so that an app can show them before it reaches them.
///
/// The relay decides about each write; the limits may change while the app runs.
public struct RelayLimits: Hashable, Sendable {
    /// The storage that a user occupies.
    public struct Storage: Hashable, Sendable {
        /// The bytes of the user's records and files.
        public var used: Int64
        /// The maximum number of bytes; `nil` for no limit.
        public var limit: Int64?
    }

    /// The maximum size of a record in bytes, without its files.
    public var recordBytes = 1_000_000
    /// The maximum size of a string or data field in bytes.
    public var fieldBytes = 1_000_000
    /// The maximum size of an asset in bytes.
    public var assetBytes: Int64 = 50 * 1024 * 1024
    /// The maximum number of changes in one request.
    ///
    /// The SDK splits its requests accordingly.
    public var requestItems = 200
    /// The maximum size of the SDK's requests in bytes, without files.
    public var requestBytes = 2_000_000
    /// The maximum number of zones per user.
    public var zones = 1_000
    /// The maximum number of subscriptions per user in one database.
    public var subscriptions = 1_000
    /// The maximum number of participants in a share.
    public var participants = 100
    /// The maximum number of fields in a record type, including those that a mirror adds.
    public var fields = 256
    /// The user's storage; `nil` if the database is not the user's private one.
    public var storage: Storage?
    /// The rights of the user's roles for each record type in the public database, apart from rights as the creator.
    package var rights: [String: Rights]?

    /// Creates the default limits.
    public init() {}
}

extension CKContainer {
    /// Fetches the limits for the current user, and how much storage the user occupies.
    ///
    /// - Throws: `notAuthenticated` if no user is signed in, and the errors of any request.
    public func limits() async throws -> RelayLimits { try await privateCloudDatabase.client.limits() }
}

extension RelayLimits {
    /// Reads a response.
    ///
    /// Limits that are missing keep their defaults.
    init(_ json: JSONValue) throws(JSONError) {
        let limits = try json.required("limits")
        func number(_ name: StaticString, _ usual: Int) throws(JSONError) -> Int {
            try (limits[name]?.int64()).flatMap { Int(exactly: $0) } ?? usual
        }
        recordBytes = try number("recordBytes", recordBytes)
        fieldBytes = try number("fieldBytes", fieldBytes)
        assetBytes = try limits["assetBytes"]?.int64() ?? assetBytes
        requestItems = try number("requestItems", requestItems)
        zones = try number("zones", zones)
        subscriptions = try number("subscriptions", subscriptions)
        participants = try number("participants", participants)
        if let space = json["storage"] {
            storage = Storage(used: try space.required("used").int64(), limit: try space["limit"]?.int64())
        }
        guard let types = json["rights"] else { return }
        var rights: [String: Rights] = [:]
        for (name, words) in try types.members() {
            var found = Rights()
            for word in try words.elements() {
                switch try word.string() {
                case "READ": found.insert(.read)
                case "CREATE": found.insert(.create)
                case "WRITE": found.insert(.write)
                default: break
                }
            }
            rights[name] = found
        }
        self.rights = rights
    }
}
