import NIOCore
import NIOHTTP1

/// NIO's request parser, with what it does not tell: how long the request line is and when a request begins to arrive.
///
/// NIO's own limit on a field covers the target too, but ends in the same error as an overlong header, which has
/// another answer. So the line is measured here as its bytes arrive; only the first request of a pipelined batch is
/// known to begin at a read's first byte, and a later one's overlong line is answered as an overlong header.
final class RequestDecoder: ByteToMessageDecoder {
    typealias InboundOut = HTTPServerRequestPart

    private let parser: HTTPRequestDecoder
    private let lineLimit: Int
    /// Bytes that an earlier call left in the buffer.
    private var leftOver = 0
    /// Bytes of the current request line so far; `nil` once its end has been seen.
    private var lineLength: Int? = 0
    /// Whether the line's first word can be a method; `false` where its beginning was not seen.
    private var methodIsToken = false
    private var methodEnded = false
    /// A part of a request head has arrived and the rest has not.
    private(set) var isInsideHead = false

    init(limits: ServerLimits) {
        var configuration = NIOHTTPDecoderLimitConfiguration()
        // The parser counts name and value apart, and the target among the fields; the exact sums are checked later.
        configuration.maxHeaderFieldSize = max(limits.headerField, limits.requestLine)
        configuration.maxHeaderListSize = limits.headerList + limits.requestLine
        configuration.maxHeaderFieldCount = limits.headerCount
        lineLimit = limits.requestLine
        parser = HTTPRequestDecoder(leftOverBytesStrategy: .forwardBytes, limitConfiguration: configuration)
    }

    /// The head of a request has been parsed.
    func headEnded() { isInsideHead = false }

    /// A request is complete: what arrives next begins another.
    func requestEnded() {
        lineLength = 0
        methodIsToken = false
        methodEnded = false
    }

    func decoderAdded(context: ChannelHandlerContext) { parser.decoderAdded(context: context) }
    func decoderRemoved(context: ChannelHandlerContext) { parser.decoderRemoved(context: context) }

    func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        try measureLine(buffer)
        do {
            let state = try parser.decode(context: context, buffer: &buffer)
            leftOver = buffer.readableBytes
            return state
        } catch HTTPParserError.invalidMethod {
            throw methodIsToken ? Refusal.methodUnknown : Refusal.malformed("its method is not a token")
        }
    }

    func decodeLast(context: ChannelHandlerContext, buffer: inout ByteBuffer, seenEOF: Bool) throws -> DecodingState {
        try parser.decodeLast(context: context, buffer: &buffer, seenEOF: seenEOF)
    }

    private func measureLine(_ buffer: ByteBuffer) throws(Refusal) {
        guard var length = lineLength else { return }
        for byte in buffer.readableBytesView.dropFirst(leftOver) {
            if byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r") {
                // Empty lines before a request are allowed and count for nothing. RFC 9112, 2.2.
                if length == 0 { continue }
                lineLength = nil
                return
            }
            isInsideHead = true
            noteMethod(byte, isFirst: length == 0)
            length += 1
            guard length <= lineLimit else { throw .requestLineTooLong }
        }
        lineLength = length
    }

    private func noteMethod(_ byte: UInt8, isFirst: Bool) {
        if isFirst { methodIsToken = true }
        if byte == UInt8(ascii: " ") { methodEnded = true }
        if !methodEnded, !(0x21...0x7E).contains(byte) { methodIsToken = false }
    }
}
