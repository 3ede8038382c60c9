import Foundation
import TestSupport
import Testing

/// Alerts that the command and a running relay send to a webhook.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct AlertTests {
    private let folder = ScratchFolder()

    private struct Message: Decodable { var state: String, rule: String, title: String, text: String, relay: String }

    private func alerts(_ arguments: String..., environment: [String: String] = [:]) throws -> Command {
        try Command.run(["alert"] + arguments, environment: environment)
    }

    /// Returns the messages about one rule: on a busy machine a relay may send others too.
    private func messages(_ collector: RequestCollector, of rule: String) throws -> [Message] {
        try collector.bodies.map { try JSONDecoder().decode(Message.self, from: $0) }.filter { $0.rule == rule }
    }

    private func firstMessage(_ collector: RequestCollector, of rule: String) throws -> Message {
        let deadline = ContinuousClock.now + .seconds(120)
        while true {
            if let first = try messages(collector, of: rule).first { return first }
            try #require(ContinuousClock.now < deadline, "waited 120 s for a message of \(rule)")
            usleep(20_000)
        }
    }

    @Test func aTestMessageArrivesOrTheCommandReportsTheReason() throws {
        let collector = try RequestCollector()
        let hook = ["ZONECAST_ALERTS_WEBHOOK": "http://127.0.0.1:\(collector.port)/hook"]
        let sent = try alerts("test", environment: hook)
        #expect(sent.status == 0 && sent.output == "sent to webhook at 127.0.0.1\n", "\(sent.errors)")
        let message = try firstMessage(collector, of: "test")
        #expect(message.state == "test" && message.text.hasPrefix("A test"))

        let unconfigured = try alerts("test")
        #expect(unconfigured.status == 1 && unconfigured.errors.contains("alerts.webhook"))
        let refusing = try FixedResponseServer("HTTP/1.1 500 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope")
        let other = ["ZONECAST_ALERTS_WEBHOOK": "http://127.0.0.1:\(refusing.port)/hook"]
        let failed = try alerts("test", environment: other)
        #expect(
            failed.status == 3 && failed.errors.contains("alerts.webhook answers 500 nope"),
            "\(failed.errors)"
        )
        for wrong in ["http://example.org/hook", "ftp://127.0.0.1/", "https://user:pw@example.org/", "hook"] {
            #expect(try alerts("test", environment: ["ZONECAST_ALERTS_WEBHOOK": wrong]).status == 2, "\(wrong)")
        }
    }

    @Test("Alertmanager's list has the alert with labels and an end after the next reminder")
    func alertmanagerFormat() throws {
        struct Alert: Decodable {
            var labels: [String: String], annotations: [String: String], startsAt: Date, endsAt: Date
        }
        let collector = try RequestCollector()
        let sent = try alerts(
            "test",
            environment: [
                "ZONECAST_ALERTS_WEBHOOK": "http://127.0.0.1:\(collector.port)/api/v2/alerts",
                "ZONECAST_ALERTS_FORMAT": "alertmanager",
            ]
        )
        #expect(sent.status == 0, "\(sent.errors)")
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        let body = try #require(collector.bodies.first)
        let alert = try #require(try decoder.decode([Alert].self, from: body).first)
        #expect(alert.labels["alertname"] == "Test" && alert.labels["rule"] == "test")
        #expect(alert.annotations["description"]?.hasPrefix("A test") == true)
        #expect(alert.endsAt.timeIntervalSince(alert.startsAt) > 86_400)
        #expect(try alerts("test", environment: ["ZONECAST_ALERTS_FORMAT": "xml"]).status == 2)
    }

    @Test func aRelayReportsAnOngoingAlertOnce() throws {
        let collector = try RequestCollector()
        let relay = try RelayProcess(
            folder: folder.path,
            environment: [
                "ZONECAST_ALERTS_WEBHOOK": "http://127.0.0.1:\(collector.port)/hook", "ZONECAST_ALERTS_INTERVAL": "1",
                "ZONECAST_CONSOLE": "false",
            ]
        )
        // No disk has this much free space, so the alert fires from now on.
        #expect(
            try alerts("edit", "disk", "--limit", "1e20", "--data", folder.path).output.hasPrefix("Free disk space: ")
        )
        let first = try firstMessage(collector, of: "disk")
        #expect(first.state == "firing" && first.text.contains("Free space"))
        #expect(try alerts("edit", "disk", "--mute", "1h", "--data", folder.path).output.contains("muted until"))
        struct Shown: Decodable {
            struct Row: Decodable { var id: String, isOwnLimit: Bool, mutedUntil: String? }
            var receiver: String?, alerts: [Row]
        }
        let shown = try alerts("list", "--data", folder.path, "--json").json(Shown.self)
        #expect(shown.receiver == nil && shown.alerts.count > 7)
        #expect(shown.alerts.first { $0.id == "disk" }?.isOwnLimit == true)
        #expect(shown.alerts.first { $0.id == "disk" }?.mutedUntil != nil)
        #expect(try alerts("edit", "none", "--mute", "1h", "--data", folder.path).status == 1)
        #expect(relay.stop().status == 0)
        #expect(try messages(collector, of: "disk").count == 1)
    }

    @Test func limitsAreCreatedEditedAndDeleted() throws {
        _ = try Command.run(["container", "create", "iCloud.org.example.notes", "--data", folder.path])
        func alert(_ arguments: String...) throws -> Command {
            try Command.run(["alert"] + arguments + ["--data", folder.path])
        }
        #expect(try alert("create", "slow-requests", "--limit", "3s").output.contains("over 3.0 s"))
        let again = try alert("create", "slow-requests", "--limit", "4s")
        #expect(again.status == 5 && again.errors.contains("zonecast alert edit slow-requests"), "\(again.errors)")
        #expect(try alert("edit", "slow-requests", "--limit", "2500").output.contains("over 2.5 s"))
        #expect(try alert("edit", "slow-requests", "--mute", "1d").status == 0)
        #expect(try alert("delete", "slow-requests").output.contains("over 2.0 s"))
        #expect(try !alert("list").output.contains("muted until"))
        #expect(try alert("delete", "slow-requests").status == 1)
        #expect(try alert("create", "backup-age", "--limit", "5GB").status == 2, "a size is no number of days")
        #expect(try alert("create", "slow-request", "--limit", "1").errors.contains("Did you mean slow-requests?"))
    }

    /// Limits in a damaged file are neither ignored silently nor overwritten.
    @Test func unreadableLimitsAreReported() throws {
        _ = try Command.run(["container", "create", "iCloud.org.example.notes", "--data", folder.path])
        let book = folder.path + "/alerts.json"
        let text = #"{"limits":{"disk":5e9},"muted":{"backup-age":}}"#
        try Data(text.utf8).write(to: URL(fileURLWithPath: book))
        for arguments in [["list"], ["edit", "disk", "--limit", "1"], ["edit", "disk", "--mute", "1d"]] {
            let run = try Command.run(["alert"] + arguments + ["--data", folder.path])
            #expect(run.status == 1 && run.errors.contains("\(book) cannot be used"), "\(run.errors)")
        }
        #expect(FileManager.default.contents(atPath: book).map { String(decoding: $0, as: UTF8.self) } == text)
        let doctor = try Command.run(
            ["doctor", "--data", folder.path],
            environment: ["ZONECAST_LISTEN": "127.0.0.1:0"]
        )
        #expect(doctor.status == 1, "\(doctor.output)")
        #expect(doctor.output.contains("alerts            \(book) cannot be used"), "\(doctor.output)")
        let log = folder.path + "/log"
        let relay = try RelayProcess(folder: folder.path, log: log)
        #expect(relay.stop().status == 0)
        let told = try String(contentsOfFile: log, encoding: .utf8)
        #expect(told.contains("\(book) cannot be used: its content is invalid"), "\(told)")

        try FileManager.default.removeItem(atPath: book)
        #expect(try alerts("edit", "disk", "--limit", "1GB", "--data", folder.path).status == 0)
    }
}
