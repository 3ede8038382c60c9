import Records
import RelayCore
import Synchronization
import Wire

/// The services shared by all requests of a relay, grouped so that each request stores one reference.
final class RequestServices: Sendable {
    /// Authenticates callers and looks up users.
    let authenticator: Authenticator
    /// Handles uploads and downloads.
    let assets: AssetService
    /// The sessions of devices that use long polls.
    let longPolls: LongPollService
    /// The push registrations; `nil` without push services.
    let pushes: PushService?
    private let stores: any StoreCatalog
    /// Counts how queries use indexes.
    let queryUse: QueryUse
    /// Creates names for records that the client has not named.
    let newRecordName: @Sendable () -> String
    /// Creates 128 random bits as Base64URL text, for links.
    let newSecret: @Sendable () -> String

    init(
        authenticator: Authenticator,
        assets: AssetService,
        longPolls: LongPollService,
        pushes: PushService?,
        stores: any StoreCatalog,
        queryUse: QueryUse,
        random: RandomSource
    ) {
        self.stores = stores
        self.authenticator = authenticator
        self.assets = assets
        self.longPolls = longPolls
        self.pushes = pushes
        self.queryUse = queryUse
        newRecordName = { random.uuid().uppercased() }
        newSecret = { Base64URL.encode(random.bytes(16)) }
    }

    /// Returns the current schema; `nil` if the environment does not exist.
    func schema(of home: ContainerEnvironment) -> Schema? {
        stores.isThere(home) ? try? stores.store(of: home).currentSchema : nil
    }
}

/// One authenticated request on its way through an endpoint.
///
/// A class because it is passed through many functions and never changes.
final class RequestContext: Sendable {
    /// The request identifier, returned as the `uuid` of errors.
    let requestID: RequestIdentifier
    let home: ContainerEnvironment
    let database: DatabaseAddress
    let authentication: Authentication
    private let services: RequestServices
    /// The peer's IP address, for limits per address.
    let remoteAddress: String
    /// Whether the method is GET, for operations that support both methods.
    let isGet: Bool
    let store: any Store
    let body: JSONValue
    let limits: Limits
    let now: Timestamp
    let types: RecordTypeCache
    /// The parsed request head.
    let parsedHead: ParsedRequestHead
    private let uploads = Mutex<[AssetHash]>([])

    /// The hashes of the new uploads that the request uses.
    var usedUploads: [AssetHash] { uploads.withLock { $0 } }

    func noteUpload(_ hash: AssetHash) { uploads.withLock { $0.append(hash) } }

    var authenticator: Authenticator { services.authenticator }
    var assets: AssetService { services.assets }
    var longPolls: LongPollService { services.longPolls }
    var pushes: PushService? { services.pushes }
    var queryUse: QueryUse { services.queryUse }
    var newRecordName: @Sendable () -> String { services.newRecordName }
    var newSecret: @Sendable () -> String { services.newSecret }

    init(
        requestID: RequestIdentifier,
        home: ContainerEnvironment,
        database: DatabaseAddress,
        authentication: Authentication,
        services: RequestServices,
        remoteAddress: String,
        isGet: Bool,
        store: any Store,
        body: JSONValue,
        limits: Limits,
        now: Timestamp,
        types: RecordTypeCache,
        parsedHead: ParsedRequestHead
    ) {
        self.requestID = requestID
        self.home = home
        self.database = database
        self.authentication = authentication
        self.services = services
        self.remoteAddress = remoteAddress
        self.isGet = isGet
        self.store = store
        self.body = body
        self.limits = limits
        self.now = now
        self.types = types
        self.parsedHead = parsedHead
    }

    /// Returns the zone in the member `zoneID` of `json`; the default zone if there is none.
    func zone(of json: JSONValue) throws -> ZoneID {
        try database.zone(try json["zoneID"].map { try ZoneIDCodec.read($0) } ?? ZoneID(ZoneID.defaultName))
    }

    /// Returns the member `resultsLimit`, capped at the maximum page size.
    func resultsLimit(of json: JSONValue) throws -> Int {
        guard let limit = try json["resultsLimit"]?.int64() else { return limits.itemsPerRequest }
        guard limit > 0 else { throw RelayError.badRequest("resultsLimit must be 1 or more.") }
        return Int(min(limit, Int64(limits.itemsPerRequest)))
    }

    /// Returns the elements of an array member.
    ///
    /// Throws `limitExceeded` if there are more than `maxCount` elements, or more than a request may have if `maxCount` is
    /// `nil`.
    func items(_ name: StaticString, of json: JSONValue, maxCount: Int? = nil) throws -> [JSONValue] {
        let elements = try json.required(name).elements()
        let maxCount = maxCount ?? limits.itemsPerRequest
        guard elements.count <= maxCount else {
            throw RelayError(
                .badRequest,
                "A request may have \(maxCount) \(name), this one has \(elements.count).",
                fineCode: .limitExceeded
            )
        }
        return elements
    }

    /// Returns the fields that the client requests and how to encode them.
    func selection(of json: JSONValue, else outer: FieldsJSON.Selection? = nil) throws -> FieldsJSON.Selection {
        var selection = outer ?? .all
        if let keys = json["desiredKeys"] { selection.desiredKeys = Set(try stringArray(keys)) }
        if let flag = json["numbersAsStrings"] ?? json["numberAsStrings"] {
            selection.numbersAsStrings = try flag.bool()
        }
        return selection
    }
}

extension RequestContext: TypePromotionCheck {
    func isOnlyInDevelopment(_ type: String) -> Bool {
        guard home.environment == .production else { return false }
        return services.schema(of: ContainerEnvironment(home.container, .development))?.types[type] != nil
    }
}

/// The response of an endpoint.
struct EndpointAnswer: Sendable {
    /// The error code of a response that reports a failure together with further details.
    var errorCode: ErrorCode?
    var body: JSONText

    init(
        refusing errorCode: ErrorCode? = nil,
        reserving capacity: Int = 1024,
        _ write: (inout JSONWriter) throws -> Void
    ) rethrows {
        self.errorCode = errorCode
        var writer = JSONWriter(reserving: capacity)
        writer.open(UInt8(ascii: "{"))
        try write(&writer)
        writer.close(UInt8(ascii: "}"))
        body = writer.finish()
    }
}
