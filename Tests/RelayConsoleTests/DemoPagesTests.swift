import Foundation
import HTTPTypes
import RelayAPI
import RelayConsole
import RelayServer
import Synchronization
import Testing

/// The paths of the browser demo.
@Suite struct DemoPagesTests {
    let pages = DemoPages(isOpen: true, run: "1")

    private func get(_ path: String, _ pages: DemoPages? = nil) async throws -> APIResponse? {
        try await ServedPages((pages ?? self.pages).entries).answer(APIRequest(method: .get, path: path))
    }

    @Test(arguments: [
        ("/demo/", "text/html"), ("/behind/a/proxy/demo/", "text/html"), ("/demo/demo.css", "text/css"),
        ("/demo/qr.js", "text/javascript"), ("/zonecast.js", "text/javascript"),
        ("/behind/zonecast.js", "text/javascript"),
    ])
    func demoFilesAreServed(path: String, type: String) async throws {
        let answer = try #require(await get(path))
        #expect(answer.status == .ok)
        #expect(answer.headers[.contentType] == "\(type); charset=utf-8")
        #expect(answer.headers[.xContentTypeOptions] == "nosniff")
        #expect(!answer.body.isEmpty)
    }

    @Test(arguments: [
        "/demo/none.js", "/demo.css", "/", "/qr.js", "/demo/demo/zonecast", "/healthz",
        "/database/1/iCloud.x/development/private/demo/", "/database/1/iCloud.x/development/public/zonecast.js",
    ])
    func otherPathsAreNotHandled(path: String) async throws { #expect(try await get(path) == nil) }

    @Test func aDisabledDemoServesOnlyTheModuleAndSaysHowToEnableIt() async throws {
        let closed = DemoPages(isOpen: false, run: "1")
        for path in ["/demo/demo.js", "/demo/means.json", "/demo/restart"] {
            #expect(try await get(path, closed) == nil)
        }
        for path in ["/demo", "/demo/"] {
            let answer = try #require(await get(path, closed))
            #expect(answer.status == .notFound && String(decoding: answer.body, as: UTF8.self).contains("demo: true"))
        }
        #expect(try await get("/zonecast.js", closed)?.headers[.accessControlAllowOrigin] == "*")
    }

    @Test func aPathWithoutItsSlashIsRedirected() async throws {
        #expect(try await get("/demo")?.status == .permanentRedirect)
        #expect(try await get("/demo")?.headers[.location] == "demo/")
    }

    /// Every file that the demo refers to is served, so that an incomplete renaming is found here.
    @Test func everyReferencedFileIsServed() async throws {
        var open = ["/demo/"]
        var seen: Set<String> = []
        while let path = open.popLast() {
            guard seen.insert(path).inserted else { continue }
            let answer = try #require(await get(path), "\(path)")
            let text = String(decoding: answer.body, as: UTF8.self)
            let named = text.matches(of: /(?:from |href=|src=)"([.\/a-z]+\.(?:js|css))"/).map { String($0.1) }
            for name in named {
                let address = try #require(URL(string: name, relativeTo: URL(string: "http://relay\(path)")))
                open.append(address.absoluteURL.path)
            }
        }
        #expect(seen.count >= 8)
        #expect(seen.contains("/zonecast.js"))
    }

    @Test func onlyScriptsOfTheDemoMayRun() async throws {
        let answer = try #require(await get("/demo/"))
        let policy = try #require(answer.headers[.contentSecurityPolicy])
        #expect(policy.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"))
        #expect(!policy.contains("unsafe"))
        let page = String(decoding: answer.body, as: UTF8.self)
        for inline in ["<style", " style=", " onclick=", "javascript:", "http://", "https://"] {
            #expect(!page.contains(inline), "\(inline)")
        }
        #expect(page.matches(of: /<script(?! type="module" src=")/).isEmpty)
    }

    @Test func onlyGetAndHeadAreAllowed() async throws {
        let served = try ServedPages(pages.entries)
        let answer = await served.answer(APIRequest(method: .post, path: "/demo/", body: [1]))
        #expect(answer?.status == .methodNotAllowed)
        #expect(answer?.headers[.allow] == "GET, HEAD, OPTIONS")
    }

    /// Another site's page must not be able to restart the relay.
    @Test(arguments: [
        ("127.0.0.1:8080", "restart", true), ("localhost:1", "restart", true), ("[::1]:8080", "restart", true),
        ("127.0.0.1:8080", nil, false), ("evil.example", "restart", false),
        ("127.0.0.1.evil.example", "restart", false),
    ])
    func onlyTheDemosOwnPageRestartsTheRelay(host: String, header: String?, isAllowed: Bool) async throws {
        let count = Mutex(0)
        let pages = DemoPages(isOpen: true, run: "7") { count.withLock { $0 += 1 } }
        var headers = HTTPFields()
        headers[try #require(HTTPField.Name("Host"))] = host
        headers[try #require(HTTPField.Name("X-Zonecast-Demo"))] = header
        let served = try ServedPages(pages.entries)
        let answer = await served.answer(APIRequest(method: .post, path: "/demo/restart", headers: headers))
        #expect(answer?.status == (isAllowed ? .accepted : .forbidden))
        #expect(count.withLock { $0 } == (isAllowed ? 1 : 0))
        let means = try #require(await get("/demo/means.json", pages))
        #expect(String(decoding: means.body, as: UTF8.self) == #"{"restart":true,"run":"7"}"#)
    }

    @Test func withoutARestartHandlerNothingRestarts() async throws {
        var headers = HTTPFields()
        headers[try #require(HTTPField.Name("Host"))] = "127.0.0.1"
        headers[try #require(HTTPField.Name("X-Zonecast-Demo"))] = "restart"
        let served = try ServedPages(pages.entries)
        let answer = await served.answer(APIRequest(method: .post, path: "/demo/restart", headers: headers))
        #expect(answer?.status == .forbidden)
    }
}
