import HTTPTypes
import NIOCore
import RelayAPI
import RelayServer
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing

/// The transport's rows of the table of limits.
///
/// See Reliability.md, "Limits".
@Suite struct ServerLimitTests {
    /// Uses one event loop that checks its deadlines often; time passes only when the test advances the clock.
    private static func oneLoop(_ configuration: inout ServerConfiguration) {
        configuration.loops = 1
        configuration.limits.sweepInterval = .milliseconds(20)
    }

    private static let limits = ServerLimits()

    @Test func anIncompleteHeadTimesOut() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("GET / HTTP/1.1\r\nHost: x\r\nX-A: ")
            try await settle(port)
            clock.advance(Self.limits.headTime + .milliseconds(1))
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test func aHeadThatArrivesSlowlyTimesOutAsAWhole() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock) { port in
            let peer = try await RawPeer.connect(port: port)
            // The bytes arrive one second apart, and one second longer than allowed in total.
            for _ in 0..<Self.limits.headTime.nanoseconds / 1_000_000_000 + 1 {
                try await peer.send("G")
                try await settle(port)
                clock.advance(.seconds(1))
            }
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test func aSilentConnectionIsClosed() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock) { port in
            let peer = try await RawPeer.connect(port: port)
            try await settle(port)
            clock.advance(Self.limits.headTime + .milliseconds(1))
            #expect(try await peer.untilClosed() == "")
        }
    }

    @Test func anInterruptedBodyTimesOut() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
            try await settle(port)
            clock.advance(Self.limits.bodyGap + .milliseconds(1))
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 408 "))
        }
    }

    @Test func aBodyThatArrivesSlowlyTimesOutAsAWhole() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
            for _ in 0..<Self.limits.bodyTime.nanoseconds / Self.limits.bodyGap.nanoseconds + 1 {
                try await peer.send("a")
                try await settle(port)
                clock.advance(Self.limits.bodyGap)
            }
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 408 "))
        }
    }

    /// Incomplete bodies cannot be attributed to a user yet.
    @Test func incompleteBodiesAreLimitedInTotal() async throws {
        let configure: @Sendable (inout ServerConfiguration) -> Void = {
            Self.oneLoop(&$0)
            $0.limits.unfinishedBodies = 100_000
        }
        try await withServer(configure) { port in
            let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 90001\r\n\r\n"
            let most = String(repeating: "a", count: 90_000)
            let first = try await RawPeer.connect(port: port, sending: head + most)
            try await settle(port)
            let second = try await RawPeer.connect(port: port, sending: head + most)
            let refused = try await second.text(containing: "}")
            #expect(refused.hasPrefix("HTTP/1.1 503 ") && refused.contains("Retry-After: 5"))
            // A small body is accepted, and so is the first one when it completes; then there is room again.
            let small = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123456789"
            let other = try await RawPeer.connect(port: port, sending: small)
            #expect(try await other.text(containing: "127.0.0.1\n").hasPrefix("HTTP/1.1 200 "))
            try await first.send("a")
            #expect(try await first.text(containing: "127.0.0.1\n").hasPrefix("HTTP/1.1 200 "))
            let third = try await RawPeer.connect(port: port, sending: head + most + "a")
            #expect(try await third.text(containing: "127.0.0.1\n").hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func anIdleConnectionIsClosed() async throws {
        let clock = StandingClock()
        try await withServer(Self.oneLoop, clock: clock) { port in
            let peer = try await RawPeer.connect(port: port, sending: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            _ = try await peer.text(containing: "127.0.0.1\n")
            clock.advance(Self.limits.keepAlive + .milliseconds(1))
            let answer = try await peer.untilClosed()
            #expect(answer.hasPrefix("HTTP/1.1 200 "))
            #expect(!answer.contains("Connection: close"))
        }
    }

    @Test func aPeerThatNeverReadsIsDisconnected() async throws {
        let (clock, connectionHandler) = (StandingClock(), Gate())
        let big = APIResponse(status: .ok, body: Array(repeating: 7, count: 30_000_000))
        try await withServer(
            {
                Self.oneLoop(&$0)
                $0.limits.writeStall = .seconds(5)
            },
            clock: clock,
            respond: { _ in
                connectionHandler.open()
                await connectionHandler.wait()
                return big
            }
        ) { port in
            let peer = try await RawPeer.connect(port: port, reads: false, sending: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await connectionHandler.arrival()
            // By then the response has filled the socket, and another connection times out in the same sweep.
            try await settle(port)
            let idle = try await RawPeer.connect(port: port)
            try await settle(port)
            clock.advance(Self.limits.headTime + .milliseconds(1))
            _ = try await idle.untilClosed()
            try await peer.startReading()
            let bytes = try await peer.received(waitingFor: "the end of what was sent") { _ in false }
            #expect(bytes.count < 30_000_000)
        }
    }

    @Test func aConnectionWithARunningRequestIsNotClosed() async throws {
        let (clock, connectionHandler) = (StandingClock(), Gate())
        try await withServer(
            Self.oneLoop,
            clock: clock,
            respond: { _ in
                await connectionHandler.wait()
                return APIResponse(status: .ok)
            }
        ) { port in
            let slow = try await RawPeer.connect(port: port, sending: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await connectionHandler.arrival()
            // Another idle connection is closed meanwhile, so the server has checked all deadlines.
            let idle = try await RawPeer.connect(port: port)
            try await settle(port)
            clock.advance(.hours(1))
            _ = try await idle.untilClosed()
            connectionHandler.open()
            #expect(try await slow.text(containing: "\r\n\r\n").hasPrefix("HTTP/1.1 200 "))
            await slow.close()
        }
    }

    @Test func theRequestsPerConnectionAreLimited() async throws {
        try await withServer({ $0.limits.requestsPerConnection = 3 }) { port in
            let peer = try await RawPeer.connect(
                port: port,
                sending: String(repeating: "GET / HTTP/1.1\r\nHost: x\r\n\r\n", count: 5)
            )
            let answer = try await peer.untilClosed()
            #expect(answer.split(separator: "HTTP/1.1 200").count == 3)
            #expect(answer.contains("Connection: close"))
        }
    }

    @Test func theConnectionsPerAddressAreLimited() async throws {
        try await withServer({ $0.limits.connectionsPerAddress = 3 }) { port in
            var peers: [RawPeer] = []
            for _ in 0..<3 {
                let peer = try await RawPeer.connect(port: port, sending: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                _ = try await peer.text(containing: "200 OK")
                peers.append(peer)
            }
            let refused = try await RawPeer.connect(port: port)
            let answer = try await refused.untilClosed()
            #expect(answer.hasPrefix("HTTP/1.1 503 "))
            #expect(answer.contains("\r\nRetry-After: "))
        }
    }

    @Test func theConnectionsOfATrustedProxyAreNotLimited() async throws {
        try await withServer({
            $0.limits.connectionsPerAddress = 1
            $0.trustedProxies = [AddressRange("127.0.0.0/8")].compactMap { $0 }
        }) { port in
            for _ in 0..<3 {
                let peer = try await RawPeer.connect(
                    port: port,
                    sending: "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 6.6.6.6, 9.9.9.9, 127.0.0.2\r\n\r\n"
                )
                // The client is the nearest address that is not a trusted proxy; addresses before it may be forged.
                _ = try await peer.text(containing: "GET / - 9.9.9.9")
            }
        }
    }

    /// Header fields that proxies send, and the client's address in them.
    ///
    /// All connections here come from 127.0.0.1.
    ///
    /// nginx, HAProxy and Caddy write a plain address, cloud load balancers append a port, and others use RFC 7239.
    static let forwarded: [(fields: [String], client: String)] = [
        (["X-Forwarded-For: 9.9.9.9"], "9.9.9.9"), (["X-Forwarded-For: 9.9.9.9:51234"], "9.9.9.9"),
        (["X-Forwarded-For: 9.9.9.9:0 , 127.0.0.2:80"], "9.9.9.9"), (["X-Forwarded-For: 2001:DB8::0:7"], "2001:db8::7"),
        (["X-Forwarded-For: [2001:db8::7]"], "2001:db8::7"), (["X-Forwarded-For: [2001:db8::7]:443"], "2001:db8::7"),
        (["X-Forwarded-For: 2001:db8::7:51234"], "2001:db8::7"),
        (["X-Forwarded-For: 2001:db8:0:0:0:0:0:7:443"], "2001:db8::7"), (["X-Forwarded-For: \"9.9.9.9\""], "9.9.9.9"),
        (["X-Forwarded-For: \"[2001:db8::7]:443\""], "2001:db8::7"), (["X-Forwarded-For: fe80::7%eth0"], "fe80::7"),
        (["X-Forwarded-For: [fe80::7%25eth0]:1"], "fe80::7"), (["X-Forwarded-For: ::ffff:9.9.9.9"], "9.9.9.9"),
        (["X-Forwarded-For: [::FFFF:9.9.9.9]:80"], "9.9.9.9"), (["X-Forwarded-For: unknown, 9.9.9.9"], "9.9.9.9"),
        (["X-Forwarded-For: 9.9.9.9, ,"], "9.9.9.9"),
        (["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 9.9.9.9"], "9.9.9.9"),
        (["X-Forwarded-For: 6.6.6.6, 9.9.9.9:1, [::ffff:127.0.0.3]:2, 127.0.0.2"], "9.9.9.9"),
        // If the nearest proxy names no address, the proxy's own address is used.
        (["X-Forwarded-For: unknown"], "127.0.0.1"), (["X-Forwarded-For: 9.9.9.9, unknown"], "127.0.0.1"),
        (["X-Forwarded-For: unknown, 127.0.0.2"], "127.0.0.2"), (["X-Forwarded-For:"], "127.0.0.1"),
        (["X-Forwarded-For: 9.9.9.9/0"], "127.0.0.1"), (["X-Forwarded-For: 9.9.9.9:x"], "127.0.0.1"),
        (["X-Forwarded-For: [9.9.9.9"], "127.0.0.1"), (["X-Forwarded-For: [2001:db8::7]x"], "127.0.0.1"),
        // Text from the client cannot hide an address that a proxy appends.
        (["X-Forwarded-For: \"6.6.6.6, 9.9.9.9"], "9.9.9.9"), (["X-Forwarded-For: 6.6.6.6\u{600}, 9.9.9.9"], "9.9.9.9"),
        (["X-Forwarded-For: \u{600}, 9.9.9.9"], "9.9.9.9"),
        (["Forwarded: for=9.9.9.9"], "9.9.9.9"), (["Forwarded: For=\"9.9.9.9:51234\""], "9.9.9.9"),
        (["Forwarded: for=9.9.9.9:51234;proto=http"], "9.9.9.9"),
        (["Forwarded: proto=https;by=203.0.113.43;FOR=\"[2001:DB8::7]\""], "2001:db8::7"),
        (["Forwarded: for = \"[2001:db8::7]:443\" ; host=\"a,b;for=6.6.6.6\""], "2001:db8::7"),
        (["Forwarded: for=6.6.6.6, for=9.9.9.9;by=_a, for=127.0.0.2"], "9.9.9.9"),
        (["Forwarded: for=6.6.6.6", "Forwarded: for=\"9.9.9.9:_port\""], "9.9.9.9"),
        (["Forwarded: for=unknown"], "127.0.0.1"), (["Forwarded: for=_hidden, for=127.0.0.2"], "127.0.0.2"),
        (["Forwarded: for=9.9.9.9, proto=https"], "127.0.0.1"), (["Forwarded: fors=9.9.9.9"], "127.0.0.1"),
        (["Forwarded: for=\"6.6.6.6, for=9.9.9.9"], "9.9.9.9"),
        (["Forwarded: for=\"6.6.6.6, for=\"[2001:db8::7]\""], "2001:db8::7"),
        // Nearly all proxies write X-Forwarded-For, and pass Forwarded on as the client wrote it.
        (["Forwarded: for=6.6.6.6", "X-Forwarded-For: 9.9.9.9"], "9.9.9.9"),
    ]

    @Test("each form of X-Forwarded-For and Forwarded yields the client's address without a port", arguments: forwarded)
    func forwardedAddresses(fields: [String], client: String) async throws {
        try await withServer({ $0.trustedProxies = [AddressRange("127.0.0.0/8")].compactMap { $0 } }) { port in
            let peer = try await RawPeer.connect(
                port: port,
                sending: "GET / HTTP/1.1\r\nHost: x\r\n\(fields.joined(separator: "\r\n"))\r\nConnection: close\r\n\r\n"
            )
            #expect(try await peer.untilClosed().contains("GET / - \(client)\n"))
        }
    }

    @Test func forwardingHeadersOfUntrustedPeersAreIgnored() async throws {
        try await withServer { port in
            let peer = try await RawPeer.connect(
                port: port,
                sending:
                    "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n\r\n"
            )
            _ = try await peer.text(containing: "GET / - 127.0.0.1")
            await peer.close()
        }
    }

    @Test func healthAndReadinessAreReported() async throws {
        let isReady = Mutex(true)
        let notices = try NoticePort()
        let server = RelayServer(
            configuration: ServerConfiguration(),
            logger: quiet,
            isReady: { isReady.withLock { $0 } },
            respond: inTask(echoRequest)
        )
        notices.relay.router.add(server.entries)
        for (path, ready, status) in [("/healthz", true, 200), ("/readyz", true, 200), ("/readyz", false, 503)] {
            isReady.withLock { $0 = ready }
            let answer = await notices.relay.respond(to: APIRequest(method: .get, path: path))
            #expect(answer.status.code == status)
            #expect(String(decoding: answer.body, as: UTF8.self) == (status == 200 ? "up\n" : "down\n"))
        }
    }

    @Test func aPortInUseIsReportedWithARemedy() async throws {
        try await withServer { port in
            do {
                try await withServer({ $0.port = port }) { _ in }
                Issue.record("two servers on one port")
            } catch let error as ListenError {
                #expect(
                    error.description == "127.0.0.1:\(port) is in use by another program. "
                        + "Try: zonecast serve --listen 127.0.0.1:0 (any free port)"
                )
            }
        }
    }

    @Test func aMissingCloseFrameTimesOut() async throws {
        let clock = StandingClock()
        try await withServer(
            {
                Self.oneLoop(&$0)
                $0.testDoor = true
            },
            clock: clock
        ) { port in
            let socket = try await SocketPeer.connect(port: port)
            try await socket.send((0..<200).flatMap { _ in SocketPeer.frame(0x8A, []) })
            // The peer never answers the close frame.
            #expect(try await socket.frames(1, waitingFor: "the close frame").map(\.closeCode) == [1008])
            try await settle(port)
            clock.advance(Self.limits.closingHandshake)
            #expect(try await socket.framesUntilClosed().count == 1)
        }
    }

    static let handshakes: [(name: String, request: String, status: Int)] = [
        ("no upgrade", "GET /__echo HTTP/1.1\r\nHost: x\r\n\r\n", 426),
        ("old version", SocketPeer.handshake("/__echo").replacing("Version: 13", with: "Version: 8"), 426),
        ("two versions", SocketPeer.handshake("/__echo", extra: "Sec-WebSocket-Version: 13\r\n"), 426),
        ("POST", SocketPeer.handshake("/__echo").replacing("GET", with: "POST"), 405),
        ("1.0", SocketPeer.handshake("/__echo").replacing("HTTP/1.1", with: "HTTP/1.0"), 400),
        (
            "short key",
            SocketPeer.handshake("/__echo").replacing("dGhlIHNhbXBsZSBub25jZQ==", with: "dGhlIHNhbXBsZQ=="), 400
        ),
        ("key that is not base64", SocketPeer.handshake("/__echo").replacing("dGhl", with: "dG*l"), 400),
        ("two keys", SocketPeer.handshake("/__echo", extra: "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), 400),
        ("no Connection", SocketPeer.handshake("/__echo").replacing("keep-alive, Upgrade", with: "keep-alive"), 400),
        ("other protocol", SocketPeer.handshake("/__echo").replacing("Upgrade: websocket", with: "Upgrade: h2c"), 426),
        ("with a body", SocketPeer.handshake("/__echo", extra: "Content-Length: 1\r\n") + "x", 400),
        ("foreign origin", SocketPeer.handshake("/__echo", extra: "Origin: https://evil.example\r\n"), 403),
        ("origin null", SocketPeer.handshake("/__echo", extra: "Origin: null\r\n"), 403),
        (
            "foreign subprotocol",
            SocketPeer.handshake("/push/1/c/development", extra: "Sec-WebSocket-Protocol: chat\r\n"), 400
        ),
    ]

    @Test func invalidHandshakesAreRefused() async throws {
        try await withServer({ $0.testDoor = true }) { port in
            for (name, request, status) in Self.handshakes {
                let peer = try await RawPeer.connect(port: port, sending: request)
                let answer = try await peer.untilClosed()
                #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(name): \(answer.prefix(200))")
                if status == 426 { #expect(answer.contains("\r\nSec-WebSocket-Version: 13\r\n"), "\(name)") }
            }
        }
    }

    @Test func aValidHandshakeIsAnsweredAsInRFC6455() async throws {
        try await withServer({ $0.testDoor = true }) { port in
            let peer = try await RawPeer.connect(
                port: port,
                sending: SocketPeer.handshake("/__echo", extra: "Origin: http://x\r\n")
            )
            let answer = try await peer.text(containing: "\r\n\r\n")
            #expect(answer.hasPrefix("HTTP/1.1 101 "))
            #expect(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"))
            await peer.close()
        }
    }

    /// On a graceful stop the server accepts no connections, finishes started requests, closes sockets with 1001, and
    /// `run` returns.
    @Test func aGracefulStopFinishesStartedRequests() async throws {
        let connectionHandler = Gate()
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        var configuration = ServerConfiguration()
        configuration.port = 0
        // One event loop: when one connection reports the stop, all have been told.
        configuration.loops = 1
        configuration.testDoor = true
        configuration.limits.sweepInterval = .milliseconds(20)
        // The time limits are long, so that nothing is cut off on a busy machine.
        configuration.limits.shutdown = .seconds(300)
        configuration.limits.closingHandshake = .seconds(300)
        let server = RelayServer(
            configuration: configuration,
            logger: quiet,
            onListening: { port.yield($0.port) },
            respond: inTask { _ in
                await connectionHandler.wait()
                return APIResponse(status: .ok)
            }
        )
        let group = ServiceGroup(services: [server], logger: quiet)
        async let running: Void = group.run()
        var iterator = ports.makeAsyncIterator()
        let bound = try #require(await iterator.next())
        let socket = try await SocketPeer.connect(port: bound)
        let busy = try await RawPeer.connect(port: bound, sending: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await connectionHandler.arrival()
        await group.triggerGracefulShutdown()
        let frames = try await socket.frames(1, waitingFor: "the close frame")
        #expect(frames.map(\.closeCode) == [1001])
        let relay = try NoticePort().relay
        relay.router.add(server.entries)
        for (path, status) in [("/healthz", 200), ("/readyz", 503)] {
            #expect(await relay.respond(to: APIRequest(method: .get, path: path)).status.code == status)
        }
        try await socket.send(SocketPeer.frame(0x88, [3, 0xE9]))
        connectionHandler.open()
        let answer = try await busy.untilClosed()
        #expect(answer.hasPrefix("HTTP/1.1 200 "))
        #expect(answer.contains("Connection: close"))
        try await running
    }

    @Test func aGracefulStopHasATimeLimit() async throws {
        let connectionHandler = Gate()
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        var configuration = ServerConfiguration()
        configuration.port = 0
        configuration.loops = 1
        configuration.limits.shutdown = .milliseconds(100)
        let server = RelayServer(
            configuration: configuration,
            logger: quiet,
            onListening: { port.yield($0.port) },
            respond: inTask { _ in
                await connectionHandler.wait()
                return APIResponse(status: .ok)
            }
        )
        let group = ServiceGroup(services: [server], logger: quiet)
        async let running: Void = group.run()
        var iterator = ports.makeAsyncIterator()
        let bound = try #require(await iterator.next())
        let busy = try await RawPeer.connect(port: bound, sending: "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await connectionHandler.arrival()
        await group.triggerGracefulShutdown()
        #expect(try await busy.untilClosed() == "")
        connectionHandler.open()
        try await running
    }
}

@Suite struct AddressRangeTests {
    @Test(arguments: [
        ("10.0.0.0/8", "10.255.1.2", true), ("10.0.0.0/8", "11.0.0.1", false),
        ("192.168.1.128/25", "192.168.1.127", false),
        ("192.168.1.128/25", "192.168.1.200", true), ("::1", "::1", true), ("fd00::/8", "fd12::1", true),
        ("127.0.0.1", "::ffff:127.0.0.1", true), ("0.0.0.0/0", "8.8.8.8", true), ("0.0.0.0/0", "nonsense", false),
    ]) func contains(_ range: String, _ address: String, _ isInside: Bool) throws {
        #expect(try #require(AddressRange(range)).contains(address) == isInside)
    }

    @Test(arguments: ["", "x", "10.0.0.0/33", "10.0.0", "10.0.0.0/", "::/129"]) func isRefused(_ text: String) {
        #expect(AddressRange(text) == nil)
    }

    @Test(arguments: [
        ("10.0.0.5/8", "10.0.0.0/8"), ("192.168.1.129/25", "192.168.1.128/25"), ("fd12::1/8", "fd00::/8"),
        ("10.0.0.0/8", nil), ("10.0.0.5", nil), ("::/0", nil), ("1.2.3.4/0", "0.0.0.0/0"), ("x", nil),
    ]) func aRangeWithHostBitsIsRecognised(_ text: String, _ network: String?) {
        #expect(AddressRange.networkMeant(by: text) == network)
    }

    @Test func theDateHasTheHTTPFormat() {
        #expect(DateText.format(784_111_777) == "Sun, 06 Nov 1994 08:49:37 GMT")
        #expect(DateText.format(951_827_696) == "Tue, 29 Feb 2000 12:34:56 GMT")
        #expect(DateText.format(0) == "Thu, 01 Jan 1970 00:00:00 GMT")
    }
}
