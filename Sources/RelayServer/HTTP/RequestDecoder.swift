import NIOCore
import NIOHTTP1
import RelayAPI

/// Wraps NIO's HTTP parser so that it never sees bytes beyond the current request.
///
/// NIO has no limit for request lines: one that is too long causes the same error as an oversized field, and unknown
/// methods, protocols and versions cause three others. So each line is checked here before it is passed on. This
/// requires knowing where every request begins, even in a pipeline: a head ends at an empty line, a body at its
/// declared length, and a chunked body at the end of a line. Nothing beyond is passed on before the parser has reported
/// what it has seen.
final class RequestDecoder: ByteToMessageDecoder {
    typealias InboundOut = HTTPServerRequestPart

    private enum Stage {
        case line
        case head
        case body(remaining: Int)
        case chunks(ChunkTracker)
        /// The body of a request whose head was recognized: the parser sees neither head nor body.
        case cachedHeadBody(remaining: Int)
        /// The remaining bytes belong to another protocol.
        case stopped
        /// The remaining bytes are discarded.
        case discarding
    }

    /// Created for the first head that is not recognized.
    private var parser: HTTPRequestDecoder?
    private let lineLimit: Int
    private let limits: ServerLimits
    private var stage = Stage.line
    /// Bytes at the start of the buffer that the parser has seen and not consumed.
    private var leftOver = 0
    /// Bytes not yet passed on that have been searched for a line end.
    private var searched = 0
    /// Receives requests whose head was recognized; those of the parser go through the pipeline.
    ///
    /// It resets this when it leaves the pipeline. Not weak, since that makes all reference counting of the handler slower.
    var cachedRequestHandler: (any CachedRequestHandler)?
    private let heads: RequestHeadCache
    private let peer: String
    /// The head of the latest request; `nil` if it must be parsed each time.
    private var latestHead: CachedRequestHead?
    /// Whether the current request line begins with HEAD, valid or not; a refusal then has no body.
    private(set) var isHeadRequest = false
    /// The head being passed to the parser, if it has arrived in one piece.
    private var wholeHead: ByteBuffer?

    /// - Parameters:
    ///   - limits: The limits of heads and bodies.
    ///   - heads: The heads that the event loop knows.
    ///   - peer: The address of the client, which is part of a request.
    init(limits: ServerLimits, heads: RequestHeadCache, peer: String) {
        self.heads = heads
        self.peer = peer
        lineLimit = limits.requestLine
        self.limits = limits
    }

