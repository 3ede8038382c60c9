import Foundation
import TestSupport
import Testing

/// Requests that a browser sends for pages of other sites, to a real relay.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct ForeignPageTests {
    private let folder = ScratchFolder()
    private static let push = "/push/1/iCloud.org.example.notes/development"

    private func upgrade(_ port: Int, origin: String?, host: String) throws -> HTTPConnection.Answer {
        let connection = try HTTPConnection(port: port, host: host)
        var headers = [
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "zonecast.notices.1",
        ]
        headers["Origin"] = origin
        return try connection.send("GET", Self.push + "?ckWebAuthToken=dev-alice", headers: headers)
    }

    @Test func socketsAreRefusedForPagesOfOtherSites() throws {
        let relay = try RelayProcess(folder: folder.path)
        let own = "127.0.0.1:\(relay.port)"
        #expect(try upgrade(relay.port, origin: nil, host: own).status == 101, "programs send no Origin")
        #expect(try upgrade(relay.port, origin: "http://\(own)", host: own).status == 101)
        for origin in ["https://evil.example", "null", "http://127.0.0.1.evil.example", "file://"] {
            #expect(try upgrade(relay.port, origin: origin, host: own).status == 403, "\(origin)")
        }
        // DNS rebinding: a name of the attacker's that resolves to this machine.
        let rebound = try upgrade(relay.port, origin: "http://evil.example", host: "evil.example")
        #expect(rebound.status == 403)
    }

    private func ask(
        _ method: String,
        _ path: String,
        _ headers: [String: String],
        _ cookie: String,
        _ relay: RelayProcess
    ) throws -> Int {
        let all = headers.merging(["Cookie": cookie]) { $1 }
        return try relay.connect().send(method, "/console/api/\(path)", headers: all, body: "{}").status
    }

    @Test func theConsoleRefusesPagesOfOtherSites() throws {
        let relay = try RelayProcess(folder: folder.path)
        let made = try Command.run(["user", "operator", "create", "--json", "--data", folder.path])
        struct Link: Decodable { var code: String }
        let code = try made.json(Link.self).code
        let connection = try relay.connect()
        let own = ["X-Zonecast-Console": "1"]
        let body = #"{"code":"\#(code)","name":"ada","password":"correct horse"}"#
        // A valid setup code does not let another site's page in.
        let foreign = ["X-Zonecast-Console": "1", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"]
        #expect(try connection.send("POST", "/console/api/setup", headers: foreign, body: body).status == 403)
        let entered = try connection.send("POST", "/console/api/setup", headers: own, body: body)
        #expect(entered.status == 200)
        let set: String = try #require(entered.headers["set-cookie"])
        let cookie = String(set.prefix { $0 != ";" })
        #expect(try ask("GET", "session", own, cookie, relay) == 200)
        for site in ["cross-site", "same-site"] {
            let headers = own.merging(["Sec-Fetch-Site": site, "Origin": "https://evil.example"]) { $1 }
            #expect(try ask("GET", "session", headers, cookie, relay) == 403, "\(site)")
            #expect(try ask("POST", "containers/add", headers, cookie, relay) == 403, "\(site)")
        }
        // A form or an image of another site sends the cookie, but not our header.
        #expect(try ask("GET", "session", ["Origin": "https://evil.example"], cookie, relay) == 403)
        #expect(try ask("POST", "backups/create", ["Origin": "https://evil.example"], cookie, relay) == 403)
        // A preflight grants another site's script nothing.
        let preflightHeaders = [
            "Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-zonecast-console",
        ]
        let preflight = try connection.send("OPTIONS", "/console/api/session", headers: preflightHeaders)
        #expect(preflight.status >= 400 && preflight.headers["access-control-allow-origin"] == nil)
        let backups = try Command.run(["backup", "list", "--json", "--data", folder.path])
        #expect(backups.output.contains("\"backups\":[]"), "\(backups.output)")
    }
}
