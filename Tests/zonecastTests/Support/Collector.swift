import Foundation
import Synchronization

/// A collector of traces on this machine: takes what is posted by HTTP/1.1 and keeps the bodies.
final class Collector: Sendable {
    let port: Int
    private let descriptor: Int32
    private let kept = Mutex<[Data]>([])

    init() throws {
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
        guard isListening else { throw RelayProcess.Failure(description: "no port for the test's collector") }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread { [weak self] in
            while case let peer = accept(descriptor, nil, nil), peer >= 0 {
                while let body = Self.body(from: peer) {
                    self?.kept.withLock { $0.append(body) }
                    let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".utf8)
                    send(peer, answer, answer.count, Int32(MSG_NOSIGNAL))
                }
                close(peer)
            }
            close(descriptor)
        }.start()
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }

    var bodies: [Data] { kept.withLock { $0 } }

    /// The body of the next request, which must say how long it is.
    private static func body(from peer: Int32) -> Data? {
        var bytes = Data()
        let gap = Data("\r\n\r\n".utf8)
        while true {
            if let end = bytes.range(of: gap) {
                let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).lowercased()
                let line = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
                let length = line.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
                if bytes.count - end.upperBound >= length { return Data(bytes[end.upperBound...].prefix(length)) }
            }
            var piece = [UInt8](repeating: 0, count: 65_536)
            let count = recv(peer, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            bytes.append(contentsOf: piece[..<count])
        }
    }
}