    private func makeParser(_ context: ChannelHandlerContext) -> HTTPRequestDecoder {
        var configuration = NIOHTTPDecoderLimitConfiguration()
        // The parser counts name and value separately, and the target among the fields; exact sums are checked later.
        configuration.maxHeaderFieldSize = max(limits.headerField, limits.requestLine)
        configuration.maxHeaderListSize = limits.headerList + limits.requestLine
        configuration.maxHeaderFieldCount = limits.headerCount
        let parser = HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: configuration)
        parser.decoderAdded(context: context)
        self.parser = parser
        return parser
    }

    // MARK: Events from the connection handler

    /// The connection handler has accepted a head.
    func headEnded(_ plan: RequestPlan) {
        let limit = plan.request.intake == nil ? limits.body : max(limits.body, limits.upload)
        stage = plan.bodyLength.map { .body(remaining: $0) } ?? .chunks(ChunkTracker(limit: limit, line: lineLimit))
        latestHead = wholeHead.flatMap { heads.add($0.readableBytesView, plan: plan, from: peer) }
    }

    func requestEnded() {
        stage = .line
        searched = 0
        isHeadRequest = false
    }

    /// The connection changes its protocol after the request that has just ended.
    func stop() { stage = .stopped }

    /// Discards everything that still arrives.
    func discardInput() { stage = .discarding }

    /// Whether part of a request head has arrived.
    var isInsideHead: Bool {
        switch stage {
        case .line: searched > 0
        case .head: true
        case .body, .chunks, .cachedHeadBody, .stopped, .discarding: false
        }
    }

    // MARK: Decoding

    func decoderRemoved(context: ChannelHandlerContext) { parser?.decoderRemoved(context: context) }

    func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        while buffer.readableBytes > leftOver {
            switch stage {
            case .line:
                if beginCachedHead(&buffer) { continue }
                guard try checkLine(&buffer) else { return .needMoreData }
                stage = .head
            case .head:
                let count = Self.headEnd(in: buffer.readableBytesView.dropFirst(leftOver))
                wholeHead = leftOver == 0 ? buffer.getSlice(at: buffer.readerIndex, length: count) : nil
                defer { wholeHead = nil }
                try feed(count, context, &buffer)
            case .body(let remaining):
                // The parser and the rules must agree on where a body ends; if they ever do not, the connection is
                // closed.
                guard remaining > 0 else { throw Refusal.malformed("its length is ambiguous") }
                let count = min(remaining, buffer.readableBytes - leftOver)
                stage = .body(remaining: remaining - count)
                try feed(count, context, &buffer)
            case .chunks(var lines):
                let count = try lines.pass(buffer.readableBytesView.dropFirst(leftOver))
                stage = .chunks(lines)
                try feed(count, context, &buffer)
            case .cachedHeadBody(let remaining):
                takeCachedHeadBody(remaining, &buffer)
            case .stopped:
                return .needMoreData
            case .discarding:
                leftOver = 0
                buffer.moveReaderIndex(to: buffer.writerIndex)
            }
        }
        return .needMoreData
    }

    func decodeLast(context: ChannelHandlerContext, buffer: inout ByteBuffer, seenEOF: Bool) throws -> DecodingState {
        if case .discarding = stage { return .needMoreData }
        _ = try decode(context: context, buffer: &buffer)
        if case .line = stage, seenEOF, buffer.readableBytes > 0 { throw HTTPParserError.invalidEOFState }
        if case .cachedHeadBody = stage, seenEOF { throw HTTPParserError.invalidEOFState }
        if let parser { return try parser.decodeLast(context: context, buffer: &buffer, seenEOF: seenEOF) }
        if !seenEOF, buffer.readableBytes > 0 {
            // A socket has taken over.
            context.fireChannelRead(NIOAny(buffer))
            buffer.clear()
        }
        return .needMoreData
    }

    /// Returns whether the buffer begins with a known head, and consumes it.
    private func beginCachedHead(_ buffer: inout ByteBuffer) -> Bool {
        guard let cachedRequestHandler, leftOver == 0, searched == 0,
            let (head, found) = heads.match(buffer, from: peer, latest: latestHead),
            cachedRequestHandler.begin(head.plan, found)
        else { return false }
        latestHead = head
        buffer.moveReaderIndex(forwardBy: found.headLength)
        stage = .cachedHeadBody(remaining: found.bodyLength)
        if found.bodyLength == 0 { cachedRequestHandler.requestArrived() }
        return true
    }

    private func takeCachedHeadBody(_ remaining: Int, _ buffer: inout ByteBuffer) {
        let count = min(remaining, buffer.readableBytes)
        stage = .cachedHeadBody(remaining: remaining - count)
        guard let piece = buffer.viewBytes(at: buffer.readerIndex, length: count) else { return }
        buffer.moveReaderIndex(forwardBy: count)
        cachedRequestHandler?.bodyArrived(piece)
        if count == remaining { cachedRequestHandler?.requestArrived() }
    }

    private func feed(_ count: Int, _ context: ChannelHandlerContext, _ buffer: inout ByteBuffer) throws {
        let length = leftOver + count
        guard var slice = buffer.getSlice(at: buffer.readerIndex, length: length) else { return }
        if case .head = stage { Self.blankTabs(atFieldEndsOf: &slice) }
        _ = try (parser ?? makeParser(context)).decode(context: context, buffer: &slice)
        leftOver = slice.readableBytes
        buffer.moveReaderIndex(forwardBy: length - leftOver)
    }

    /// Returns the number of bytes up to and including the empty line, or all bytes if there is none.
    private static func headEnd(in bytes: ByteBufferView) -> Int {
        bytes.withUnsafeBytes { bytes in
            var index = 0
            while index < bytes.count {
                if bytes[index] == UInt8(ascii: "\n") {
                    if index + 1 < bytes.count, bytes[index + 1] == UInt8(ascii: "\n") { return index + 2 }
                    if index + 2 < bytes.count, bytes[index + 1] == UInt8(ascii: "\r"),
                        bytes[index + 2] == UInt8(ascii: "\n")
                    {
                        return index + 3
                    }
                    // The empty line itself, whose beginning has been passed on already.
                    if index <= 1 { return index + 1 }
                }
                index += 1
            }
            return bytes.count
        }
    }

    /// Replaces tabs after field values, which RFC 9110, 5.5 allows, but the parser does not allow after a length.
    private static func blankTabs(atFieldEndsOf head: inout ByteBuffer) {
        let (tab, blank) = (UInt8(ascii: "\t"), UInt8(ascii: " "))
        // Almost no head contains tabs.
        guard head.readableBytesView.contains(tab) else { return }
        var isAtEnd = false
        for index in stride(from: head.writerIndex - 1, through: head.readerIndex, by: -1) {
            switch head.getInteger(at: index, as: UInt8.self) {
            case UInt8(ascii: "\r"), UInt8(ascii: "\n"): isAtEnd = true
            case tab: if isAtEnd { head.setInteger(blank, at: index) }
            case blank: break
            default: isAtEnd = false
            }
        }
    }

    // MARK: The request line

    private static let headMethod = Array("HEAD ".utf8)

    /// Returns whether a complete, valid request line has arrived; empty lines before it are skipped (RFC 9112, 2.2).
    private func checkLine(_ buffer: inout ByteBuffer) throws(Refusal) -> Bool {
        while searched == 0, let byte = buffer.getInteger(at: buffer.readerIndex, as: UInt8.self),
            byte == UInt8(ascii: "\r") || byte == UInt8(ascii: "\n")
        {
            buffer.moveReaderIndex(forwardBy: 1)
        }
        let bytes = buffer.readableBytesView
        if let first = bytes.first { try RequestLine.check(first: first) }
        isHeadRequest = bytes.starts(with: Self.headMethod)
        guard let end = bytes.dropFirst(searched).firstIndex(of: UInt8(ascii: "\n")) else {
            searched = bytes.count
            guard searched <= lineLimit + 1 else { throw .requestLineTooLong }
            return false
        }
        guard end - bytes.startIndex <= lineLimit + 1 else { throw .requestLineTooLong }
        try RequestLine.check(bytes[..<end])
        searched = 0
        return true
    }
}

