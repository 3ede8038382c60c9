import RelayAPI
import Testing

@testable import RelayServer

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
}
