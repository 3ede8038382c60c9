import Foundation
import Synchronization

/// A mail server that keeps what it is told, or refuses at one command.
final class MailDrop: Sendable {
    var port: Int { listening.number }
    private let listening: ListeningPort
    private let heard = Mutex<[String]>([])

    /// All lines of clients, without their ends.
    var lines: [String] { heard.withLock { $0 } }

    init(refusing command: String? = nil, with refusal: String = "") throws {
        listening = try ListeningPort()
        listening.serve { [weak self] in self?.serve($0, command, refusal) }
    }

    private func serve(_ peer: Int32, _ refused: String?, _ refusal: String) {
        func say(_ text: String) {
            let bytes = Array((text + "\r\n").utf8)
            send(peer, bytes, bytes.count, Int32(MSG_NOSIGNAL))
        }
        say("220 drop ready")
        var bytes: [UInt8] = []
        var isMessage = false
        while true {
            while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: bytes[..<end].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
                bytes.removeFirst(end + 1)
                heard.withLock { $0.append(line) }
                if isMessage {
                    guard line == "." else { continue }
                    isMessage = false
                    say("250 kept")
                } else if let refused, line.hasPrefix(refused) {
                    say(refusal)
                } else if line == "DATA" {
                    isMessage = true
                    say("354 go on")
                } else if line.hasPrefix("EHLO") {
                    say("250-drop\r\n250 8BITMIME")
                } else {
                    say(line == "QUIT" ? "221 bye" : "250 fine")
                }
            }
            var more = [UInt8](repeating: 0, count: 4_096)
            let count = recv(peer, &more, more.count, 0)
            guard count > 0 else { return }
            bytes += more[..<count]
        }
    }
}
