import Foundation

/// One message by SMTP, as a value: what the server says goes in, what to say next comes out.
///
/// RFC 5321: a greeting, `EHLO`, the sender, the receivers, the message, `QUIT`.
struct MailTalk {
    enum Step: Equatable {
        /// Sends this and waits for the answer.
        case say(String)
        /// The answer goes on.
        case listen
        /// The server has the message.
        case done
        /// It does not take it, and why.
        case refused(String)
    }

    private enum State {
        case greeting
        case hello
        case sender
        case receiver(Int)
        case data
        case message
    }

    private let mail: Mail
    /// What this machine is called.
    private let name: String
    private var state = State.greeting

    init(_ mail: Mail, name: String) {
        self.mail = mail
        self.name = name
    }

    /// Takes one line of the server's, without its end.
    mutating func heard(_ line: String) -> Step {
        guard line.count >= 3, let code = Int(line.prefix(3)) else {
            return .refused("says what is no SMTP: \(line.prefix(80))")
        }
        // An answer of several lines has a dash behind the number in all but the last.
        if line.dropFirst(3).first == "-" { return .listen }
        let wanted =
            switch state {
            case .greeting: 220...220
            case .data: 354...354
            case .hello, .sender, .receiver, .message: 250...259
            }
        guard wanted.contains(code) else { return .refused("answers \(line.prefix(200))") }
        return next()
    }

    private mutating func next() -> Step {
        switch state {
        case .greeting:
            state = .hello
            return .say("EHLO \(name)\r\n")
        case .hello:
            state = .sender
            return .say("MAIL FROM:<\(mail.from)>\r\n")
        case .sender: return receiver(0)
        case .receiver(let number):
            if number + 1 < mail.to.count { return receiver(number + 1) }
            state = .data
            return .say("DATA\r\n")
        case .data:
            state = .message
            return .say(mail.text + ".\r\n")
        case .message: return .done
        }
    }

    private mutating func receiver(_ number: Int) -> Step {
        state = .receiver(number)
        return .say("RCPT TO:<\(mail.to[number])>\r\n")
    }
}

/// A message as it goes over the wire: plain text, all of it ASCII.
struct Mail {
    var from: String
    var to: [String]
    var subject: String
    var body: String
    var date: Date
    var id: String

    /// Headers, an empty line, and the body in base64, so that no line is too long or begins with a dot.
    var text: String {
        let lines = [
            "Date: \(Self.written(date))", "From: Zonecast <\(from)>", "To: \(to.joined(separator: ", "))",
            "Subject: \(Self.header(subject))", "Message-ID: <\(id)>", "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64",
            // Nobody's holiday notice is to answer it: RFC 3834.
            "Auto-Submitted: auto-generated", "",
        ]
        let content = Data(body.utf8).base64EncodedString(options: [
            .lineLength76Characters, .endLineWithCarriageReturn,
        ])
        .replacing("\r\n", with: "\r").replacing("\r", with: "\r\n")
        return lines.joined(separator: "\r\n") + "\r\n" + content + "\r\n"
    }

    /// RFC 2047; one word of at most 75 bytes for each piece.
    private static func header(_ text: String) -> String {
        guard !text.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else { return String(text.prefix(200)) }
        var pieces = [""]
        for letter in text.prefix(200) where !letter.isNewline {
            if pieces[pieces.count - 1].utf8.count + String(letter).utf8.count > 42 { pieces.append("") }
            pieces[pieces.count - 1].append(letter)
        }
        return pieces.map { "=?utf-8?B?\(Data($0.utf8).base64EncodedString())?=" }.joined(separator: "\r\n ")
    }

    /// RFC 5322, 3.3.
    private static func written(_ date: Date) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss '+0000'"
        return formatter.string(from: date)
    }
}
