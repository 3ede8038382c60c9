import Foundation
import Synchronization

/// A port of 127.0.0.1 that refuses connections for as long as this object lives.
package final class UnservedPort: Sendable {
    package let number: Int
    private let descriptor: Int32

    package init() throws {
        (descriptor, number) = try Loopback.bind()
    }

    deinit { close(descriptor) }
}

/// A port of 127.0.0.1 for a server of the test, until this object is deinitialized.
package final class ListeningPort: Sendable {
    package let number: Int
    private let descriptor: Int32

    package init() throws {
        (descriptor, number) = try Loopback.bind()
        guard listen(descriptor, 16) == 0 else { throw POSIXError(.EADDRINUSE) }
    }

    /// Serves one peer after another on a separate thread and closes each connection afterwards.
    ///
    /// Must be called once.
    package func serve(_ serve: @escaping @Sendable (_ peer: Int32) -> Void) {
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

/// Ports for programs that must be given a fixed one.
///
/// They lie below the system's ephemeral ports, because another test's connection could get one of those between the
/// check and its use. Each port is returned once per process.
package enum FreePort {
    private static let next = Mutex(UInt16.random(in: 10_000..<24_000))

    /// Returns a port of 127.0.0.1 that is not in use.
    package static func take() throws -> Int {
        for _ in 0..<4_000 {
            let port = next.withLock { next in
                next += 1
                return next
            }
            if let socket = try? Loopback.bind(port) {
                close(socket.descriptor)
                return Int(port)
            }
        }
        throw POSIXError(.EADDRINUSE)
    }
}

private enum Loopback {
    /// Binds a TCP socket to a port of 127.0.0.1; 0 lets the system choose.
    static func bind(_ port: UInt16 = 0) throws -> (descriptor: Int32, port: Int) {
        #if canImport(Glibc)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            let descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port.bigEndian)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { general in
                Foundation.bind(descriptor, general, size) == 0 && getsockname(descriptor, general, &size) == 0
            }
        }
        guard isBound else {
            close(descriptor)
            throw POSIXError(.EADDRINUSE)
        }
        return (descriptor, Int(UInt16(bigEndian: address.sin_port)))
    }
}
