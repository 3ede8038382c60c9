import Foundation

/// An HTTP/1.1 response, parsed without any correction, so that checks see what was sent.
struct ProbeAnswer: Sendable {
    var status: Int
    /// Names in lower case, in the order received.
    var headers: [(name: String, value: String)]
    var body: [UInt8]

    /// Returns the value of the first field with this name, given in lower case.
    func header(_ name: String) -> String? { headers.first { $0.name == name }?.value }

    /// The reason in a relay's error response, without a final full stop; `nil` if the response is not a relay's error.
    var reason: String? {
        struct Refusal: Decodable { var reason: String }
        guard let said = try? JSONDecoder().decode(Refusal.self, from: Data(body)).reason else { return nil }
        return said.hasSuffix(".") ? String(said.dropLast()) : said
    }

    /// Removes one response from the front of `bytes`; returns `nil` while it is incomplete.
    ///
    /// `isOver`: the connection has ended, so a body without a length is complete.
    static func take(from bytes: inout [UInt8], isOver: Bool) throws(ProbeFault) -> ProbeAnswer? {
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else {
            if bytes.count > 65_536 { throw .notHTTP }
            return nil
        }
        let lines = String(decoding: bytes[..<end.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        let words = (lines.first ?? "").split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else { throw .notHTTP }
        var answer = ProbeAnswer(status: status, headers: fields(lines.dropFirst()), body: [])
        let rest = bytes[end.upperBound...]
        guard let body = try answer.body(in: rest, isOver: isOver) else { return nil }
        answer.body = body.bytes
        bytes.removeFirst(bytes.distance(from: bytes.startIndex, to: body.end))
        return answer
    }

    private static func fields(_ lines: ArraySlice<String>) -> [(name: String, value: String)] {
        lines.compactMap { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            return (parts[0].lowercased(), parts[1].trimmingCharacters(in: .whitespaces))
        }
    }

    private func body(
        in rest: ArraySlice<UInt8>,
        isOver: Bool
    ) throws(ProbeFault) -> (bytes: [UInt8], end: Int)? {
        if status == 101 || status == 204 || status == 304 { return ([], rest.startIndex) }
        if header("transfer-encoding")?.lowercased() == "chunked" { return try Self.chunked(rest) }
        guard let text = header("content-length") else { return isOver ? (Array(rest), rest.endIndex) : nil }
        guard let length = Int(text), (0...16_777_216).contains(length) else { throw .notHTTP }
        guard rest.count >= length else { return nil }
        return (Array(rest.prefix(length)), rest.startIndex + length)
    }

    private static func chunked(_ bytes: ArraySlice<UInt8>) throws(ProbeFault) -> (bytes: [UInt8], end: Int)? {
        var rest = bytes
        var body: [UInt8] = []
        while let line = rest.firstRange(of: Array("\r\n".utf8)) {
            let digits = String(decoding: rest[..<line.lowerBound], as: UTF8.self).prefix { $0.isHexDigit }
            guard let length = Int(digits, radix: 16), length <= 16_777_216 - body.count else { throw .notHTTP }
            guard rest[line.upperBound...].count >= length + 2 else { return nil }
            body.append(contentsOf: rest[line.upperBound...].prefix(length))
            rest = rest[(line.upperBound + length + 2)...]
            if length == 0 { return (body, rest.startIndex) }
        }
        return nil
    }
}

/// Why a probe failed.
enum ProbeFault: Error, CustomStringConvertible {
    case unreachable(String)
    /// The server's certificate is not trusted.
    case untrusted(String)
    /// A timeout: what was awaited, and for how many seconds.
    case late(String, Int)
    /// The server closed the connection while this was awaited.
    case ended(String)
    case notHTTP
    case brokenFrames

    var description: String {
        switch self {
        case .unreachable(let why): "cannot be reached: \(why)"
        case .untrusted(let why): "has an invalid certificate: \(why)"
        case .late(let what, let seconds): "did not send \(what) within \(seconds) s"
        case .ended(let what): "closed the connection before \(what)"
        case .notHTTP: "does not speak HTTP/1.1"
        case .brokenFrames: "sent an invalid WebSocket frame"
        }
    }
}
