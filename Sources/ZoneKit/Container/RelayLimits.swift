package import Records
import Wire

/// What a relay takes, so that a program can show it before it runs into it.
///
/// The relay has the last word on each write; limits may change while a program runs.
public struct RelayLimits: Hashable, Sendable {
    /// How much of a user's space is used.
    public struct Storage: Hashable, Sendable {
        /// Bytes of the user's records and files.
        public var used: Int64
        /// Bytes that they may take; `nil`: any number.
        public var limit: Int64?
    }

    /// Bytes of one record, files beside it left out.
    public var recordBytes = 1_000_000
    /// Bytes of one text, or of the content of one field of data.
    public var fieldBytes = 1_000_000
    /// Bytes of one asset.
    public var assetBytes: Int64 = 50 * 1024 * 1024
    /// Changes in one request; this module cuts its requests to it.
    public var requestItems = 200
    /// Bytes that this module puts into one request, files left out.
    public var requestBytes = 2_000_000
    /// Zones of one user.
    public var zones = 1_000
    /// Subscriptions of one user in one database.
    public var subscriptions = 1_000
    /// People in one share.
    public var participants = 100
    /// Fields of one record type, those that a mirror adds included.
    public var fields = 256
    /// The user's space; `nil` where the database is not the user's own.
    public var storage: Storage?
    /// What the user's roles may do with records of each type in a public database, apart from being their creator.
    package var rights: [String: Rights]?

    /// What relays take that nobody has set otherwise.
    public init() {}
}

extension CKContainer {
    /// What the relay takes from the current user, and how much of the space is used.
    ///
    /// - Throws: `notAuthenticated` when nobody is signed in, and what any call throws.
    public func limits() async throws -> RelayLimits { try await privateCloudDatabase.limits() }
}

extension CKDatabase {
    /// The same for one database; only the private one tells of space.
    package func limits() async throws(CKError) -> RelayLimits {
        let document = try await call("limits", Array("{}".utf8))
        return try reading { () throws(JSONError) in try RelayLimits(document.root) }
    }
}

extension RelayLimits {
    /// Reads an answer; what a relay does not say stays as usual.
    fileprivate init(_ json: JSONValue) throws(JSONError) {
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
