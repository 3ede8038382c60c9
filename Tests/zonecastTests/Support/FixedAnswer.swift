import Foundation
import TestSupport

/// A server that gives the same answer to whatever it is asked: what a wrong proxy or a wrong address does.
final class FixedAnswer: Sendable {
    var port: Int { listening.number }
    private let listening: ListeningPort

    /// `answer` is made anew for each request, so that it may say what time it is.
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