/// Receives requests from the decoder without going through the pipeline.
protocol CachedRequestHandler: AnyObject {
    /// Starts a request with the variable parts of its head; returns `false` if it is not possible now.
    func begin(_ plan: RequestPlan, _ match: CachedRequestHead.Match) -> Bool
    func bodyArrived(_ piece: ByteBufferView)
    func requestArrived()
}

/// The rules for request lines (RFC 9112, 3).
enum RequestLine {
    /// Rejects a first byte that cannot begin a method, so that a TLS client on a plain port need not wait for more.
    static func check(first: UInt8) throws(Refusal) {
        guard first != 0x16 else { throw .malformed("it is TLS on a port without TLS") }
        guard isTokenByte(first) else { throw .malformed("its method is not a token") }
    }

    /// `line` excludes its line feed.
    static func check(_ line: ByteBufferView) throws(Refusal) {
        guard line.last == UInt8(ascii: "\r") else { throw .malformed("its request line does not end in CR LF") }
        let text = line.dropLast()
        let space = UInt8(ascii: " ")
        guard let methodEnd = text.firstIndex(of: space), methodEnd > text.startIndex,
            text[..<methodEnd].allSatisfy({ isTokenByte($0) })
        else { throw .malformed("its method is not a token") }
        let rest = text[(methodEnd + 1)...]
        guard let targetEnd = rest.firstIndex(of: space), targetEnd > rest.startIndex else {
            throw .malformed("its request line has no target or no version")
        }
        try check(version: rest[(targetEnd + 1)...])
        let method = text[..<methodEnd]
        guard !checkedMethods.contains(where: { $0.elementsEqual(method) }) else { return }
        throw query.elementsEqual(method) ? .methodNotServed : .methodUnknown
    }

