import Foundation
import Synchronization

/// A mail server that keeps what it is told, or refuses at one command.
final class MailDrop: Sendable {
    let port: Int
    private let descriptor: Int32
    private let heard = Mutex<[String]>([])

    /// All lines of clients, without their ends.
    var lines: [String] { heard.withLock { $0 } }

    init(refusing command: String? = nil, with refusal: String = "") throws {
        #if canImport(Glibc)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        self.descriptor = descriptor
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isListening = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { general -> Bool in
                bind(descriptor, general, size) == 0 && listen(descriptor, 16) == 0
                    && getsockname(descriptor, general, &size) == 0
            }
        }
        guard isListening else { throw RelayProcess.Failure(description: "no port for the test's mail server") }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread { [weak self] in
            while case let peer = accept(descriptor, nil, nil), peer >= 0 {
                self?.serve(peer, command, refusal)
                close(peer)
            }
            close(descriptor)
        }.start()
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

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
