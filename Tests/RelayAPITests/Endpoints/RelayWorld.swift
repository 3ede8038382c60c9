import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import StoreTesting
import Synchronization
import Testing
import Wire

/// A relay under test, called with request values; `dev-NAME` tokens identify the caller.
protocol RelayCalling {
    var relay: Relay { get }
    var container: String { get }
}

extension RelayCalling {
    /// Sends a request as `user`; `nil` sends an API token only.
    func ask(
        _ operation: String,
        as user: String? = "alice",
        _ body: String = "{}",
        method: HTTPRequest.Method = .post,
        environment: String = "development",
        root: String = "/database/1/",
        from device: String? = nil
    ) async throws -> Answer {
        var request = APIRequest(
            method: method,
            path: "\(root)\(container)/\(environment)/\(operation)",
            query: "ckAPIToken=x" + (user.map { "&ckWebAuthToken=dev-\($0)" } ?? ""),
            body: Array(body.utf8)
        )
        if let device, let name = HTTPField.Name("X-Zonecast-Device-ID") { request.headers[name] = device }
        let response = await relay.respond(to: request)
        return Answer(
            status: response.status.code,
            json: try JSONDocument(parsing: response.body).root,
            response: response
        )
    }

    /// Creates a zone owned by the user.
    func makeZone(_ name: String, as user: String = "alice") async throws {
        let answer = try await ask(
            "private/zones/modify",
            as: user,
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"\#(name)"}}}]}"#
        )
        #expect(answer.status == 200)
    }
}

/// A complete relay, in memory unless it gets a lasting place.
final class RelayWorld: RelayCalling, Sendable {
    let relay: Relay
    let directory: any AccountDirectory
    let stores: any ServedStores
    let container = "iCloud.org.example.notes"

    init(
        directory: (any AccountDirectory)? = nil,
        limits: Limits = Limits(),
        time: TimeSource = .system,
        in place: any TestHome = TestStore.current.makeHome(),
        hub: NoticeHub? = nil,
        push: PushDependencies? = nil,
        _ change: (inout SignInSettings) -> Void = { _ in },
        scheduler: TestStoreOptions.Scheduler? = nil
    ) throws {
        self.directory = try directory ?? place.accounts()
        var settings = SignInSettings()
        settings.acceptsDevTokens = true
        settings.requestRate = nil
        settings.publicRate = nil
        settings.failedCredentialRate = nil
        change(&settings)
        let authenticator = try Authenticator(
            directory: self.directory,
            settings: settings,
            time: time,
            random: .system
        )
        let drawn = Mutex(SplitMix(state: 1))
        let notices = hub.map { CommitNotices($0.bus) }
        stores = place.stores(
            TestStoreOptions(
                draw: { drawn.withLock { $0.next() } },
                committed: { home, commit in notices?.publish(commit, of: home) },
                scheduler: scheduler
            )
        )
        relay = Relay(
            authenticator: authenticator,
            stores: stores,
            hub: hub,
            limits: limits,
            push: push,
            time: time,
            random: .system
        )
    }

    /// Returns another relay on the same stores, with these asset limits.
    func relay(assets: AssetSettings) -> Relay {
        Relay(authenticator: relay.authenticator, stores: stores, assets: assets, time: .system, random: .system)
    }

    /// Runs operations on a zone.
    func modify(
        in database: String = "private",
        zone: String = "Notes",
        as user: String? = "alice",
        atomic: Bool = false,
        _ operations: [Operation]
    ) async throws -> Answer {
        let list = operations.map(\.json).joined(separator: ",")
        return try await ask(
            "\(database)/records/modify",
            as: user,
            #"{"zoneID":{"zoneName":"\#(zone)"},"atomic":\#(atomic),"operations":[\#(list)]}"#
        )
    }

    struct Operation {
        var kind: String
        var name: String?
        var tag: String?
        var type: String? = "Note"
        var fields = "{}"

        var json: String {
            var parts = [#""fields":\#(fields)"#]
            if let name { parts.append(#""recordName":"\#(name)""#) }
            if let tag { parts.append(#""recordChangeTag":"\#(tag)""#) }
            if let type { parts.append(#""recordType":"\#(type)""#) }
            return #"{"operationType":"\#(kind)","record":{\#(parts.joined(separator: ","))}}"#
        }

        static func create(_ name: String?, title: String = "a") -> Operation {
            Operation(kind: "create", name: name, fields: #"{"title":{"value":"\#(title)"}}"#)
        }
    }

    /// Fetches a page of the zone's feed.
    func changes(
        zone: String = "Notes",
        since token: String? = nil,
        limit: Int = 200,
        as user: String = "alice",
        extra: String = ""
    ) async throws -> JSONValue {
        let since = token.map { #","syncToken":"\#($0)""# } ?? ""
        let answer = try await ask(
            "private/changes/zone",
            as: user,
            #"{"zones":[{"zoneID":{"zoneName":"\#(zone)"},"resultsLimit":\#(limit)\#(since)\#(extra)}]}"#
        )
        return try #require(try answer.json.required("zones").elements().first)
    }
}

/// A response with its parsed body.
struct Answer {
    var status: Int
    var json: JSONValue
    var response: APIResponse

    /// Returns the elements of a top-level array.
    func items(_ name: StaticString) throws -> [JSONValue] { try json.required(name).elements() }

    var code: String? { json.text("serverErrorCode") }
}

extension JSONValue {
    func text(_ name: StaticString) -> String? { try? self[name]?.string() }
    func flag(_ name: StaticString) -> Bool? { try? self[name]?.bool() }

    /// Returns the value of a record's field.
    func field(_ name: String) throws -> JSONValue? {
        try required("fields").members().first { $0.name == name }?.value["value"]
    }
}
