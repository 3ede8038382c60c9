import Foundation
import Synchronization

/// Ports for programs that have to be told one.
///
/// Not of those that the system gives to whoever asks for any: between the look and the use another test's connection would
/// get it. From below them, each once in a process.
enum FreePort {
    private static let next = Mutex(UInt16.random(in: 10_000..<24_000))

    /// A port of 127.0.0.1 on which nobody listens.
    static func take() throws -> Int {
        for _ in 0..<4_000 {
            let port = next.withLock { next in
                next += 1
                return next
            }
            if isFree(port) { return Int(port) }
        }
        throw RelayProcess.Failure(description: "4,000 ports in a row are in use")
    }

    private static func isFree(_ port: UInt16) -> Bool {
        #if canImport(Glibc)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port.bigEndian)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
