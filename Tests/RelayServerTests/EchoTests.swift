import RelayServer
import Testing

/// RFC 6455 over real sockets, against the echo endpoint for tests.
@Suite struct EchoTests {
    private func withEcho<Value: Sendable>(_ body: @escaping @Sendable (Int) async throws -> Value) async throws
        -> Value
    {
        try await withServer({ $0.testDoor = true }, body)
    }

    @Test func messagesAreEchoed() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send(text: "grüße")
            try await socket.send(SocketPeer.frame(0x82, [0, 1, 255]))
            try await socket.send(SocketPeer.frame(0x81, []))
            let frames = try await socket.frames(3)
            #expect(frames.map(\.opcode) == [1, 2, 1])
            #expect(frames[0].text == "grüße")
            #expect(frames[1].payload == [0, 1, 255])
            #expect(frames[2].payload.isEmpty)
            await socket.close()
        }
    }

    @Test func messageSentWithHandshakeIsReceived() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port, early: SocketPeer.text("early"))
            #expect(try await socket.frames(1).map(\.text) == ["early"])
            await socket.close()
        }
    }

    @Test func aMessageSentByteByByteIsEchoed() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port)
            for byte in SocketPeer.text("slow") { try await socket.send([byte]) }
            #expect(try await socket.frames(1).map(\.text) == ["slow"])
            await socket.close()
        }
    }

    @Test func aLargeMessageIsEchoed() async throws {
        try await withEcho { port in
            let payload = (0..<1_000_003).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send(SocketPeer.frame(0x82, payload))
            #expect(try await socket.frames(1).first?.payload == payload)
            await socket.close()
        }
    }

    @Test func pingsInsideAMessageAreAnsweredAtOnce() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send(SocketPeer.frame(0x01, Array("frag".utf8)))
            try await socket.send(SocketPeer.frame(0x89, Array("p".utf8)))
            try await socket.send(SocketPeer.frame(0x00, Array("men".utf8)))
            try await socket.send(SocketPeer.frame(0x80, Array("ted".utf8)))
            let frames = try await socket.frames(2)
            #expect(frames.map(\.opcode) == [0xA, 1])
            #expect(frames.map(\.text) == ["p", "fragmented"])
            await socket.close()
        }
    }

    @Test func aCloseIsAnsweredWithItsCode() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send(SocketPeer.frame(0x88, [0x0F, 0xA0] + Array("bye".utf8)) + SocketPeer.text("late"))
            let frames = try await socket.framesUntilClosed()
            #expect(frames == [SocketPeer.Frame(opcode: 8, payload: [0x0F, 0xA0])])
        }
    }

    @Test func anEmptyCloseIsAnsweredEmpty() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send(SocketPeer.frame(0x88, []))
            #expect(try await socket.framesUntilClosed() == [SocketPeer.Frame(opcode: 8, payload: [])])
        }
    }

    struct Fault: Sendable, CustomTestStringConvertible {
        var name: String
        var bytes: [UInt8]
        var code: Int
        var testDescription: String { name }

        init(_ name: String, _ bytes: [UInt8], _ code: Int) {
            self.name = name
            self.bytes = bytes
            self.code = code
        }
    }

    static let faults: [Fault] =
        [
            Fault("unmasked", SocketPeer.frame(0x81, Array("x".utf8), mask: nil), 1002),
            Fault("unmasked ping", SocketPeer.frame(0x89, [], mask: nil), 1002),
            Fault("reserved bit 1", SocketPeer.frame(0xC1, []), 1002),
            Fault("reserved bit 2", SocketPeer.frame(0xA1, []), 1002),
            Fault("reserved bit 3", SocketPeer.frame(0x91, []), 1002),
            Fault("fragmented ping", SocketPeer.frame(0x09, []), 1002),
            Fault("ping of 126 bytes", SocketPeer.frame(0x89, Array(repeating: 1, count: 126)), 1002),
            Fault("continuation of nothing", SocketPeer.frame(0x80, [1]), 1002),
            Fault("open continuation of nothing", SocketPeer.frame(0x00, [1]), 1002),
            Fault("text inside a message", SocketPeer.frame(0x01, [0x61]) + SocketPeer.frame(0x81, [0x61]), 1002),
            Fault(
                "16-bit length of 125",
                SocketPeer.frame(0x82, Array(repeating: 1, count: 125), length: [126, 0, 125]),
                1002
            ),
            Fault("64-bit length of 1", SocketPeer.frame(0x82, [1], length: [127, 0, 0, 0, 0, 0, 0, 0, 1]), 1002),
            Fault(
                "64-bit length with the top bit",
                SocketPeer.frame(0x82, [], length: [127, 128, 0, 0, 0, 0, 0, 0, 0]),
                1002
            ),
            Fault("declared terabyte", SocketPeer.frame(0x82, [], length: [127, 0, 0, 1, 0, 0, 0, 0, 0]), 1009),
            Fault("close of one byte", SocketPeer.frame(0x88, [3]), 1002),
            Fault("close reason not UTF-8", SocketPeer.frame(0x88, [3, 0xE8, 0xFF]), 1007),
            Fault("text not UTF-8", SocketPeer.frame(0x81, [0xC0, 0xAF]), 1007),
            Fault("surrogate", SocketPeer.frame(0x81, [0xED, 0xA0, 0x80]), 1007),
            Fault("text ends inside a character", SocketPeer.frame(0x81, [0xE2, 0x82]), 1007),
            // The first fragment is already invalid; the rest never arrives.
            Fault("bad first fragment", SocketPeer.frame(0x01, [0x61, 0xFF]), 1007),
            // 0xF4 0x90 cannot begin a character, although the frame is incomplete.
            Fault("bad inside a frame", Array(SocketPeer.frame(0x81, [0xF4, 0x90, 0x80, 0x80, 0x61]).prefix(8)), 1007),
        ]
        + [0, 999, 1004, 1005, 1006, 1012, 1015, 1016, 1100, 2000, 2999, 5000, 65535].map { code in
            Fault("close code \(code)", SocketPeer.frame(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)]), 1002)
        }
        + [3, 4, 5, 6, 7, 0xB, 0xC, 0xD, 0xE, 0xF].map { Fault("opcode \($0)", SocketPeer.frame(0x80 | $0, []), 1002) }

    @Test func protocolErrorsFailTheConnection() async throws {
        try await withEcho { port in
            for fault in Self.faults {
                let socket = try await SocketPeer.connect(port: port)
                try await socket.send(SocketPeer.text("before") + fault.bytes + SocketPeer.text("after"))
                let frames = try await socket.framesUntilClosed()
                #expect(frames.first?.text == "before", "\(fault.name)")
                #expect(frames.dropFirst().map(\.closeCode) == [fault.code], "\(fault.name): \(frames)")
                await socket.close()
            }
        }
    }

    @Test(arguments: [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999])
    func allowedCloseCodesAreEchoed(_ code: Int) async throws {
        var reader = FrameReader(limit: 100)
        var bytes = buffer(SocketPeer.frame(0x88, [UInt8(code >> 8), UInt8(code & 0xFF)]))
        #expect(reader.next(in: &bytes) == .close(code: UInt16(code)))
    }

    @Test func tooManyControlFramesCloseTheConnection() async throws {
        try await withEcho { port in
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send((0..<200).flatMap { _ in SocketPeer.frame(0x89, []) })
            _ = try await socket.frames(waitingFor: "a close frame") { $0.contains { $0.opcode == 8 } }
            try await socket.send(SocketPeer.frame(0x88, [3, 0xF0]))
            let frames = try await socket.framesUntilClosed()
            #expect(frames.last?.closeCode == 1008)
            // The clock stands still, so the rate limit forgives no frame meanwhile.
            #expect(frames.filter { $0.opcode == 0xA }.count == 100)
        }
    }

    @Test func theEchoEndpointIsOffByDefault() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(SocketPeer.handshake("/__echo"))
            // The path is then an ordinary one.
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func theEchoEndpointRequiresLoopback() async throws {
        await #expect(throws: ListenError.echoBeyondLoopback) {
            try await withServer({
                $0.host = "0.0.0.0"
                $0.testDoor = true
            }) { _ in }
        }
    }
}
