import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Testing
import Wire

/// Compares `openapi.json` with the routes and with a relay's responses.
@Suite struct OpenAPITests {
    private let schema: JSONSchema

    init() throws {
        schema = JSONSchema(document: try JSONDocument(parsing: OpenAPIDocument.json, limits: .response).root)
    }

    /// Returns the paths below `/database/1/` and `/device/1/` with their methods, by operation.
    ///
    /// The long poll has an address below `/device/1/` and is not an operation.
    private func describedOperations() throws -> [String: [(path: String, methods: Set<String>)]] {
        let router = Router(RouteEntry.operations)
        var described: [String: [(path: String, methods: Set<String>)]] = [:]
        for path in try schema.resolve("#/paths").members() {
            guard path.name.hasPrefix("/database/1/") || path.name.hasPrefix("/device/1/") else { continue }
            if path.name.hasSuffix("/webcourier") { continue }
            let filled = path.name.replacing("{container}", with: "iCloud.a").replacing(
                "{environment}",
                with: "production"
            )
            .replacing("{database}", with: "private")
            let methods = try path.value.members().map(\.name).filter { $0 != "parameters" }
            let operation = try router.match(filled, .post).entry.name
            described[operation, default: []].append((path.name, Set(methods)))
        }
        return described
    }

    @Test("every route is described, with the methods it allows")
    func routes() throws {
        let described = try describedOperations()
        #expect(Set(described.keys) == Set(RouteEntry.operations.map(\.name)))
        for entry in RouteEntry.operations {
            for path in described[entry.name] ?? [] {
                #expect(path.methods == Set(entry.methods.map { $0.rawValue.lowercased() }), "\(path.path)")
            }
        }
    }

