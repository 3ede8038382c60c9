import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore
import Testing
import Wire

/// The description against what it describes.
@Suite struct OpenAPITests {
    private let schema: JSONSchema

    init() throws {
        schema = JSONSchema(document: try JSONDocument(parsing: OpenAPIDescription.json, limits: .response).root)
    }

    @Test func everyRouteIsDescribedAndNothingElse() {
        let routes = Set(Route.Operation.allCases.map(\.rawValue))
        let described = Set(OpenAPIOperation.all.map(\.route))
        #expect(routes.subtracting(described).isEmpty, "not described: add rows to OpenAPIOperation.all")
        #expect(described.subtracting(routes).isEmpty, "described, but not served")
        #expect(OpenAPIOperation.all.count == described.count)
    }

    @Test(arguments: Route.Operation.allCases) func methodsAndPathsAreTheRoutes(_ operation: Route.Operation) throws {
        let row = try #require(OpenAPIOperation.all.first { $0.route == operation.rawValue })
        #expect(Set(row.methods) == (operation.allowsGet ? [.get, .post] : [.post]))
        for path in row.paths {
            let filled = path.text.replacing("{container}", with: "iCloud.a").replacing(
                "{environment}",
                with: "production"
            )
            .replacing("{database}", with: "private")
            #expect(try Route(path: filled).operation == operation)
            let item = try schema.resolve("#/paths").members().first { $0.name == path.text }
            #expect(item != nil)
        }
    }

    @Test func everyReferenceLeadsSomewhere() throws {
        func check(_ value: JSONValue) throws {
            if let reference = try? value["$ref"]?.string() { _ = try schema.resolve(reference) }
            if value.isObject { for member in try value.members() { try check(member.value) } }
            if value.isArray { for element in try value.elements() { try check(element) } }
        }
        try check(schema.document)
    }

    @Test func operationsHaveNamesOfTheirOwn() throws {
        var seen: Set<String> = []
        for path in try schema.resolve("#/paths").members() {
            for method in try path.value.members() where method.value.isObject {
                let id = try method.value.required("operationId").string()
                #expect(seen.insert(id).inserted, "\(id) twice")
            }
        }
        #expect(seen.count > 20)
    }

    @Test func theErrorCodesAreTheRelays() throws {
        let codes = try schema.resolve("#/components/schemas/ErrorCode").required("enum").elements().map {
            try $0.string()
        }
        #expect(Set(codes) == Set(ErrorCode.allCases.map(\.rawValue)))
        let fine = try schema.resolve("#/components/schemas/FineErrorCode").required("enum").elements()
        #expect(Set(try fine.map { try $0.string() }) == Set(FineErrorCode.allCases.map(\.rawValue)))
        let comparators = try schema.resolve("#/components/schemas/Comparator").required("enum").elements()
        #expect(Set(try comparators.map { try $0.string() }) == Set(Query.Comparator.allCases.map(\.rawValue)))
    }

    @Test func itIsServedToEverybody() async throws {
        let world = try RelayWorld()
        for path in ["/openapi.json", "/behind/a/proxy/openapi.json"] {
            let response = await world.relay.respond(to: APIRequest(method: .get, path: path))
            #expect(response.status == .ok && response.body == OpenAPIDescription.json)
            #expect(response.headers[.contentType] == "application/json; charset=UTF-8")
        }
        let posted = await world.relay.respond(to: APIRequest(method: .post, path: "/openapi.json"))
        #expect(posted.status == .methodNotAllowed)
    }

