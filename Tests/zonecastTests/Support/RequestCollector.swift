import Foundation
import Synchronization
import TestSupport

/// An HTTP server that accepts posts and keeps their bodies, in place of a trace collector or an alert receiver.
final class RequestCollector: Sendable {
    var port: Int { listening.number }
    private let listening: ListeningPort
    private let kept = Mutex<[Data]>([])

    init() throws {
        listening = try ListeningPort()
        listening.serve { [weak self] peer in
            while let body = Self.body(from: peer) {
                self?.kept.withLock { $0.append(body) }
                let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}".utf8)
                send(peer, answer, answer.count, Int32(MSG_NOSIGNAL))
            }
        }
    }

    var bodies: [Data] { kept.withLock { $0 } }

    /// Reads the next request, which must have a Content-Length, and returns its body.
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

/// A server that gives the same response to every request, like a misconfigured proxy.
final class FixedResponseServer: Sendable {
    var port: Int { listening.number }
    private let listening: ListeningPort

    /// Evaluates `answer` for each request, so that it can contain the current time.
    init(_ answer: @escaping @autoclosure @Sendable () -> String) throws {
        listening = try ListeningPort()
        listening.serve { peer in
            var request = [UInt8](repeating: 0, count: 65_536)
            while recv(peer, &request, request.count, 0) > 0 {
                let bytes = Array(answer().utf8)
                send(peer, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            }
        }
    }
}