    @Test("Deploy/embed has embedded the current file")
    func isEmbedded() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let file = folder.appending(path: "../../../Sources/RelayAPI/OpenAPI/openapi.json").standardized
        #expect(Array(try Data(contentsOf: file)) == OpenAPIDocument.json, "run Deploy/embed")
    }

    @Test func everyReferenceResolves() throws {
        func check(_ value: JSONValue) throws {
            if let reference = try? value["$ref"]?.string() { _ = try schema.resolve(reference) }
            if value.isObject { for member in try value.members() { try check(member.value) } }
            if value.isArray { for element in try value.elements() { try check(element) } }
        }
        try check(schema.document)
    }

    @Test func operationIDsAreUnique() throws {
        var seen: Set<String> = []
        for path in try schema.resolve("#/paths").members() {
            for method in try path.value.members() where method.value.isObject {
                let id = try method.value.required("operationId").string()
                #expect(seen.insert(id).inserted, "\(id) twice")
            }
        }
        #expect(seen.count > 20)
    }

    @Test func theDescribedErrorCodesAreThoseOfTheRelay() throws {
        let codes = try schema.resolve("#/components/schemas/ErrorCode").required("enum").elements().map {
            try $0.string()
        }
        #expect(Set(codes) == Set(ErrorCode.allCases.map(\.rawValue)))
        let fine = try schema.resolve("#/components/schemas/FineErrorCode").required("enum").elements()
        #expect(Set(try fine.map { try $0.string() }) == Set(FineErrorCode.allCases.map(\.rawValue)))
        let comparators = try schema.resolve("#/components/schemas/Comparator").required("enum").elements()
        #expect(Set(try comparators.map { try $0.string() }) == Set(Query.Comparator.allCases.map(\.rawValue)))
    }

    @Test func theDescriptionIsServedWithoutCredentials() async throws {
        let world = try RelayWorld()
        for path in ["/openapi.json", "/behind/a/proxy/openapi.json"] {
            let response = await world.relay.respond(to: APIRequest(method: .get, path: path))
            #expect(response.status == .ok && response.body == OpenAPIDocument.json)
            #expect(response.headers[.contentType] == "application/json; charset=UTF-8")
        }
        let posted = await world.relay.respond(to: APIRequest(method: .post, path: "/openapi.json"))
        #expect(posted.status == .methodNotAllowed)
    }

    /// One request for each operation, ordered so that each request finds the data that it needs.
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

    @Test func theRelaysResponsesMatchTheDescription() async throws {
        let world = try SubscriptionWorld()
        for (operation, body) in Self.requests {
            let answer = try await world.ask(operation, body)
            #expect(answer.status == 200, "\(operation): \(answer.json.text("reason") ?? "")")
            let route = operation.split(separator: "/", maxSplits: 1).last.map(String.init) ?? ""
            let operations = try describedOperations()
            let path = try #require(operations.first { $0.key == route || $0.key == operation })
            let item = try #require(path.value.first).path
            let described = try schema.resolve("#/paths").members().first { $0.name == item }
            let post = try #require(described).value.required("post")
            let content = try post.required("responses").required("200").required("content")
                .required("application/json")
            let faults = try schema.faults(of: answer.json, by: content.required("schema"))
            #expect(faults.isEmpty, "\(operation)")
        }
    }

    @Test func theResponseToAPasswordSignInMatchesTheDescription() async throws {
        let directory = try TestStore.current.makeHome().accounts()
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
    func refusalsMatchTheDescription(_ operation: String, _ body: String) async throws {
        let answer = try await SubscriptionWorld().ask(operation, body)
        #expect(answer.status >= 400)
        let faults = try schema.faults(of: answer.json, by: schema.resolve("#/components/schemas/Error"))
        #expect(faults.isEmpty)
    }

    @Test func anAtomicFailureMatchesTheDescription() async throws {
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

/// Validates JSON against the part of OpenAPI's schemas that our description uses.
struct JSONSchema {
    let document: JSONValue

    /// Returns the deviations of `value` from `schema`, each with its location; empty if the value conforms.
    func faults(of value: JSONValue, by schema: JSONValue, at place: String = "$") throws -> [String] {
        if let reference = try schema["$ref"]?.string() {
            return try faults(of: value, by: resolve(reference), at: place)
        }
        if value.isNull { return try schema["nullable"]?.bool() == true ? [] : ["\(place) is null"] }
        if schema["type"] == nil, let alternatives = try schema["anyOf"]?.elements() {
            let all = try alternatives.map { try faults(of: value, by: $0, at: place) }
            return all.contains { $0.isEmpty } ? [] : all.first ?? []
        }
        if let words = try schema["enum"]?.elements(),
            !words.contains(where: { Array($0.rawBytes) == Array(value.rawBytes) })
        {
            return ["\(place) is none of the enumeration: \(String(decoding: value.rawBytes, as: UTF8.self))"]
        }
        switch try schema["type"]?.string() {
        case "object": return value.isObject ? try faults(ofObject: value, schema, place) : ["\(place) is no object"]
        case "array":
            guard value.isArray else { return ["\(place) is no array"] }
            guard let items = schema["items"] else { return [] }
            return try value.elements().enumerated().flatMap {
                try faults(of: $0.element, by: items, at: "\(place)[\($0.offset)]")
            }
        case "string": return value.isString ? [] : ["\(place) is no string"]
        case "integer": return value.isInteger ? [] : ["\(place) is no integer"]
        case "number": return value.isNumber ? [] : ["\(place) is no number"]
        case "boolean": return value.isBool ? [] : ["\(place) is no boolean"]
        default: return []
        }
    }

    private func faults(ofObject value: JSONValue, _ schema: JSONValue, _ place: String) throws -> [String] {
        let members = try value.members()
        var faults: [String] = []
        for name in try schema["required"]?.elements().map({ try $0.string() }) ?? []
        where !members.contains(where: { $0.name == name }) {
            faults.append("\(place).\(name) is missing")
        }
        let properties = try schema["properties"]?.members() ?? []
        for member in members {
            if let property = properties.first(where: { $0.name == member.name }) {
                faults += try self.faults(of: member.value, by: property.value, at: "\(place).\(member.name)")
            } else if let others = schema["additionalProperties"], others.isObject {
                faults += try self.faults(of: member.value, by: others, at: "\(place).\(member.name)")
            } else if schema["properties"] != nil, schema["additionalProperties"] == nil {
                // The description has to cover every member that the relay sends.
                faults.append("\(place).\(member.name) is not described")
            }
        }
        return faults
    }

    func resolve(_ reference: String) throws -> JSONValue {
        var value = document
        for part in reference.dropFirst(2).split(separator: "/") {
            guard let next = try value.members().first(where: { $0.name == part })?.value else {
                throw UnknownReference(reference: reference)
            }
            value = next
        }
        return value
    }
}

struct UnknownReference: Error {
    var reference: String
}
