package import HTTPTypes
package import Records
import RelayCore
import Synchronization

/// The relay's endpoints in one table: path and method to the function that answers.
///
/// Each part of the relay contributes the entries of its own folder. A request's head is looked up once, and a repeated
/// head not again (`RequestHead`).
package final class Router: Sendable {
    fileprivate struct Table {
        /// The operations by name.
        var operations: [String: [RouteEntry]] = [:]
        var whole: [String: [RouteEntry]] = [:]
        /// By the first segment; patterns with fewer variable segments come first.
        var ending: [String: [(pattern: [String], entries: [RouteEntry])]] = [:]
    }

    private let table = Mutex(Table())

    package init(_ entries: [RouteEntry]) { add(entries) }

    /// Adds the entries of another part of the relay.
    ///
    /// Call before the first request.
    package func add(_ entries: [RouteEntry]) {
        table.withLock { table in
            for entry in entries { table.add(entry) }
        }
    }

    /// Removes all entries, some of which may retain the relay; call it when the relay has stopped.
    package func removeAll() { table.withLock { $0 = Table() } }

    /// The entry of a request, looked up only once.
    package func entry(of request: APIRequest) -> RouteEntry? { try? match(request.head).get().entry }

    /// Looks a request up.
    ///
    /// Throws `badRequest` if the path is malformed and `notFound` if nothing is at the path.
    func match(_ head: RequestHead) -> Result<RouteMatch, RelayError> {
        let parsedHead = head.parsedHead
        if let known = parsedHead.match(by: self) { return known }
        let found = Result { () throws(RelayError) in try match(head.content.path, head.content.method) }
        parsedHead.keep(found, by: self)
        return found
    }

    /// Looks a path and a method up.
    package func match(_ path: String, _ method: HTTPRequest.Method) throws(RelayError) -> RouteMatch {
        let table = table.withLock { $0 }
        if let entries = table.whole[path] { return RouteMatch(entries, method) }
        let raw = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let operation = Result { () throws(RelayError) in try table.operation(path) }
        if let (entries, home, scope) = try? operation.get() {
            return RouteMatch(entries, method) { Route(home: home, scope: scope, operation: $0) }
        }
        // A path of the wire format is nothing else, whatever its end; `device` has an endpoint that is no operation.
        let wire = raw.indices.first { place in
            ["database", "device"].contains(raw[place]) && place + 1 < raw.count && raw[place + 1] == "1"
        }
        for start in wire.map({ $0..<$0 + 1 }) ?? raw.indices {
            for (pattern, entries) in table.ending[raw[start]] ?? [] {
                guard let parameters = Self.parameters(of: raw[start...], pattern) else { continue }
                return RouteMatch(entries, method, parameters: parameters)
            }
        }
        _ = try operation.get()
        throw .unknownPath
    }

    /// Returns the variable segments if the segments match the pattern.
    private static func parameters(of segments: ArraySlice<String>, _ pattern: [String]) -> [String]? {
        let hasRest = pattern.last == "**"
        guard hasRest ? segments.count >= pattern.count : segments.count == pattern.count else { return nil }
        var parameters: [String] = []
        for (part, place) in zip(pattern, segments.indices) {
            switch part {
            case "**": parameters.append(segments[place...].joined(separator: "/"))
            case "{}": parameters.append(segments[place])
            default: guard part == segments[place] else { return nil }
            }
        }
        return parameters
    }
}

extension Router.Table {
    fileprivate mutating func add(_ entry: RouteEntry) {
        switch entry.path {
        case .database(let name), .databaseOrNone(let name), .databaseOrDevice(let name):
            operations[name, default: []].append(entry)
        case .whole(let path): whole[path, default: []].append(entry)
        case .ending(let text):
            let pattern = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
            var known = ending[pattern[0], default: []]
            if let place = known.firstIndex(where: { $0.pattern == pattern }) {
                known[place].entries.append(entry)
            } else {
                let place = known.firstIndex { Self.width(of: $0.pattern) > Self.width(of: pattern) }
                known.insert((pattern, [entry]), at: place ?? known.endIndex)
            }
            ending[pattern[0]] = known
        }
    }

    /// How much a pattern leaves open.
    private static func width(of pattern: [String]) -> Int {
        // A pattern with a rest leaves more open than any without, and less the longer it is.
        pattern.last == "**" ? 1_000 - pattern.count : pattern.count { $0 == "{}" }
    }

