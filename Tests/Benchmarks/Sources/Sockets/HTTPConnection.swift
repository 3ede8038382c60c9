import CLinux
import Glibc

/// A response in the buffer of its connection; must not be kept.
package struct HTTPReply {
    package var status: Int
    package var head: UnsafeRawBufferPointer
    package var body: UnsafeRawBufferPointer

    package var text: String { String(decoding: body, as: UTF8.self) }
}

/// A persistent HTTP/1.1 connection with one request at a time.
///
/// Supports only responses with `Content-Length`: the relay sends no others, and a chunked one is an error.
package final class HTTPConnection {
    package let socket: Socket
    private var buffer = ReceiveBuffer()

    package init(socket: Socket) { self.socket = socket }

    package convenience init(to endpoint: Endpoint, source: UInt8 = 1, blocks: Bool = true) throws(LoadError) {
        self.init(socket: try Socket.connect(to: endpoint, source: source, blocks: blocks))
        if blocks { socket.limitReads(seconds: 60) }
    }

    /// Sends a request, waits for the response and passes it to `use`; for blocking sockets.
    package func exchange<Result>(_ request: [UInt8], _ use: (HTTPReply) throws -> Result) throws -> Result {
        try socket.write(request)
        while true {
            if let result = try receive(use) { return result }
        }
    }

    /// Reads once, and passes the response to `use` if it is complete.
    package func receive<Result>(_ use: (HTTPReply) throws -> Result) throws -> Result? {
        switch buffer.fill(from: socket) {
        case .bytes: break
        case .nothingYet: throw LoadError.timedOut("an answer")
        case .closed: throw LoadError.peer("The server closed the connection in the middle of an exchange.")
        }
        guard let reply = try takeReply() else { return nil }
        defer { buffer.use(reply.head.count + reply.body.count) }
        return try use(reply)
    }

    private func takeReply() throws(LoadError) -> HTTPReply? {
        let unread = buffer.unread
        guard let headLength = HTTPHead.length(in: unread) else { return nil }
        let head = UnsafeRawBufferPointer(rebasing: unread[..<headLength])
        guard let status = HTTPHead.status(of: head), let length = HTTPHead.contentLength(of: head) else {
            throw .peer("An answer without status or Content-Length: \(String(decoding: head, as: UTF8.self))")
        }
        guard unread.count >= headLength + length else { return nil }
        return HTTPReply(
            status: status,
            head: head,
            body: UnsafeRawBufferPointer(rebasing: unread[headLength..<headLength + length])
        )
    }
}

/// Parses message heads by searching for text.
package enum HTTPHead {
    /// Returns the length of the head including the blank line.
    package static func length(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let end = position(of: "\r\n\r\n", in: bytes) else { return nil }
        return end + 4
    }

    package static func status(of head: UnsafeRawBufferPointer) -> Int? {
        guard head.count > 12 else { return nil }
        return Int(String(decoding: head[9..<12], as: UTF8.self))
    }

    /// Returns the declared length of the body: 0 if the status implies an empty body, `nil` without a declaration.
    package static func contentLength(of head: UnsafeRawBufferPointer) -> Int? {
        guard let start = position(of: "content-length:", in: head) ?? position(of: "Content-Length:", in: head) else {
            return [101, 204, 304].contains(status(of: head)) ? 0 : nil
        }
        var value = 0
        for byte in head[(start + 15)...] where byte != UInt8(ascii: " ") {
            guard (48...57).contains(byte) else { break }
            value = value * 10 + Int(byte - 48)
        }
        return value
    }

    /// Returns the decimal number after a text.
    package static func number(after text: StaticString, in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let start = position(of: text, in: bytes) else { return nil }
        let digits = bytes[(start + text.utf8CodeUnitCount)...].prefix { (48...57).contains($0) }
        return digits.isEmpty ? nil : digits.reduce(0) { $0 * 10 + Int($1 - 48) }
    }

    /// Returns the first position of a text.
    package static func position(of text: StaticString, in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress,
            let found = memmem(base, bytes.count, text.utf8Start, text.utf8CodeUnitCount)
        else { return nil }
        return UnsafeRawPointer(found) - base
    }
}

/// The bytes of a request, encoded once and sent many times.
package struct HTTPRequest: Sendable {
    package var bytes: [UInt8]

    package init(
        _ method: String,
        _ target: String,
        to endpoint: Endpoint,
        headers: [(String, String)] = [],
        body: [UInt8] = []
    ) {
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(endpoint.host)\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        if method == "POST" { head += "Content-Type: application/json\r\nContent-Length: \(body.count)\r\n" }
        bytes = Array((head + "\r\n").utf8) + body
    }
}

/// A request with numbers that are replaced in place for each sending.
///
/// Each number replaces the text `################` with 16 hexadecimal digits, so that lengths never change and
/// sending needs no encoding.
package struct NumberedRequest: Sendable {
    package static let mark = "################"

    package private(set) var bytes: [UInt8]
    private var places: [Int] = []

    package init(_ request: HTTPRequest) {
        bytes = request.bytes
        let mark = Array(Self.mark.utf8)
        var index = 0
        while index + mark.count <= bytes.count {
            if bytes[index] == mark[0], bytes[index..<index + mark.count].elementsEqual(mark) {
                places.append(index)
                index += mark.count
            } else {
                index += 1
            }
        }
    }

    /// Writes numbers from `first` on into the placeholders, in order.
    package mutating func number(from first: Int) {
        let digits: StaticString = "0123456789abcdef"
        for (offset, place) in places.enumerated() {
            var rest = UInt64(first + offset)
            for position in stride(from: place + 15, through: place, by: -1) {
                bytes[position] = digits.utf8Start[Int(rest & 15)]
                rest >>= 4
            }
        }
    }

    /// How many numbers each sending uses.
    package var count: Int { places.count }
}
