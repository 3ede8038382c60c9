import Foundation

/// A port of the system's choice for a server of the test's own, until nobody holds this any more.
final class ListeningPort: Sendable {
    let number: Int
    private let descriptor: Int32

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
        guard isListening else { throw RelayProcess.Failure(description: "no port for a server of the test's own") }
        number = Int(UInt16(bigEndian: address.sin_port))
    }

    /// Hands in one peer after the other, on a thread of its own, and closes each behind it; to be called once.
    func serve(_ serve: @escaping @Sendable (_ peer: Int32) -> Void) {
        Thread { [descriptor] in
            while case let peer = accept(descriptor, nil, nil), peer >= 0 {
                serve(peer)
                close(peer)
            }
            close(descriptor)
        }.start()
    }

    deinit { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
