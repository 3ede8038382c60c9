import CZlib
import HTTPTypes
import RelayAPI
import RelayServer
import Testing

/// Responses are compressed with gzip if and only if the client accepts it.
@Suite(.timeLimit(.minutes(15))) struct GzipTests {
    private static let body = Array(("[" + (0..<2_000).map(String.init).joined(separator: ",") + "]").utf8)

    private func answer(to accepted: String?, body: [UInt8] = body) async throws -> (head: String, body: [UInt8]) {
        let field = accepted.map { "Accept-Encoding: \($0)\r\n" } ?? ""
        return try await withServer(respond: { _ in
            APIResponse(status: .ok, headers: [.contentType: "application/json", .vary: "Origin"], body: body)
        }) { port in
            let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\(field)\r\n"
            let peer = try await RawPeer.connect(port: port, sending: request)
            let bytes = try await peer.received(waitingFor: "the answer") { _ in false }
            let end = try #require((4...bytes.count).first { bytes[$0 - 4..<$0].elementsEqual([13, 10, 13, 10]) })
            return (String(decoding: bytes[..<end], as: UTF8.self), Array(bytes[end...]))
        }
    }

    @Test(arguments: ["gzip", "deflate, gzip", "gzip;q=0.5, identity", "*", "GZIP"])
    func aClientThatAcceptsGzipGetsIt(_ accepted: String) async throws {
        let (head, body) = try await answer(to: accepted)
        #expect(head.contains("Content-Encoding: gzip\r\n"))
        #expect(head.contains("Vary: Origin, Accept-Encoding\r\n"))
        #expect(head.contains("Content-Length: \(body.count)\r\n"))
        #expect(body.count < Self.body.count / 2)
        #expect(Self.expand(body) == Self.body)
    }

    @Test(arguments: [nil, "identity", "gzip;q=0", "*;q=0, deflate", "br", ""])
    func aClientThatDoesNotAcceptGzipGetsPlainBytes(_ accepted: String?) async throws {
        let (head, body) = try await answer(to: accepted)
        #expect(!head.contains("Content-Encoding"))
        #expect(body == Self.body)
    }

    @Test func smallOrIncompressibleBodiesStayPlain() async throws {
        var random = SplitMix(seed: 3)
        let noise = (0..<4_000).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        for body in [Array("{}".utf8), noise] {
            let (head, answered) = try await answer(to: "gzip", body: body)
            #expect(!head.contains("Content-Encoding"))
            #expect(answered == body)
        }
    }

    private static func expand(_ bytes: [UInt8]) -> [UInt8] {
        var stream = z_stream()
        guard inflateInit2_(&stream, 15 + 16, zlibVersion(), Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
            return []
        }
        defer { inflateEnd(&stream) }
        var bytes = bytes
        return bytes.withUnsafeMutableBufferPointer { input in
            [UInt8](unsafeUninitializedCapacity: 1 << 20) { output, count in
                stream.next_in = input.baseAddress
                stream.avail_in = UInt32(input.count)
                stream.next_out = output.baseAddress
                stream.avail_out = UInt32(output.count)
                count = inflate(&stream, Z_FINISH) == Z_STREAM_END ? output.count - Int(stream.avail_out) : 0
            }
        }
    }
}
