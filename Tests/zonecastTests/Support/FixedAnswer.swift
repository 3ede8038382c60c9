import Foundation
import TestSupport

/// A server that gives the same response to every request, like a misconfigured proxy.
final class FixedAnswer: Sendable {
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