    /// One request for each operation, in an order in which all find what they need.
    private static let requests: [(operation: String, body: String)] = [
        (
            "private/zones/modify",
            #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        ),
        ("private/zones/list", "{}"),
        ("private/zones/lookup", #"{"zones":[{"zoneName":"Notes"},{"zoneName":"Gone"}]}"#),
        (
            "private/records/modify",
            #"""
            {"zoneID":{"zoneName":"Notes"},"atomic":false,"operations":[
            {"operationType":"create","record":{"recordName":"a","recordType":"Note","fields":{"t":{"value":"x"},
            "l":{"value":["a"]},"d":{"value":1.5},"when":{"value":1,"type":"TIMESTAMP"},"b":{"value":"AAAA","type":"BYTES"},
            "at":{"value":{"latitude":1,"longitude":2}},"r":{"value":{"recordName":"a","action":"NONE"}}}}},
            {"operationType":"create","record":{"recordName":"a","recordType":"Note"}},
            {"operationType":"update","record":{"recordName":"missing","recordChangeTag":"1"}},
            {"operationType":"forceDelete","record":{"recordName":"gone"}}]}
            """#
        ),
        (
            "private/records/lookup",
            #"{"zoneID":{"zoneName":"Notes"},"records":[{"recordName":"a"},{"recordName":"b"}]}"#
        ),
        ("private/records/query", #"{"zoneID":{"zoneName":"Notes"},"query":{"recordType":"Note"},"resultsLimit":1}"#),
        ("private/records/changes", #"{"zoneID":{"zoneName":"Notes"}}"#),
        ("private/changes/zone", #"{"zones":[{"zoneID":{"zoneName":"Notes"}},{"zoneID":{"zoneName":"Gone"}}]}"#),
        ("private/changes/database", "{}"),
        ("private/zones/changes", "{}"),
        (
            "private/subscriptions/modify",
            #"""
            {"operations":[{"operationType":"create","subscription":{"subscriptionID":"q","subscriptionType":"query",
            "query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"t","fieldValue":{"value":"x"}}]},
            "firesOn":["create"],"notificationInfo":{"alertBody":"x"}}},
            {"operationType":"create","subscription":{"subscriptionID":"z","subscriptionType":"zone","zoneID":{"zoneName":"Notes"}}},
            {"operationType":"create","subscription":{"subscriptionID":"bad"}},
            {"operationType":"delete","subscription":{"subscriptionID":"gone"}}]}
            """#
        ),
        ("private/subscriptions/list", "{}"),
        ("private/subscriptions/lookup", #"{"subscriptions":[{"subscriptionID":"q"},{"subscriptionID":"none"}]}"#),
        ("private/assets/upload", #"{"tokens":[{"recordType":"Note","fieldName":"photo"}]}"#),
        ("private/assets/rereference", #"{"assets":[{"recordName":"none","fieldName":"photo"}]}"#),
        ("private/assets/upload", #"{"tokens":[{"recordType":"Note","fieldName":"file"}]}"#),
        ("tokens/create", "{}"),
        ("public/users/caller", "{}"),
        ("public/users/current", "{}"),
        ("public/users/discoverability", #"{"isDiscoverable":true}"#),
        ("public/users/discover", #"{"lookupInfos":[{"emailAddress":"alice@example.com"}]}"#),
        ("public/users/lookup/email", #"{"users":[{"emailAddress":"nobody@example.com"}]}"#),
        ("public/users/lookup/id", #"{"users":[{"userRecordName":"_0"}]}"#),
        ("public/users/lookup/contacts", "{}"),
    ]

    @Test func theAnswersOfARelayAreAsDescribed() async throws {
        let world = try SubscriptionWorld()
        for (operation, body) in Self.requests {
            let answer = try await world.ask(operation, body)
            #expect(answer.status == 200, "\(operation): \(answer.json.text("reason") ?? "")")
            let route = operation.split(separator: "/", maxSplits: 1).last.map(String.init) ?? ""
            let row = try #require(OpenAPIOperation.all.first { $0.route == route || $0.route == operation })
            let faults = try schema.faults(of: answer.json, by: schema.resolve("#/components/schemas/\(row.response)"))
            #expect(faults.isEmpty, "\(operation)")
        }
    }

    @Test func aSignInByPasswordIsAsDescribed() async throws {
        let directory = try AccountStore(inMemory: ())
        _ = try directory.addAccount(email: "alice@example.org", password: "correct horse")
        let world = try SubscriptionWorld(directory: directory)
        let body = #"{"emailAddress":"alice@example.org","password":"correct horse"}"#
        let request = try JSONDocument(parsing: Array(body.utf8)).root
        #expect(try schema.faults(of: request, by: schema.resolve("#/components/schemas/SignInRequest")).isEmpty)
        let answer = try await world.ask("public/users/signin", as: nil, body)
        #expect(answer.status == 200)
        #expect(try schema.faults(of: answer.json, by: schema.resolve("#/components/schemas/SignInResponse")).isEmpty)
        #expect(try answer.json.required("expires").int64() > Int64(Date().timeIntervalSince1970 * 1000))
    }

    @Test(arguments: [
        ("private/records/modify", "{}"), ("private/records/lookup", #"{"records":1}"#), ("private/nothing", "{}"),
        ("public/changes/zone", #"{"zones":[]}"#),
        ("private/records/lookup", #"{"zoneID":{"zoneName":"No"},"records":[]}"#),
    ])
    func refusalsAreAsDescribed(_ operation: String, _ body: String) async throws {
        let answer = try await SubscriptionWorld().ask(operation, body)
        #expect(answer.status >= 400)
        let faults = try schema.faults(of: answer.json, by: schema.resolve("#/components/schemas/Error"))
        #expect(faults.isEmpty)
    }

    @Test func anAtomicFailureIsAsDescribed() async throws {
        let world = try SubscriptionWorld()
        try await world.makeZone("Notes")
        let answer = try await world.ask(
            "private/records/modify",
            #"""
            {"zoneID":{"zoneName":"Notes"},"operations":[{"operationType":"create","record":{"recordType":"Note"}},
            {"operationType":"delete","record":{"recordName":"x"}}]}
            """#
        )
        #expect(answer.status == 400 && answer.code == "ATOMIC_ERROR")
        let faults = try schema.faults(of: answer.json, by: schema.resolve("#/components/schemas/AtomicFailure"))
        #expect(faults.isEmpty)
    }
}
