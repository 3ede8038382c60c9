import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelaySystem
import Testing
import Wire

/// The table of endpoints.
@Suite struct RouterTests {
    private static let home = "/database/1/iCloud.a/development"

    private let router: Router

    init() throws { router = try RelayWorld().relay.router }

    @Test(arguments: [
        ("\(Self.home)/private/records/modify", "records/modify"), ("/pre/fix\(Self.home)/public/limits", "limits"),
        ("/console\(Self.home)/public/records/query", "records/query"), ("\(Self.home)/tokens/create", "tokens/create"),
        ("\(Self.home)/subscriptions/list", "subscriptions/list"), ("/signin", "signin"), ("/pre/account", "account"),
        ("/device/1/iCloud.a/development/push/register", "push/register"), ("/signin/style.css", "signin/style.css"),
        ("/device/1/iCloud.a/development/webcourier", "webcourier"), ("/pre/share/iCloud.a/development/abc", "share"),
        ("/pre/asset/1/upload/abc", "asset/upload"), ("/asset/1/download/abc/def", "asset/download"),
        ("/openapi.json", "openapi.json"), ("*", "*"),
    ])
    func aPathHasOneEndpoint(_ path: String, _ name: String) throws {
        #expect(try router.match(path, .post).entry.name == name)
    }

    @Test(arguments: [
        "/", "/signin/", "/x", "\(Self.home)/private/records/none", "\(Self.home)/records/modify",
        "/device/1/iCloud.a/development/records/modify", "\(Self.home)/private/signin",
        "\(Self.home)/private/openapi.json", "\(Self.home)/webcourier", "/device/1/iCloud.a/development/signin",
        "/database/1/iCloud.a/staging/private/limits", "/share/iCloud.a/development", "/asset/1/upload",
    ])
    func nothingIsAtOtherPaths(_ path: String) {
        #expect(throws: RelayError.self) { try router.match(path, .get) }
    }

    @Test func variableSegmentsArePassedOn() throws {
        #expect(
            try router.match("/a/share/iCloud.a/production/xyz", .get).parameters == ["iCloud.a", "production", "xyz"]
        )
        #expect(try router.match("/asset/1/download/abc/def", .get).parameters == ["abc/def"])
    }

    @Test func aMoreExactPatternComesFirst() throws {
        let router = Router([])
        router.add(
            ["a/**", "a/{}", "a/b/**", "a/b", "a"].map { path in .page(path, .ending(path), [.get]) { _, _ in nil } }
        )
        for (path, pattern) in [
            ("/a", "a"), ("/a/b", "a/b"), ("/a/c", "a/{}"), ("/a/b/c", "a/b/**"), ("/a/c/d", "a/**"), ("/a/", "a/{}"),
        ] {
            #expect(try router.match(path, .get).entry.name == pattern)
        }
    }

    @Test("the methods of one path may have different functions")
    func methodsAreDispatched() async throws {
        let relay = try RelayWorld().relay
        relay.router.add(
            [[HTTPRequest.Method].reading, [.post]].map { methods in
                .page("x", .ending("x"), methods) { request, _ in
                    APIResponse(status: .ok, body: Array("\(methods.count)".utf8))
                }
            }
        )
        func ask(_ method: HTTPRequest.Method, origin: String? = nil) async -> APIResponse {
            var request = APIRequest(method: method, path: "/x")
            request.headers[.origin] = origin
            return await relay.respond(to: request)
        }
        #expect(await ask(.head).body == Array("2".utf8))
        #expect(await ask(.post).body == Array("1".utf8))
        let refused = await ask(.delete)
        #expect(refused.status == .methodNotAllowed && refused.headers[.allow] == "GET, HEAD, POST, OPTIONS")
        let options = await ask(.options)
        #expect(options.status == .noContent && options.headers[.allow] == "GET, HEAD, POST, OPTIONS")
        #expect(await ask(.options, origin: "https://other.example").status == .forbidden)
    }

    /// Two relays with the same head in turn, which caches what a router has found.
    @Test func aHeadIsLookedUpAgainByAnotherRelay() async throws {
        let relays = [try RelayWorld().relay, try RelayWorld().relay]
        for (number, relay) in relays.enumerated() {
            relay.router.add([
                .page("x", .ending("x"), [.get]) { _, _ in APIResponse(status: .ok, body: [UInt8(number)]) }
            ])
        }
        let request = APIRequest(method: .get, path: "/x")
        for number in [0, 1, 1, 0] { #expect(await relays[number].respond(to: request).body == [UInt8(number)]) }
    }
}
