import NIOCore
import NIOEmbedded
import NIOWebSocket
import RelayServer
import Testing

/// What NIO's WebSocket handlers lack, each as the reason for a type of ours: once one of these tests fails, the type can
/// be reconsidered.
///
/// The bytes are valid or invalid by RFC 6455; `FrameReader` and `FrameEncoder` are held to the same expectations.
@Suite struct NIOFrameTests {
    /// Returns the opcodes of the frames that NIO's decoder passes on, and the error that it reports.
    private func decode(_ bytes: [UInt8]) throws -> (opcodes: [WebSocketOpcode], error: (any Error)?) {
        let channel = EmbeddedChannel(handler: ByteToMessageHandler(WebSocketFrameDecoder()))
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        var failure: (any Error)?
        do { try channel.writeInbound(ByteBuffer(bytes: bytes)) } catch { failure = error }
        var opcodes: [WebSocketOpcode] = []
        while let frame = try channel.readInbound(as: WebSocketFrame.self) { opcodes.append(frame.opcode) }
        return (opcodes, failure)
    }

    private func read(_ bytes: [UInt8]) -> FrameReader.Event? {
        var reader = FrameReader(limit: 1 << 20)
        var input = ByteBuffer(bytes: bytes)
        return reader.next(in: &input)
    }

    private func isRefused(_ bytes: [UInt8], as code: UInt16) -> Bool {
        guard case .failed(let fault)? = read(bytes) else { return false }
        return fault.code == code
    }

    /// A length that is written longer than needed (RFC 6455, 5.2): the decoded frame does not show how it was written.
    @Test func theDecoderAcceptsLengthsThatAreTooLong() throws {
        let frame = SocketPeer.frame(0x82, [1], length: [127, 0, 0, 0, 0, 0, 0, 0, 1])
        let decoded = try decode(frame)
        #expect(decoded.opcodes == [.binary] && decoded.error == nil)
        #expect(isRefused(frame, as: 1002))
    }

    /// Invalid text must fail the connection at once (RFC 6455, 8.1; Autobahn 6.4): the decoder waits for the whole frame.
    @Test func theDecoderReportsInvalidTextOnlyAtTheEndOfTheFrame() throws {
        let part = Array(SocketPeer.frame(0x81, [0xF4, 0x90, 0x80, 0x80, 0x61]).prefix(8))
        let decoded = try decode(part)
        #expect(decoded.opcodes.isEmpty && decoded.error == nil)
        #expect(isRefused(part, as: 1007))
    }

    /// A frame that is not masked must fail the connection (RFC 6455, 5.1).
    @Test func theDecoderAcceptsUnmaskedFrames() throws {
        let frame = SocketPeer.frame(0x81, Array("x".utf8), mask: nil)
        let decoded = try decode(frame)
        #expect(decoded.opcodes == [.text] && decoded.error == nil)
        #expect(isRefused(frame, as: 1002))
    }

    /// A notice is encoded once for all its receivers.
    ///
    /// NIO's encoder puts the header in front of a payload only if nothing else holds it, so a shared one takes two writes
    /// for each connection.
    @Test func theEncoderWritesTheHeaderOfASharedPayloadSeparately() throws {
        let channel = EmbeddedChannel(handler: WebSocketFrameEncoder())
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        let text = [UInt8](repeating: 7, count: 300)
        var shared = ByteBuffer(repeating: 0, count: 14)
        shared.moveReaderIndex(forwardBy: 14)
        shared.writeBytes(text)
        try channel.writeOutbound(WebSocketFrame(fin: true, opcode: .text, data: shared))
        var pieces: [ByteBuffer] = []
        while let piece = try channel.readOutbound(as: ByteBuffer.self) { pieces.append(piece) }
        #expect(pieces.count == 2)
        #expect(pieces.last == shared)
        let written = pieces.reduce(into: ByteBuffer()) { $0.writeImmutableBuffer($1) }
        #expect(written == FrameEncoder.frame(.text, text))
    }
}
