import NIOCore
import RelayServer
import Testing

func buffer(_ bytes: [UInt8]) -> ByteBuffer { ByteBuffer(bytes: bytes) }

@Suite struct FrameReaderTests {
    /// Returns all events of a byte stream that arrives in pieces of `step` bytes.
    private func events(_ bytes: [UInt8], step: Int, limit: Int = 1 << 20) -> [FrameReader.Event] {
        var reader = FrameReader(limit: limit)
        var events: [FrameReader.Event] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            var piece = buffer(Array(rest.prefix(step)))
            rest = rest.dropFirst(step)
            while let event = reader.next(in: &piece) { events.append(event) }
            #expect(piece.readableBytes == 0)
        }
        return events
    }

    @Test(arguments: [1, 2, 3, 7, 8, 13, 64, 100_000]) func framesAreReadFromPiecesOfAnySize(_ step: Int) {
        let long = (0..<70_000).map { UInt8(truncatingIfNeeded: $0) }
        let stream =
            SocketPeer.text("héllo") + SocketPeer.frame(0x02, [1, 2, 3], mask: [1, 2, 3, 4])
            + SocketPeer.frame(0x8A, [9])
            + SocketPeer.frame(0x89, Array("ping".utf8)) + SocketPeer.frame(0x80, [4]) + SocketPeer.frame(0x82, long)
            + SocketPeer.frame(0x82, Array(repeating: 5, count: 126)) + SocketPeer.frame(0x88, [])
        #expect(
            events(stream, step: step) == [
                .text(Array("héllo".utf8)), .pong, .ping(Array("ping".utf8)), .binary([1, 2, 3, 4]), .binary(long),
                .binary(Array(repeating: 5, count: 126)), .close(code: nil),
            ]
        )
    }

    @Test func theLimitAppliesToAFragmentedMessageAsAWhole() {
        let stream =
            SocketPeer.frame(0x02, Array(repeating: 1, count: 60))
            + SocketPeer.frame(0x80, Array(repeating: 1, count: 41))
        #expect(events(stream, step: 1000, limit: 101).count == 1)
        #expect(events(stream, step: 1000, limit: 100) == [.failed(.init(code: 1009, reason: "message too big"))])
    }

    @Test func theLimitAppliesToTheDeclaredLength() {
        let header = Array(SocketPeer.frame(0x82, [], length: [126, 0x40, 0]).prefix(4))
        #expect(events(header, step: 1, limit: 0x3FFF) == [.failed(.init(code: 1009, reason: "message too big"))])
        #expect(events(header, step: 1, limit: 0x4000).isEmpty)
    }

    @Test func aCharacterMayBeSplitAcrossFragments() {
        let euro = Array("€".utf8)
        let stream =
            SocketPeer.frame(0x01, [euro[0]]) + SocketPeer.frame(0x00, []) + SocketPeer.frame(0x00, [euro[1]])
            + SocketPeer.frame(0x80, [euro[2]])
        #expect(events(stream, step: 1000) == [.text(euro)])
    }

    @Test func nothingIsReadAfterAProtocolError() {
        let stream = SocketPeer.frame(0x83, []) + SocketPeer.text("x")
        #expect(events(stream, step: 1000).count == 1)
    }

    /// The incremental check agrees with the standard library for every split of every case.
    @Test func utf8ValidationMatchesStandardLibrary() {
        var generator = SplitMix(seed: 7)
        for _ in 0..<20_000 {
            let bytes = (0..<Int.random(in: 0...12, using: &generator)).map { _ -> UInt8 in
                let interesting: [UInt8] = [
                    0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5,
                ]
                return interesting.randomElement(using: &generator) ?? 0
            }
            let split = Int.random(in: 0...bytes.count, using: &generator)
            var stream = UTF8Validator()
            let accepted =
                Array(bytes[..<split]).withUnsafeBytes { stream.accepts($0) }
                && Array(bytes[split...]).withUnsafeBytes { stream.accepts($0) } && stream.isComplete
            #expect(accepted == (String(validating: bytes, as: UTF8.self) != nil), "\(bytes)")
        }
    }
}

/// A seeded generator, so that failures are reproducible.
struct SplitMix: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