    private static func check(version: ByteBufferView) throws(Refusal) {
        let bytes = Array(version)
        guard bytes.count == 8, bytes.starts(with: "HTTP/".utf8), isDigit(bytes[5]), bytes[6] == UInt8(ascii: "."),
            isDigit(bytes[7])
        else { throw .malformed("its version is not an HTTP version") }
        let isServed = bytes[5] == UInt8(ascii: "1") && (bytes[7] == UInt8(ascii: "0") || bytes[7] == UInt8(ascii: "1"))
        guard isServed else { throw .versionUnknown }
    }

    /// The methods that the parser and the rules handle.
    private static let checkedMethods = [
        "GET", "POST", "OPTIONS", "HEAD", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT",
    ]
    .map { Array($0.utf8) }

    /// Defined for OpenAPI and used by test tools; not supported here.
    private static let query = Array("QUERY".utf8)

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

    /// Returns whether a byte is a token character (RFC 9110, 5.6.2).
    static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"),
            UInt8(ascii: "'"), UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^"), UInt8(ascii: "_"), UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: false
        }
    }
}

/// Tracks the position in a chunked body, so that oversized chunks are rejected by their declared length.
///
/// The parser receives the same bytes and checks their syntax; what it rejects need not be understood here. See RFC
/// 9112, 7.1.
struct ChunkTracker {
    private enum Position {
        /// In the line of a chunk's length, of which `count` bytes have passed.
        case length(UInt64, count: Int, isRead: Bool)
        /// In a chunk's data, including the line end after it.
        case data(remaining: Int)
        /// After the last chunk; the parser limits the trailer fields.
        case trailers
    }

    /// The total bytes that further chunks may declare.
    private var limit: Int
    private let lineLimit: Int
    private var position = Position.length(0, count: 0, isRead: false)

    /// - Parameters:
    ///   - limit: The maximum bytes of all chunks together.
    ///   - lineLimit: The maximum bytes of a chunk's length line, including extensions.
    init(limit: Int, line lineLimit: Int) {
        self.limit = limit
        self.lineLimit = lineLimit
    }

    /// Returns how many of these bytes to pass to the parser next, at most to the end of a line.
    mutating func pass(_ bytes: ByteBufferView) throws(Refusal) -> Int {
        switch position {
        case .data(let remaining):
            let count = min(remaining, bytes.count)
            position = count == remaining ? .length(0, count: 0, isRead: false) : .data(remaining: remaining - count)
            return count
        case .trailers: return Self.lineEnd(in: bytes) ?? bytes.count
        case .length(var length, let passed, var isRead):
            let end = Self.lineEnd(in: bytes)
            let count = end ?? bytes.count
            guard passed + count <= lineLimit else { throw .malformed("the line of a chunk's length is too long") }
            for byte in bytes.prefix(count) where !isRead {
                guard let digit = Self.digit(byte) else {
                    isRead = true
                    continue
                }
                guard length >> 60 == 0 else { throw .malformed("a chunk's length has more than 64 bits") }
                length = length << 4 | digit
            }
            guard end != nil else {
                position = .length(length, count: passed + count, isRead: isRead)
                return count
            }
            guard length <= limit else { throw .bodyTooLarge }
            limit -= Int(length)
            position = length == 0 ? .trailers : .data(remaining: Int(length) + 2)
            return count
        }
    }

    private static func lineEnd(in bytes: ByteBufferView) -> Int? {
        bytes.firstIndex(of: UInt8(ascii: "\n")).map { $0 - bytes.startIndex + 1 }
    }

    private static func digit(_ byte: UInt8) -> UInt64? {
        switch byte {
        case 0x30...0x39: UInt64(byte) - 0x30
        case 0x41...0x46: UInt64(byte) - 0x41 + 10
        case 0x61...0x66: UInt64(byte) - 0x61 + 10
        default: nil
        }
    }
}
