import AsyncHTTPClient
import NIOCore
import NIOSSL
import RelayCore
import RelayGateways
import TestSupport
import Testing

/// The keys of issuers by HTTPS, from a server in this process.
@Suite(.timeLimit(.minutes(15))) struct KeyFetchTests {
    private func withIssuer(_ body: (KeyFetch, PushServicePeer) async throws -> Void) async throws {
        let peer = try await PushServicePeer.start()
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(PushServicePeer.certificate.utf8)))
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(120), read: .seconds(120))
        configuration.tlsConfiguration = tls
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            try await body(KeyFetch(client: client, limit: .seconds(120)), peer)
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
        try? await peer.stop()
    }

    private func fault(_ fetch: KeyFetch, _ address: String) async -> String {
        do {
            return "\(try await fetch.fetch(address).count) bytes"
        } catch {
            return "\(error)"
        }
    }

    @Test("the body of a response is returned, up to 256 KiB") func bodies() async throws {
        try await withIssuer { fetch, peer in
            peer.willAnswer(200, #"{"keys":[]}"#)
            #expect(try await fetch.fetch(peer.address + "/keys") == Array(#"{"keys":[]}"#.utf8))
            let request = try #require(peer.requests.first)
            #expect(request.path == "/keys" && request.headers["accept"]?.contains("jwk-set+json") == true)
            peer.willAnswer(200, String(repeating: "x", count: KeyLimits.bytes + 1))
            #expect(await fault(fetch, peer.address).contains("larger than 256 KiB"))
        }
    }

    @Test("redirects and errors are refused") func statuses() async throws {
        try await withIssuer { fetch, peer in
            peer.willAnswer(302, headers: [("location", peer.address + "/other")])
            #expect(await fault(fetch, peer.address).contains("answers 302, not 200"))
            peer.willAnswer(503)
            #expect(await fault(fetch, peer.address).contains("answers 503, not 200"))
            #expect(peer.requests.count == 2)
        }
    }

    @Test("only https addresses with a usable port are fetched") func addresses() async {
        let fetch = KeyFetch()
        for address in ["http://localhost/keys", "file:///etc/passwd", "https://", "keys"] {
            #expect(await fault(fetch, address).contains("is not an https address"), "\(address)")
        }
        #expect(await fault(fetch, "https://127.0.0.1:99999/").contains("not between 1 and 65535"))
    }

    @Test("an unreachable, untrusted or silent server is named as such") func failures() async throws {
        let unserved = try UnservedPort()
        let refused = await fault(KeyFetch(), "https://127.0.0.1:\(unserved.number)/")
        #expect(refused.contains("cannot be reached: Connection refused"), "\(refused)")
        try await withIssuer { _, peer in
            let untrusted = await fault(KeyFetch(limit: .seconds(120)), peer.address)
            #expect(untrusted.contains("cannot be reached"), "\(untrusted)")
        }
        let silent = try ListeningPort()
        let late = await fault(KeyFetch(limit: .milliseconds(50)), "https://127.0.0.1:\(silent.number)/")
        #expect(late.contains("did not answer within five seconds"), "\(late)")
    }
}
