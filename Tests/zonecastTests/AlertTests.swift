import Foundation
import Testing

/// Alerts on their way out: by the command, and from a relay that runs.
@Suite(.ownThread, .timeLimit(.minutes(15))) struct AlertTests {
    private let folder = ScratchFolder()

    private struct Message: Decodable { var state: String, rule: String, title: String, text: String, relay: String }

    private func alerts(_ arguments: String..., environment: [String: String] = [:]) throws -> Command {
        try Command.run(["alerts"] + arguments, environment: environment)
    }

    /// Those about the rule: of a busy machine a relay may have more to tell.
    private func messages(_ collector: Collector, of rule: String) throws -> [Message] {
        try collector.bodies.map { try JSONDecoder().decode(Message.self, from: $0) }.filter { $0.rule == rule }
    }

    private func firstMessage(_ collector: Collector, of rule: String) throws -> Message {
        let deadline = ContinuousClock.now + .seconds(120)
        while true {
            if let first = try messages(collector, of: rule).first { return first }
            try #require(ContinuousClock.now < deadline, "waited 120 s for a message of \(rule)")
            usleep(20_000)
        }
    }

    @Test func aTestMessageArrivesOrSaysWhyNot() throws {
        let collector = try Collector()
        let hook = ["ZONECAST_ALERTS_WEBHOOK": "http://127.0.0.1:\(collector.port)/hook"]
        let sent = try alerts("test", environment: hook)
        #expect(sent.status == 0 && sent.output == "sent to webhook at 127.0.0.1\n", "\(sent.complaint)")
        let message = try firstMessage(collector, of: "test")
        #expect(message.state == "test" && message.text.hasPrefix("A test"))

        let nobody = try alerts("test")
        #expect(nobody.status == 1 && nobody.complaint.contains("alerts.webhook"))
        let refusing = try FixedAnswer("HTTP/1.1 500 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope")
        let topic = ["ZONECAST_ALERTS_NTFY": "http://127.0.0.1:\(refusing.port)/topic"]
        let failed = try alerts("test", environment: topic)
        #expect(failed.status == 3 && failed.complaint.contains("alerts.ntfy answers 500 nope"), "\(failed.complaint)")
        for wrong in ["http://example.org/hook", "ftp://127.0.0.1/", "https://user:pw@example.org/", "hook"] {
            #expect(try alerts("test", environment: ["ZONECAST_ALERTS_WEBHOOK": wrong]).status == 2, "\(wrong)")
        }
    }

    @Test func aMailServerOfThisMachineGetsIt() throws {
        let drop = try MailDrop()
        let settings = [
            "ZONECAST_ALERTS_MAIL_TO": "ada@example.org, bob@example.org",
            "ZONECAST_ALERTS_MAIL_SERVER": "127.0.0.1:\(drop.port)",
        ]
        let sent = try alerts("test", environment: settings)
        #expect(sent.status == 0, "\(sent.complaint)")
        #expect(sent.output == "sent to mail to ada@example.org, bob@example.org\n")
        let lines = drop.lines
        #expect(lines.contains("RCPT TO:<ada@example.org>") && lines.contains("RCPT TO:<bob@example.org>"))
        #expect(lines.contains { $0.hasPrefix("Subject: ") && $0.contains("zonecast alerts test") })
        let content = lines.drop { !$0.isEmpty }.dropFirst().prefix { $0 != "." }.joined()
        let body = Data(base64Encoded: content).map { String(decoding: $0, as: UTF8.self) } ?? ""
        #expect(body.hasPrefix("A test"), "\(lines)")

        let full = try MailDrop(refusing: "DATA", with: "452 4.3.1 no room")
        let other = settings.merging(["ZONECAST_ALERTS_MAIL_SERVER": "127.0.0.1:\(full.port)"]) { $1 }
        let refused = try alerts("test", environment: other)
        #expect(refused.status == 3 && refused.complaint.contains("alerts.mail-server answers 452 4.3.1 no room"))
        // A mailbox that is gone keeps nothing from the others.
        let gone = try MailDrop(refusing: "RCPT TO:<ada", with: "550 5.1.1 no such mailbox")
        let half = settings.merging(["ZONECAST_ALERTS_MAIL_SERVER": "127.0.0.1:\(gone.port)"]) { $1 }
        let told = try alerts("test", environment: half)
        let reason = "alerts.mail-server answers 550 5.1.1 no such mailbox (for ada@example.org)"
        #expect(told.status == 3 && told.complaint.contains(reason), "\(told.complaint)")
        #expect(gone.lines.contains("RCPT TO:<bob@example.org>") && gone.lines.contains("."), "\(gone.lines)")
        for (key, wrong) in [
            ("TO", "ada"), ("TO", "a@b>\r\nRCPT TO:<c@d"), ("FROM", "x y@z"), ("SERVER", "mail.example.org:25"),
            ("SERVER", "127.0.0.1"),
        ] {
            let run = try alerts("test", environment: settings.merging(["ZONECAST_ALERTS_MAIL_\(key)": wrong]) { $1 })
            #expect(run.status == 2, "\(key) \(wrong): \(run.complaint)")
        }
    }

    @Test func aRelayTellsOnceOfWhatGoesOn() throws {
        let collector = try Collector()
        let relay = try RelayProcess(
            folder: folder.path,
            environment: [
                "ZONECAST_ALERTS_WEBHOOK": "http://127.0.0.1:\(collector.port)/hook", "ZONECAST_ALERTS_INTERVAL": "1",
                "ZONECAST_CONSOLE": "false",
            ]
        )
        // More than any disk has: the alert is there from now on.
        #expect(try alerts("limit", "disk", "1e20", "--data", folder.path).output.hasPrefix("Room on the disk: "))
        let first = try firstMessage(collector, of: "disk")
        #expect(first.state == "firing" && first.text.contains("Make room"))
        #expect(try alerts("mute", "disk", "--hours", "1", "--data", folder.path).output.contains("silent until"))
        struct Shown: Decodable {
            struct Row: Decodable { var id: String, isOwnLimit: Bool, mutedUntil: String? }
            var receiver: String?, alerts: [Row]
        }
        let shown = try alerts("show", "--data", folder.path, "--json").json(Shown.self)
        #expect(shown.receiver == nil && shown.alerts.count > 7)
        #expect(shown.alerts.first { $0.id == "disk" }?.isOwnLimit == true)
        #expect(shown.alerts.first { $0.id == "disk" }?.mutedUntil != nil)
        #expect(try alerts("mute", "none", "--data", folder.path).status == 1)
        #expect(relay.stop().status == 0)
        #expect(try messages(collector, of: "disk").count == 1)
    }

    /// What operators have set is neither forgotten without a word nor written over.
    @Test func limitsThatCannotBeReadAreTold() throws {
        _ = try Command.run(["container", "create", "iCloud.org.example.notes", "--data", folder.path])
        let book = folder.path + "/alerts.json"
        let text = #"{"limits":{"disk":5e9},"muted":{"backup-age":}}"#
        try Data(text.utf8).write(to: URL(fileURLWithPath: book))
        for arguments in [["show"], ["limit", "disk", "1"], ["mute", "disk"]] {
            let run = try Command.run(["alerts"] + arguments + ["--data", folder.path])
            #expect(run.status == 1 && run.complaint.contains("\(book) cannot be used"), "\(run.complaint)")
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
        #expect(told.contains("\(book) cannot be used: it does not say what zonecast wrote there"), "\(told)")

        try FileManager.default.removeItem(atPath: book)
        #expect(try alerts("limit", "disk", "1", "--data", folder.path).status == 0)
    }
}
