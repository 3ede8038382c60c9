import Logging
import RelayServer
import TestSupport
import Testing

/// The listener on port 80 of a relay that obtains its certificate itself.
@Suite(.timeLimit(.minutes(5)))
struct ChallengeServerTests {
    /// Returns the whole response to a request.
    private func response(to request: String, _ answers: ChallengeAnswers) async throws -> String {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let server = ChallengeServer(
            address: ListeningAddress(host: "127.0.0.1", port: 0),
            answers: answers,
            redirectingTo: "https://sync.example.org",
            logger: quiet,
            onListening: { port.yield($0.port) }
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            defer { group.cancelAll() }
            var iterator = ports.makeAsyncIterator()
            let number = try #require(await iterator.next())
            let peer = try await RawPeer.connect(port: number, sending: request)
            // Never enough: the server closes the connection.
            let bytes = try await peer.received(waitingFor: "the end of the response") { _ in false }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func request(_ method: String, _ target: String) -> String {
        "\(method) \(target) HTTP/1.1\r\nHost: sync.example.org\r\n\r\n"
    }

    @Test("a published challenge is answered with its content alone")
    func challenges() async throws {
        let answers = ChallengeAnswers()
        answers.publish("abc.thumbprint", token: "abc")
        let path = "/.well-known/acme-challenge/"
        let found = try await response(to: request("GET", path + "abc"), answers)
        #expect(found.hasPrefix("HTTP/1.1 200 ") && found.hasSuffix("\r\n\r\nabc.thumbprint"), "\(found)")
        let missing = try await response(to: request("GET", path + "abd"), answers)
        #expect(missing.hasPrefix("HTTP/1.1 404 "), "\(missing)")
        answers.removeAll()
        let removed = try await response(to: request("GET", path + "abc"), answers)
        #expect(removed.hasPrefix("HTTP/1.1 404 "), "\(removed)")
    }

    @Test(
        "other requests are redirected to https with their path and query",
        arguments: [
            ("GET", "/", "301", "https://sync.example.org/"),
            ("GET", "/a?b=c", "301", "https://sync.example.org/a?b=c"),
            ("HEAD", "/a", "301", "https://sync.example.org/a"), ("POST", "/a", "308", "https://sync.example.org/a"),
            ("GET", "//evil.example/", "301", "https://sync.example.org//evil.example/"),
        ]
    )
    func redirects(method: String, target: String, status: String, location: String) async throws {
        let response = try await response(to: request(method, target), ChallengeAnswers())
        #expect(response.hasPrefix("HTTP/1.1 \(status) "), "\(response)")
        #expect(response.contains("\r\nlocation: \(location)\r\n"), "\(response)")
    }

    @Test("a target that is not a path is refused")
    func otherTargets() async throws {
        let response = try await response(to: request("GET", "http://evil.example/"), ChallengeAnswers())
        #expect(response.hasPrefix("HTTP/1.1 400 ") && !response.contains("location"), "\(response)")
    }

    @Test("a port in use is a ListenError")
    func portTaken() async throws {
        let taken = try ListeningPort()
        let address = ListeningAddress(host: "127.0.0.1", port: taken.number)
        let server = ChallengeServer(
            address: address,
            answers: ChallengeAnswers(),
            redirectingTo: "https://sync.example.org",
            logger: quiet
        )
        await #expect(throws: ListenError.portTaken(address)) { try await server.run() }
    }
}