    /// Parses the path of an operation; everything before `/database/1/` is a proxy's prefix and ignored.
    fileprivate func operation(
        _ path: String
    ) throws(RelayError) -> (entries: [RouteEntry], home: ContainerEnvironment, scope: DatabaseScope) {
        var segments = try Route.segments(of: path)
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
        let name = segments[(named == nil ? 3 : 4)...].joined(separator: "/")
        guard let entries = operations[name],
            entries[0].path.isFound(inDevice: isDevice, hasDatabase: named != nil)
        else { throw .unknownPath }
        return (entries, ContainerEnvironment(container, environment), named ?? .private)
    }
}

/// Where an endpoint is found; a proxy's prefix may come first, except for `whole`.
package enum RoutePath: Sendable {
    /// An operation: `/database/1/{container}/{environment}/{database}/` and this name.
    case database(String)
    /// Like `database`, and also without `{database}`, which is then the private one.
    ///
    /// Apple's page of subscriptions/lookup omits it; the relay applies the same rule to the two related operations. See
    /// Wire.md, "Operations".
    case databaseOrNone(String)
    /// Like `databaseOrNone`, and also below `/device/1/{container}/{environment}/`.
    case databaseOrDevice(String)
    /// The path of a request, from its first character to its last.
    case whole(String)
    /// The last segments of a path: `{}` stands for any segment, and `**` at the end for any rest.
    case ending(String)

    fileprivate func isFound(inDevice isDevice: Bool, hasDatabase: Bool) -> Bool {
        switch self {
        case .database: hasDatabase
        case .databaseOrNone: !isDevice
        case .databaseOrDevice: true
        case .whole, .ending: false
        }
    }
}

/// One endpoint: where it is found, who may call it, and the function that answers.
package final class RouteEntry: Sendable {
    /// The name in metrics, logs and traces; an operation's name is the end of its path.
    package let name: String
    let path: RoutePath
    package let methods: [HTTPRequest.Method]
    let callers: Callers
    let counted: Counted
    let origins: Origins
    /// Whether requests are counted, logged and traced: not those of operators and probes.
    package let isMonitored: Bool
    let endpoint: Endpoint

    private init(
        _ name: String,
        _ path: RoutePath,
        _ methods: [HTTPRequest.Method],
        callers: Callers = .everybody,
        counted: Counted = [],
        origins: Origins,
        isMonitored: Bool = true,
        _ endpoint: Endpoint
    ) {
        self.name = name
        self.path = path
        self.methods = methods
        self.callers = callers
        self.counted = counted
        self.origins = origins
        self.isMonitored = isMonitored
        self.endpoint = endpoint
    }

    /// The callers whom an operation admits, in the public database; in the others, only users are admitted.
    ///
    /// See Wire.md, "Callers".
    struct Callers: OptionSet {
        let rawValue: Int
        /// Users and server-to-server keys.
        static let users = Callers([])
        /// Callers without a user.
        static let anonymous = Callers(rawValue: 1)
        /// Operators in the console.
        static let operators = Callers(rawValue: 2)
        /// The endpoint itself decides.
        static let everybody: Callers = [.anonymous, .operators]
    }

    /// What a request to the public database is counted for.
    struct Counted: OptionSet {
        let rawValue: Int
        /// The rate of requests; not for operations about people, so that a busy public database does not prevent
        /// sign-in.
        static let rate = Counted(rawValue: 1)
        /// The bytes of the response: it contains requested records.
        static let transfer = Counted(rawValue: 2)
    }

    /// The pages whose scripts may call an endpoint.
    package enum Origins: Sendable {
        /// Pages of the relay only.
        case own
        /// Pages of the origins that the operator has configured for the container.
        case configured
        /// All pages, with these request fields; their scripts may read these response fields.
        case any(sending: String = "", reading: String = "")
    }

    /// The function that answers.
    enum Endpoint: Sendable {
        /// An operation that waits for nothing but its write: runs in place where reads do not block.
        case step(@Sendable (RequestContext) throws -> EndpointStep)
        /// An operation that has to wait, for example for an index.
        case waiting(@Sendable (RequestContext) async throws -> EndpointAnswer)
        /// Everything else; `nil` if there is nothing at the path for this request.
        case page(@Sendable (APIRequest, RouteMatch) async throws -> APIResponse?)
    }
}

