import Foundation

/// A persistent HTTP/1.1 connection with blocking calls.
final class HTTPConnection {
    struct Answer {
        var status: Int
        /// Field names are in lower case.
        var headers: [String: String]
        var body: Data

        func json<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            try JSONDecoder().decode(type, from: body)
        }
    }

    /// The peer closed the connection or did not respond within 120 s.
    struct ConnectionLost: Error {}

    private let descriptor: Int32
    private var pending: [UInt8] = []

    /// The value of the requests' `Host` field.
    private let host: String

    init(port: Int, host: String = "127.0.0.1") throws {
        self.host = host
        descriptor = try Self.connect(port: port)
    }

    /// Connects a socket whose reads fail after 120 s.
    static func connect(port: Int) throws -> Int32 {
        let descriptor: Int32
        #if canImport(Glibc)
            descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
            descriptor = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var limit = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let outcome = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard outcome == 0 else {
            close(descriptor)
            throw ConnectionLost()
        }
        return descriptor
    }

    deinit { close(descriptor) }

    func send(_ method: String, _ target: String, headers: [String: String] = [:], body: String = "") throws -> Answer {
        try begin(method, target, headers: headers, body: body)
        return try finish()
    }

    /// Sends a request without waiting for the response; omits the last `withheld` bytes of the body.
    func begin(
        _ method: String,
        _ target: String,
        headers: [String: String] = [:],
        body: String = "",
        withholding withheld: Int = 0
    ) throws {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(host)\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if method == "POST" { head += "Content-Length: \(body.utf8.count)\r\n" }
        try write(Array((head + "\r\n" + body).utf8.dropLast(withheld)))
    }

    /// Waits at most `time` milliseconds and returns whether there is something to read.
    func hasInput(within time: Int32) -> Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, time) > 0
    }

    /// Waits for the response to the request that `begin` sent.
    func finish() throws -> Answer { try readAnswer() }

    private func write(_ bytes: [UInt8]) throws { try Self.write(bytes, to: descriptor) }

    static func write(_ bytes: [UInt8], to descriptor: Int32) throws {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Foundation.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw ConnectionLost() }
            sent += count
        }
    }

    private func readAnswer() throws -> Answer {
        let end = Array("\r\n\r\n".utf8)
        var head = pending.firstRange(of: end)
        while head == nil {
            try readMore()
            head = pending.firstRange(of: end)
        }
        guard let head else { throw ConnectionLost() }
        let lines = String(decoding: pending[..<head.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces) }
        }
        let length = headers["content-length"].flatMap { Int($0) } ?? 0
        while pending.count < head.upperBound + length { try readMore() }
        let body = Data(pending[head.upperBound..<head.upperBound + length])
        pending.removeFirst(head.upperBound + length)
        let words = lines[0].split(separator: " ")
        guard words.count >= 2, let status = Int(words[1]) else { throw ConnectionLost() }
        return Answer(status: status, headers: headers, body: body)
    }

    private func readMore() throws {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { throw ConnectionLost() }
        pending.append(contentsOf: bytes[..<count])
    }
}

/// A device's notice socket: sends a hello and then reads until the relay closes the connection.
final class NoticeSocket {
    private let descriptor: Int32
    private var pending: [UInt8] = []

    /// Connects as a device of alice's and returns after the relay's ready frame.
    init(_ device: String, on relay: RelayProcess) throws {
        descriptor = try HTTPConnection.connect(port: relay.port)
        let head =
            "GET /push/1/\(Path.container)/development HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            + "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        try HTTPConnection.write(Array(head.utf8), to: descriptor)
        let end = Array("\r\n\r\n".utf8)
        while pending.firstRange(of: end) == nil { try readMore() }
        guard let range = pending.firstRange(of: end), pending.starts(with: "HTTP/1.1 101 ".utf8) else {
            throw HTTPConnection.ConnectionLost()
        }
        pending.removeSubrange(..<range.upperBound)
        let hello = #"{"hello":{"deviceID":"\#(device)","ckAPIToken":"x","ckWebAuthToken":"dev-alice"}}"#
        // The mask is zero, so the payload stays as it is.
        let frame = [0x81, 0x80 | UInt8(min(hello.utf8.count, 125)), 0, 0, 0, 0]
        try HTTPConnection.write(frame + Array(hello.utf8), to: descriptor)
        guard try next().opcode == 1 else { throw HTTPConnection.ConnectionLost() }
    }

    deinit { close(descriptor) }

    /// Reads until the connection ends; returns the code of the close frame, `nil` without one.
    func closeCode() -> Int? {
        while let frame = try? next() {
            if frame.opcode == 8, frame.payload.count >= 2 {
                return Int(frame.payload[0]) << 8 | Int(frame.payload[1])
            }
        }
        return nil
    }

    private func next() throws -> (opcode: UInt8, payload: [UInt8]) {
        while pending.count < 2 { try readMore() }
        var (start, length) = (2, Int(pending[1] & 0x7F))
        if length == 126 {
            while pending.count < 4 { try readMore() }
            (start, length) = (4, Int(pending[2]) << 8 | Int(pending[3]))
        }
        while pending.count < start + length { try readMore() }
        let frame = (pending[0] & 0x0F, Array(pending[start..<start + length]))
        pending.removeFirst(start + length)
        return frame
    }

    private func readMore() throws {
        var bytes = [UInt8](repeating: 0, count: 4_096)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { throw HTTPConnection.ConnectionLost() }
        pending.append(contentsOf: bytes[..<count])
    }
}
