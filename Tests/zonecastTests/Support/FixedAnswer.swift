import Foundation

/// A server that gives the same answer to whatever it is asked: what a wrong proxy or a wrong address does.
final class FixedAnswer: @unchecked Sendable {
    // Unchecked: its two members are set before the one thread starts that uses them.
    let port: Int
    private let descriptor: Int32

    init(_ answer: String) throws {
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
        guard isListening else { throw RelayProcess.Failure(description: "no port for a server of the test's own") }
        port = Int(UInt16(bigEndian: address.sin_port))
        let bytes = Array(answer.utf8)
        Thread {
            while case let peer = accept(descriptor, nil, nil), peer >= 0 {
                var request = [UInt8](repeating: 0, count: 65_536)
                while recv(peer, &request, request.count, 0) > 0 { send(peer, bytes, bytes.count, Int32(MSG_NOSIGNAL)) }
                close(peer)
            }
            close(descriptor)
        }.start()
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