/// The entries of operations.
extension RouteEntry {
    /// All operations of the wire format.
    package static let operations: [RouteEntry] = [
        records, zones, changes, queries, shares, subscriptions, assets, people, pushes, limits,
    ].flatMap { $0 }

    /// An operation that reads.
    static func reading(
        _ path: RoutePath,
        methods: [HTTPRequest.Method] = [.post],
        by callers: Callers = .users,
        counted: Counted = .rate,
        _ endpoint: @escaping @Sendable (RequestContext) throws -> EndpointAnswer
    ) -> RouteEntry {
        writing(path, methods: methods, by: callers, counted: counted) { .answer(try endpoint($0)) }
    }

    /// An operation that writes.
    static func writing(
        _ path: RoutePath,
        methods: [HTTPRequest.Method] = [.post],
        by callers: Callers = .users,
        counted: Counted = .rate,
        _ endpoint: @escaping @Sendable (RequestContext) throws -> EndpointStep
    ) -> RouteEntry {
        RouteEntry(path.name, path, methods, callers: callers, counted: counted, origins: .configured, .step(endpoint))
    }

    /// An operation that has to wait.
    static func waiting(
        _ path: RoutePath,
        methods: [HTTPRequest.Method] = [.post],
        by callers: Callers = .users,
        counted: Counted = .rate,
        _ endpoint: @escaping @Sendable (RequestContext) async throws -> EndpointAnswer
    ) -> RouteEntry {
        RouteEntry(
            path.name,
            path,
            methods,
            callers: callers,
            counted: counted,
            origins: .configured,
            .waiting(endpoint)
        )
    }
}

/// The entries of everything else.
extension RouteEntry {
    /// An endpoint that is no operation.
    ///
    /// `answer` is called for `methods` only; OPTIONS and all other methods are answered for it. It gets the variable
    /// segments of the path with the match, and returns `nil` if there is nothing at the path for this request.
    package static func page(
        _ name: String,
        _ path: RoutePath,
        _ methods: [HTTPRequest.Method],
        origins: Origins = .own,
        isMonitored: Bool = true,
        _ answer: @escaping @Sendable (APIRequest, RouteMatch) async throws -> APIResponse?
    ) -> RouteEntry {
        RouteEntry(name, path, methods, origins: origins, isMonitored: isMonitored, .page(answer))
    }
}

extension RoutePath {
    fileprivate var name: String {
        switch self {
        case .database(let name), .databaseOrNone(let name), .databaseOrDevice(let name), .whole(let name),
            .ending(let name):
            name
        }
    }
}

extension [HTTPRequest.Method] {
    package static let reading: [HTTPRequest.Method] = [.get, .head]
    /// Of operations for which GET is documented; POST is accepted for every operation.
    static let getOrPost: [HTTPRequest.Method] = [.get, .post]
}

/// The outcome of looking a request up.
package final class RouteMatch: Sendable {
    package let entry: RouteEntry
    /// The database and the operation; `nil` for everything that is no operation.
    package let route: Route?
    /// The variable segments of the path, as the path has them.
    package let parameters: [String]
    /// Whether the entry answers the method of the request.
    let isAllowed: Bool
    /// The methods that the path supports, as the value of the header `Allow`.
    let allowed: String

    fileprivate init(
        _ entries: [RouteEntry],
        _ method: HTTPRequest.Method,
        parameters: [String] = [],
        route: (RouteEntry) -> Route? = { _ in nil }
    ) {
        let found = entries.first { $0.methods.contains(method) }
        let entry = found ?? entries[0]
        self.entry = entry
        isAllowed = found != nil
        let methods = entries.flatMap(\.methods).map(\.rawValue)
        allowed = (methods.contains("OPTIONS") ? methods : methods + ["OPTIONS"]).joined(separator: ", ")
        self.route = route(entry)
        self.parameters = parameters
    }
}

/// An operation on a database.
///
/// See Wire.md, "URLs".
package struct Route: Sendable {
    package let home: ContainerEnvironment
    package let scope: DatabaseScope
    package let operation: RouteEntry

    /// Returns the container in a path, also if the path names no known operation.
    package static func home(ofPath path: String) -> ContainerEnvironment? {
        guard let segments = try? Self.segments(of: path),
            let start = segments.firstIndex(where: { $0 == "database" || $0 == "push" || $0 == "device" }),
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
