import Foundation
import TestSupport
import Testing

/// `GET /metrics` of a running relay, and its token.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct MetricsTests {
    private let folder = ScratchFolder()

    @Test func requestsErrorsAndQueuesAreCounted() throws {
        let relay = try RelayProcess(folder: folder.path)
        let connection = try relay.connect()
        let base = "/database/1/iCloud.org.example.metrics/development/private"
        let zone = #"{"operations":[{"operationType":"create","zone":{"zoneID":{"zoneName":"Notes"}}}]}"#
        let made = try connection.send("POST", "\(base)/zones/modify?ckWebAuthToken=dev-alice", body: zone)
        #expect(made.status == 200)
        #expect(try connection.send("POST", "\(base)/zones/list?ckWebAuthToken=dev-alice", body: "{}").status == 200)
        #expect(try connection.send("POST", "\(base)/zones/list", body: "{}").status == 421)
        let missing = #"{"operationType":"update","record":{"recordName":"a","recordChangeTag":"1"}}"#
        let batch = #"{"zoneID":{"zoneName":"Notes"},"operations":[\#(missing)]}"#
        let failed = try connection.send("POST", "\(base)/records/modify?ckWebAuthToken=dev-alice", body: batch)
        #expect(failed.status == 400)
        #expect(try connection.send("GET", "/nothing/here").status == 404)

        #expect(try relay.connect().send("GET", "nowhere").status == 400)
        #expect(try relay.connect().send("BREW", "/a").status == 501)

        // The relay may still finish work for requests that it has answered.
        let deadline = ContinuousClock.now + .seconds(120)
        var answer = try connection.send("GET", "/metrics")
        while !Self.isAtRest(answer), ContinuousClock.now < deadline { answer = try connection.send("GET", "/metrics") }
        #expect(answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8")
        let lines = Self.lines(of: answer)
        for line in [
            #"zonecast_requests_total{operation="zones/modify",status="200"} 1"#,
            #"zonecast_requests_total{operation="zones/list",status="421"} 1"#,
            #"zonecast_requests_total{operation="other",status="404"} 1"#,
            #"zonecast_request_errors_total{operation="zones/list",code="AUTHENTICATION_REQUIRED"} 1"#,
            #"zonecast_request_errors_total{operation="records/modify",code="ATOMIC_ERROR"} 1"#,
            #"zonecast_requests_total{operation="unread",status="400"} 1"#,
            #"zonecast_requests_total{operation="unread",status="501"} 1"#,
            #"zonecast_request_errors_total{operation="unread",code="BAD_REQUEST"} 2"#,
            #"zonecast_request_seconds_count{operation="zones/list"} 2"#,
            #"zonecast_request_seconds_bucket{operation="zones/list",le="+Inf"} 2"#,
            "zonecast_notice_connections 0",
        ] {
            #expect(lines.contains(line), "\(line)")
        }
        #expect(lines.contains { $0.hasPrefix("zonecast_commit_seconds_count ") && !$0.hasSuffix(" 0") })
        for gauge in [
            "process_resident_bytes", "store_bytes", "disk_free_bytes", "process_open_descriptors",
            "process_max_descriptors", "stores_open",
        ] {
            let value = lines.first { $0.hasPrefix("zonecast_\(gauge) ") }?.split(separator: " ").last
            #expect((Int(value ?? "") ?? 0) > 0, "\(gauge)")
        }
        #expect(Self.isWellFormed(lines))
        for queue in [
            "writer_queue", "notice_queue", "query_queue", "notice_seconds_count", "query_notice_seconds_count",
        ] {
            #expect(lines.contains("zonecast_\(queue) 0"), "\(queue)")
        }
        #expect(lines.contains("zonecast_connections 1"))
        if Tool.isInstalled("promtool") {
            let checked = try Tool.run("promtool", ["check", "metrics"], input: answer.body)
            #expect(checked.status == 0 && checked.output.isEmpty, "\(checked.output)")
        }
        #expect(relay.stop().status == 0)
    }

    private static func lines(of answer: HTTPConnection.Answer) -> [String] {
        String(decoding: answer.body, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    private static func isAtRest(_ answer: HTTPConnection.Answer) -> Bool {
        let lines = lines(of: answer)
        let queues = ["writer_queue", "notice_queue", "query_queue"].map { "zonecast_\($0) 0" }
        return queues.allSatisfy(lines.contains) && !lines.contains("zonecast_commit_seconds_count 0")
    }

    /// Every sample belongs to a metric family declared before it, and each family is declared once.
    private static func isWellFormed(_ lines: [String]) -> Bool {
        var families: Set<String> = []
        for line in lines {
            let words = line.split(separator: " ")
            if line.hasPrefix("# TYPE ") {
                guard families.insert(String(words[2])).inserted else { return false }
            } else if !line.hasPrefix("#") {
                let name = line.prefix { $0 != "{" && $0 != " " }
                guard families.contains(where: { name.hasPrefix($0) }), Double(words.last ?? "") != nil else {
                    return false
                }
            }
        }
        return true
    }

    @Test func metricsRequireTheToken() throws {
        let file = folder.path + "-token"
        defer { try? FileManager.default.removeItem(atPath: file) }
        try Data("0123456789abcdef0123456789abcdef\n".utf8).write(to: URL(fileURLWithPath: file))
        let settings = ["ZONECAST_METRICS_TOKEN_FILE": file]
        let relay = try RelayProcess(folder: folder.path, [], environment: settings)
        let connection = try relay.connect()
        #expect(try connection.send("GET", "/metrics").status == 404)
        let wrong = ["Authorization": "Bearer 0123456789abcdef0123456789abcdee"]
        #expect(try connection.send("GET", "/metrics", headers: wrong).status == 404)
        let right = ["Authorization": "Bearer 0123456789abcdef0123456789abcdef"]
        #expect(try connection.send("GET", "/metrics", headers: right).status == 200)
        #expect(relay.stop().status == 0)

        try Data("short".utf8).write(to: URL(fileURLWithPath: file))
        let refused = try Command.run(
            ["serve", "--data", folder.path, "--listen", "127.0.0.1:0"],
            environment: settings
        )
        #expect(refused.status == 2)
        #expect(refused.errors.contains("openssl rand -hex 32"))
    }
}
