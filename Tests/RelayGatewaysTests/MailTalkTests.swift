import Foundation
import Testing

@testable import RelayGateways

/// The words of SMTP, line by line.
@Suite struct MailTalkTests {
    private let mail = Mail(
        from: "zonecast@example.org",
        to: ["ada@example.org", "bob@example.org"],
        subject: "Room on the disk",
        body: ".Make room.\n",
        date: Date(timeIntervalSince1970: 0),
        id: "1@zonecast"
    )

    @Test func eachAnswerLeadsToTheNextWord() {
        var talk = MailTalk(mail, name: "relay.example.org")
        #expect(talk.heard("220-hello") == .listen)
        #expect(talk.heard("220 hello") == .say("EHLO relay.example.org\r\n"))
        #expect(talk.heard("250-SIZE") == .listen)
        #expect(talk.heard("250 8BITMIME") == .say("MAIL FROM:<zonecast@example.org>\r\n"))
        #expect(talk.heard("250 ok") == .say("RCPT TO:<ada@example.org>\r\n"))
        #expect(talk.heard("251 forwards") == .say("RCPT TO:<bob@example.org>\r\n"))
        #expect(talk.heard("250 ok") == .say("DATA\r\n"))
        #expect(talk.heard("354 go on") == .say(mail.text + ".\r\n"))
        #expect(talk.heard("250 kept") == .done)
    }

    @Test(arguments: ["421 busy", "550 no", "354 too early", "HTTP/1.1 400", "", "25"])
    func whatIsNotTheAnswerIsTheEnd(line: String) {
        var talk = MailTalk(mail, name: "x")
        guard case .refused(let why) = talk.heard(line) else {
            Issue.record("\(line) was taken")
            return
        }
        #expect(line.count < 3 || why.contains(line))
    }

    @Test func aMessageIsASCIIWithLinesThatFit() throws {
        var german = mail
        german.subject = "Kein Platz für Ärger: " + String(repeating: "ü", count: 100)
        german.body = String(repeating: "Größe ", count: 100)
        for text in [mail.text, german.text] {
            let lines = text.components(separatedBy: "\r\n")
            #expect(text.utf8.allSatisfy { $0 == 13 || $0 == 10 || (0x20...0x7E).contains($0) })
            #expect(lines.allSatisfy { $0.utf8.count <= 78 && !$0.hasPrefix(".") && !$0.contains("\n") })
            #expect(lines[0] == "Date: Thu, 01 Jan 1970 00:00:00 +0000" && text.hasSuffix("\r\n"))
        }
        let content = try #require(german.text.components(separatedBy: "\r\n\r\n").last)
        let body = Data(base64Encoded: content.replacing("\r\n", with: ""))
        #expect(body.map { String(decoding: $0, as: UTF8.self) } == german.body)
    }

    @Test(arguments: [
        ("ada@example.org", true), ("ada", false), ("a@b@c", false), ("@b", false), ("a b@c", false), ("a@b>", false),
        ("a@b\r\nDATA", false), ("ä@b", false),
    ])
    func anAddressIsOneAndNothingElse(text: String, isOne: Bool) {
        #expect(MailReceivers.isAddress(text) == isOne)
    }
}
