package import HTTPTypes
import Records
import RelayCore
import Synchronization
import Wire

/// The method, path, query and header fields of a request.
///
/// The one cache entry of everything that a head determines: requests that begin with the same bytes share an instance,
/// so that the head is parsed, its route found and its credentials checked only once. See `RequestHeadCache` in
/// RelayServer.
package final class RequestHead: Sendable {
    package struct Content: Sendable {
        package var method: HTTPRequest.Method
        /// The path of the request line, percent-encoded, without the query.
        package var path: String
        /// The part after `?`, percent-encoded.
        package var query: String?
        package var headers: HTTPFields
        /// The peer's IP address without port; used only for limits per address.
        package var remoteAddress: String

        package init(
            method: HTTPRequest.Method,
            path: String,
            query: String?,
            headers: HTTPFields,
            remoteAddress: String
        ) {
            self.method = method
            self.path = path
            self.query = query
            self.headers = headers
            self.remoteAddress = remoteAddress
        }
    }

    package let content: Content
    private let known = Mutex<ParsedRequestHead?>(nil)

    package init(_ content: Content) { self.content = content }

    /// The parsed head, created on first access.
    var parsedHead: ParsedRequestHead {
        known.withLock { known in
            if let known { return known }
            let parsedHead = ParsedRequestHead(content)
            known = parsedHead
            return parsedHead
        }
    }
}

/// The parsed form of a request head, shared by all requests with the same head.
final class ParsedRequestHead: Sendable {
    /// The container in the path, if any; can be set even if the path names no endpoint.
    let home: ContainerEnvironment?
    let presented: PresentedCredentials
    /// Whether the request is signed with a server-to-server key.
    ///
    /// Each signed request must be verified separately.
    let isSigned: Bool
    private let found = Mutex<FoundRoute?>(nil)
    private let provisioned = Atomic<Bool>(false)
    private let verified = Mutex<VerifiedCredentials?>(nil)
    private let types = Mutex<RecordTypeCache?>(nil)
    private let zones = Mutex<ParsedZoneID?>(nil)

    private struct FoundRoute {
        /// Retained, so that the identity of another router cannot be the same.
        var router: Router
        var match: Result<RouteMatch, RelayError>
    }

    /// What the router has found for this head; `nil` before it has looked.
    func match(by router: Router) -> Result<RouteMatch, RelayError>? {
        found.withLock { $0.flatMap { $0.router === router ? $0.match : nil } }
    }

    func keep(_ match: Result<RouteMatch, RelayError>, by router: Router) {
        found.withLock { $0 = FoundRoute(router: router, match: match) }
    }

    /// The endpoint at which the request arrived; `nil` before, and for paths that name none.
    var match: RouteMatch? { found.withLock { try? $0?.match.get() } }

    /// The zone of the latest request.
    ///
    /// Usually the next request uses the same one.
    var zone: ParsedZoneID? {
        get { zones.withLock { $0 } }
        set { zones.withLock { $0 = newValue } }
    }

    /// The result of the latest authentication with these credentials, usually valid for the next request too.
    var credentials: VerifiedCredentials? {
        get { verified.withLock { $0 } }
        set { verified.withLock { $0 = newValue } }
    }

    /// Returns the compiled record types of the container, looked up only once.
    func types(in all: RecordTypeCaches, of home: ContainerEnvironment) -> RecordTypeCache {
        types.withLock { types in
            if let types { return types }
            let found = all[home]
            types = found
            return found
        }
    }

    /// Whether first-use provisioning is known to be done.
    ///
    /// Credentials never change their user, so this stays valid.
    var isProvisioned: Bool {
        get { provisioned.load(ordering: .relaxed) }
        set { provisioned.store(newValue, ordering: .relaxed) }
    }

    init(_ head: RequestHead.Content) {
        home = Route.home(ofPath: head.path)
        let presented = PresentedCredentials(head)
        self.presented = presented
        isSigned = presented.signature.isPresent
    }
}

/// A zone ID together with its JSON encodings in requests and responses.
///
/// A client usually writes to one zone and encodes its ID identically each time, so the ID is parsed only once.
final class ParsedZoneID: Sendable {
    /// The JSON in the request.
    private let given: [UInt8]
    private let caller: UserID?
    let id: ZoneID
    /// The JSON in responses.
    let text: [UInt8]

    init(_ given: JSONValue, _ id: ZoneID, of caller: UserID?) {
        self.given = Array(given.rawBytes)
        self.caller = caller
        self.id = id
        var writer = JSONWriter()
        ZoneIDCodec.write(id, to: &writer)
        text = writer.bytes
    }

    /// Returns whether the caller's JSON is the same as in the earlier request.
    func matches(_ json: JSONValue, caller: UserID?) -> Bool {
        self.caller == caller && json.hasText(given)
    }
}

/// A cache of one container's compiled record types, emptied when the schema changes.
final class RecordTypeCache: Sendable {
    private struct Kept {
        var version = -1
        var types: [CompiledRecordType] = []
    }

    private let kept = Mutex(Kept())
    /// The maximum number of cached types; further types are compiled for each write.
    private static let maxCount = 64

    func type(_ name: String, in schema: Schema) -> CompiledRecordType {
        kept.withLock { kept in
            if kept.version != schema.version { kept = Kept(version: schema.version) }
            for type in kept.types where type.name == name { return type }
            let type = CompiledRecordType(name, in: schema)
            // Unknown types are not cached: they may be added later, and a client can name any number of them.
            if type.definition != nil, kept.types.count < Self.maxCount { kept.types.append(type) }
            return type
        }
    }
}

/// The caches of all containers.
final class RecordTypeCaches: Sendable {
    private let all = Mutex<[ContainerEnvironment: RecordTypeCache]>([:])

    subscript(home: ContainerEnvironment) -> RecordTypeCache {
        all.withLock { all in
            if let known = all[home] { return known }
            let new = RecordTypeCache()
            all[home] = new
            return new
        }
    }

    /// Drops what is known of a store that may be replaced.
    func drop(_ home: ContainerEnvironment) { all.withLock { $0[home] = nil } }
}

/// Counts the lookups in a cache; safe from any thread.
package final class CacheLookups: Sendable {
    private let hitCount = Atomic<Int>(0)
    private let missCount = Atomic<Int>(0)

    package init() {}

    package func countHit() { hitCount.add(1, ordering: .relaxed) }
    package func countMiss() { missCount.add(1, ordering: .relaxed) }

    package var hits: Int { hitCount.load(ordering: .relaxed) }
    package var misses: Int { missCount.load(ordering: .relaxed) }
}
