import CLinux
import Glibc

/// The address of a server: a port of this machine.
///
/// Benchmarks send load to no other machine.
package struct Endpoint: Hashable, Sendable {
    package var port: UInt16

    package init(port: UInt16) { self.port = port }

    package var host: String { "127.0.0.1:\(port)" }

    /// Returns the address of port `port` on 127.0.0.1, 127.0.0.2 and so on.
    ///
    /// About 28,000 connections within a minute use up the local ports between one address and one port.
    func address(lastByte: UInt8, port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = (0x7F00_0000 | UInt32(lastByte)).bigEndian
        return address
    }
}

/// A TCP socket that is closed when it is released.
package final class Socket {
    package enum Reading {
        case bytes(Int)
        case nothingYet
        case closed
    }

    package let descriptor: Int32

    package init(descriptor: Int32) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Connects from a loopback address and returns when the connection is established.
    ///
    /// The address is 127.0.0.`source`. With `blocks`, later reads wait for bytes.
    package static func connect(to endpoint: Endpoint, source: UInt8 = 1, blocks: Bool) throws(LoadError) -> Socket {
        let socket = Socket(descriptor: Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(O_CLOEXEC), 0))
        guard socket.descriptor >= 0 else { throw .lastCall("socket") }
        if source != 1 {
            // The system then chooses the local port at connect time, from all that are free for this peer.
            socket.enable(IP_BIND_ADDRESS_NO_PORT, level: Int32(IPPROTO_IP))
            guard socket.call(Glibc.bind, endpoint.address(lastByte: source, port: 0)) else { throw .lastCall("bind") }
        }
        guard socket.call(Glibc.connect, endpoint.address(lastByte: 1, port: endpoint.port)) else {
            throw .lastCall("connect to \(endpoint.host)")
        }
        socket.enable(TCP_NODELAY, level: Int32(IPPROTO_TCP))
        if !blocks { socket.stopBlocking() }
        return socket
    }

    /// Listens on a free port; the caller owns the descriptor.
    package static func listen() throws(LoadError) -> (descriptor: Int32, endpoint: Endpoint) {
        let socket = Socket(descriptor: Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(O_CLOEXEC), 0))
        let any = Endpoint(port: 0).address(lastByte: 1, port: 0)
        guard socket.descriptor >= 0, socket.call(Glibc.bind, any), Glibc.listen(socket.descriptor, 4096) == 0 else {
            throw .lastCall("listen")
        }
        var bound = any
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let named = withUnsafeMutableBytes(of: &bound) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) { getsockname(socket.descriptor, $0.baseAddress, &length) }
        }
        guard named == 0 else { throw .lastCall("getsockname") }
        return (dup(socket.descriptor), Endpoint(port: UInt16(bigEndian: bound.sin_port)))
    }

    /// Returns the next pending connection, with non-blocking reads; `nil` if there is none.
    package func accept() -> Socket? {
        Self.acceptDescriptor(from: descriptor).map { Socket(descriptor: $0) }
    }

    /// Returns the next pending connection as a descriptor, to be passed to another thread.
    package static func acceptDescriptor(from listening: Int32) -> Int32? {
        let accepted = Glibc.accept(listening, nil, nil)
        guard accepted >= 0 else { return nil }
        var on: Int32 = 1
        setsockopt(accepted, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        _ = fcntl(accepted, F_SETFL, fcntl(accepted, F_GETFL) | O_NONBLOCK)
        return accepted
    }

    package func stopBlocking() {
        let flags = fcntl(descriptor, F_GETFL)
        _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK)
    }

    /// Sets how long a blocking read waits before it returns `nothingYet`.
    package func limitReads(seconds: Int) {
        var limit = timeval(tv_sec: seconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    package func read(into space: UnsafeMutableRawBufferPointer) -> Reading {
        while true {
            let count = Glibc.recv(descriptor, space.baseAddress, space.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .closed }
            if errno == EINTR { continue }
            return errno == EAGAIN ? .nothingYet : .closed
        }
    }

    /// Writes all bytes, waiting while the send buffer is full.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(LoadError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = UnsafeRawBufferPointer(rebasing: rest)
            let count = Glibc.send(descriptor, piece.baseAddress, piece.count, Int32(MSG_NOSIGNAL))
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                var room = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                guard poll(&room, 1, 10_000) == 1 else { throw .timedOut("room in a socket's send buffer") }
            } else if errno != EINTR {
                throw .lastCall("send")
            }
        }
    }

    package func write(_ bytes: [UInt8]) throws(LoadError) {
        let outcome = bytes.withUnsafeBytes { space -> Result<Void, LoadError> in
            do throws(LoadError) { return .success(try write(space)) } catch { return .failure(error) }
        }
        try outcome.get()
    }

    /// Half-closes the connection: no more bytes are sent, but reads continue.
    package func finishWriting() { shutdown(descriptor, Int32(SHUT_WR)) }

    private func enable(_ option: Int32, level: Int32) {
        var on: Int32 = 1
        setsockopt(descriptor, level, option, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    private func call(
        _ function: (Int32, UnsafePointer<sockaddr>?, socklen_t) -> Int32,
        _ address: sockaddr_in
    ) -> Bool {
        withUnsafeBytes(of: address) { bytes in
            bytes.withMemoryRebound(to: sockaddr.self) {
                function(descriptor, $0.baseAddress, socklen_t(MemoryLayout<sockaddr_in>.size))
            } == 0
        }
    }
}

/// Received, unused bytes: appended at the end and consumed from the front, in one growing allocation.
package struct ReceiveBuffer: ~Copyable {
    private var storage: UnsafeMutableRawBufferPointer
    private var start = 0
    private var end = 0

    package init(capacity: Int = 1 << 16) {
        storage = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { storage.deallocate() }

    /// The unused bytes, valid until the buffer changes.
    package var unread: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: storage[start..<end])
    }

    package mutating func use(_ count: Int) {
        start += count
        if start == end { (start, end) = (0, 0) }
    }

    /// Reads once from the socket, into the free space of the allocation or at least 64 KiB.
    package mutating func fill(from socket: Socket) -> Socket.Reading {
        if storage.count - end < 1 << 16 { makeRoom() }
        let reading = socket.read(into: UnsafeMutableRawBufferPointer(rebasing: storage[end...]))
        if case .bytes(let count) = reading { end += count }
        return reading
    }

    /// Appends bytes received earlier.
    package mutating func put(_ bytes: [UInt8]) {
        while storage.count - end < bytes.count { makeRoom() }
        UnsafeMutableRawBufferPointer(rebasing: storage[end...]).copyBytes(from: bytes)
        end += bytes.count
    }

    private mutating func makeRoom() {
        let waiting = end - start
        let larger = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(storage.count, 2 * (waiting + (1 << 16))),
            alignment: 16
        )
        larger.copyMemory(from: unread)
        storage.deallocate()
        storage = larger
        (start, end) = (0, waiting)
    }
}

/// Why a measurement failed.
package enum LoadError: Error, CustomStringConvertible {
    /// A system call failed.
    case system(call: String, errno: Int32)
    /// The peer sent an unexpected response, or closed the connection.
    case peer(String)
    /// A required tool or file is missing or failed.
    case missing(String)
    /// A wait that took too long.
    case timedOut(String)

    package static func lastCall(_ call: String) -> LoadError { .system(call: call, errno: errno) }

    package var description: String {
        switch self {
        case .system(let call, let code): "\(call): \(String(cString: strerror(code)))"
        case .peer(let what), .missing(let what): what
        case .timedOut(let what): "waited too long for \(what)"
        }
    }
}
