import Records
import RelayCore
import Synchronization
import Wire

/// What every request of a relay may need beside what it brings: one reference, since each takes it along.
final class RequestServices: Sendable {
    /// Whom to ask about people.
    let authenticator: Authenticator
    /// Where assets come and go.
    let assets: AssetDesk
    /// Who takes in devices that poll.
    let couriers: Couriers
    /// Who takes in devices that sleep; `nil` where nobody wakes them.
    let pushes: PushDesk?
    private let stores: any StoreCatalog
    /// Counts what queries ask of indexes.
    let queryUse: QueryUse
    /// Makes names for records whose client made none.
    let newRecordName: @Sendable () -> String
    /// Makes 128 random bits as text, for links.
    let newSecret: @Sendable () -> String

    init(
        authenticator: Authenticator,
        assets: AssetDesk,
        couriers: Couriers,
        pushes: PushDesk?,
        stores: any StoreCatalog,
        queryUse: QueryUse,
        random: RandomSource
    ) {
        self.stores = stores
        self.authenticator = authenticator
        self.assets = assets
        self.couriers = couriers
        self.pushes = pushes
        self.queryUse = queryUse
        newRecordName = { random.uuid().uppercased() }
        newSecret = { Base64URL.encode(random.bytes(16)) }
    }

    /// A schema as it is now; `nil` where nobody has used that environment.
    func schema(of home: ContainerEnvironment) -> Schema? {
        stores.isThere(home) ? try? stores.store(of: home).currentSchema : nil
    }
}

/// One authenticated request on its way through an endpoint.
///
/// A class, since it is handed on from function to function and is never changed.
final class RequestContext: Sendable {
    /// The `uuid` of its errors.
    let requestID: RequestIdentifier
    let home: ContainerEnvironment
    let database: DatabaseAddress
    let authentication: Authentication
    private let services: RequestServices
    /// The peer's, for limits that count by address.
    let remoteAddress: String
    /// Called by GET, where the operation knows both.
    let isGet: Bool
    let store: any Store
    let body: JSONValue
    let limits: Limits
    let now: Timestamp
    let types: KnownTypes
    /// What was read from its head.
    let reading: HeadReading
    private let uploads = Mutex<[AssetHash]>([])

    /// The fresh assets that it puts to use.
    var usedUploads: [AssetHash] { uploads.withLock { $0 } }

    func useUpload(_ hash: AssetHash) { uploads.withLock { $0.append(hash) } }

    var authenticator: Authenticator { services.authenticator }
    var assets: AssetDesk { services.assets }
    var couriers: Couriers { services.couriers }
    var pushes: PushDesk? { services.pushes }
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
        types: KnownTypes,
        reading: HeadReading
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
        self.reading = reading
    }

    /// The zone that a `zoneID` member of `json` names; the default zone where there is none.
    func zone(of json: JSONValue) throws -> ZoneID {
        try database.zone(try json["zoneID"].map { try ZoneIDCodec.read($0) } ?? ZoneID(ZoneID.defaultName))
    }

    /// `resultsLimit`, held to the greatest page.
    func resultsLimit(of json: JSONValue) throws -> Int {
        guard let limit = try json["resultsLimit"]?.int64() else { return limits.itemsPerRequest }
        guard limit > 0 else { throw RelayError.badRequest("resultsLimit must be 1 or more.") }
        return Int(min(limit, Int64(limits.itemsPerRequest)))
    }

    /// The array member of this name with at most as many elements as a request may have, or as `most` says.
    func items(_ name: StaticString, of json: JSONValue, most: Int? = nil) throws -> [JSONValue] {
        let elements = try json.required(name).elements()
        let most = most ?? limits.itemsPerRequest
        guard elements.count <= most else {
            throw RelayError(
                .badRequest,
                "A request may have \(most) \(name), this one has \(elements.count).",
                fineCode: .limitExceeded
            )
        }
        return elements
    }

    /// Which fields the client wants back, and how.
    func selection(of json: JSONValue, else outer: FieldsJSON.Selection? = nil) throws -> FieldsJSON.Selection {
        var selection = outer ?? .all
        if let keys = json["desiredKeys"] { selection.desiredKeys = Set(try stringArray(keys)) }
        if let flag = json["numbersAsStrings"] ?? json["numberAsStrings"] {
            selection.numbersAsStrings = try flag.bool()
        }
        return selection
    }
}

extension RequestContext: TypeWitness {
    func isOnlyInDevelopment(_ type: String) -> Bool {
        guard home.environment == .production else { return false }
        return services.schema(of: ContainerEnvironment(home.container, .development))?.types[type] != nil
    }
}

/// What an endpoint answers.
struct EndpointAnswer: Sendable {
    /// Why nothing was done, where the answer says more than that.
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
