import Foundation
import HTTPTypes
import RelayAPI
import RelayServer
import Testing

@Suite struct HTTPServiceTests {
    @Test func aRequestIsAnswered() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            let answer = try await peer.text(containing: "hello")
            #expect(answer.hasPrefix("HTTP/1.1 200 OK\r\n"))
            #expect(answer.contains("\r\nDate: "))
            #expect(answer.hasSuffix("\r\n\r\nPOST /a/b c=d 127.0.0.1\nhello"))
            await peer.close()
        }
    }

    @Test func pipelinedRequestsAreAnsweredInOrder() async throws {
        try await withServer { port in
            let requests = (0..<50).map { "GET /\($0) HTTP/1.1\r\nHost: x\r\n\r\n" }.joined()
            let last = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            let peer = try await RawPeer.connect(port: port, sending: requests + last)
            let answer = try await peer.untilClosed()
            let words = answer.split { $0.isWhitespace }
            let paths = zip(words, words.dropFirst()).filter { $0.0 == "GET" }.map { String($0.1) }
            #expect(paths == (0..<50).map { "/\($0)" } + ["/last"])
        }
    }

    /// The socket buffer takes only a part of the response.
    ///
    /// The rest waits in the channel, and the next responses behind it.
    @Test func aSlowReaderGetsLargeResponsesCompletely() async throws {
        let (letters, size) = (Array("abcde".utf8), 1_500_000)
        try await withServer(respond: { request in
            let letter = request.path.utf8.dropFirst().first ?? 0
            return APIResponse(status: .ok, body: Array(repeating: letter, count: size))
        }) { port in
            let requests = letters.map {
                "GET /\(Character(Unicode.Scalar($0))) HTTP/1.1\r\nHost: x\r\n"
                    + ($0 == letters.last ? "Connection: close\r\n\r\n" : "\r\n")
            }
            let peer = try await RawPeer.connect(port: port, reads: false, sending: requests.joined())
            // Once another connection is answered, the slow reader's first response has filled its socket.
            let other = try await RawPeer.connect(port: port, sending: "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            _ = try await other.text(containing: "up")
            try await peer.startReading()
            var rest = try await peer.received(waitingFor: "the relay to close") { _ in false }[...]
            for letter in letters {
                let head = try #require(rest.firstRange(of: Array("\r\n\r\n".utf8)))
                let body = rest[head.upperBound...].prefix(size)
                let isWhole = body.elementsEqual(repeatElement(letter, count: size))
                #expect(isWhole)
                rest = rest[body.endIndex...]
            }
            let isOver = rest.isEmpty
            #expect(isOver)
            await other.close()
        }
    }

    @Test func theResponseToHEADHasNoBody() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(
                port: port,
                sending: "HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            let answer = try await peer.untilClosed()
            #expect(!answer.contains("HEAD /a"))
            #expect(answer.contains("GET /b"))
            #expect(answer.ranges(of: "Content-Length: ").count == 2)
        }
    }
}
