import HTTPTypes
import RelayAPI
import RelayServer
import Testing

/// How the server recognises a WebSocket handshake, and which header fields it accepts.
@Suite struct WebSocketHandshakeTests {
    @Test(arguments: [
        ("/push/1/c/development", true), ("/a/b/push/1/c/development", true), ("/push/1//", true),
        ("/push/1/push/1/c/development", true), ("/push/1/c", false), ("/push/1/c/development/", false),
        ("/push/2/c/development", false), ("/xpush/1/c/development", false), ("push/1/c/development", false),
        ("/database/1/c/development/private/records/modify", false), ("/", false), ("*", false), ("", false),
    ])
    func theLastFourSegmentsOfAPathIdentifyTheNoticeEndpoint(_ path: String, _ isNotices: Bool) {
        #expect(SocketPurpose.of(path: path, testDoor: true) == (isNotices ? .notices : nil))
    }

    @Test func theEchoEndpointExistsOnlyInTestConfigurations() {
        #expect(SocketPurpose.of(path: "/__echo", testDoor: true) == .echo)
        #expect(SocketPurpose.of(path: "/__echo", testDoor: false) == nil)
    }

    @Test(arguments: [
        ("/c/asset/1/upload/t", true), ("/asset/1/upload/", true), ("/a//asset/1/upload/t", true),
        ("/asset/1/upload", false), ("/xasset/1/upload/t", false), ("/database/asset/1/upload/t", false), ("/", false),
    ])
    func uploadsAreRecognisedByTheirPath(_ path: String, _ isUpload: Bool) {
        #expect(RequestRules(limits: ServerLimits(), trustedProxies: []).isUpload(path) == isUpload)
    }

    static let good = [
        SocketPeer.handshake("/__echo").replacing("websocket", with: "h2c ,\tWebSocket "),
        SocketPeer.handshake("/__echo").replacing("keep-alive, Upgrade", with: "upGRADE,"),
        SocketPeer.handshake("/__echo", extra: "Upgrade: h2c\r\nConnection: close\r\n"),
    ]

    static let bad = [
        SocketPeer.handshake("/__echo").replacing("websocket", with: "web socket"),
        SocketPeer.handshake("/__echo").replacing("websocket", with: "websocket2"),
        SocketPeer.handshake("/__echo").replacing("keep-alive, Upgrade", with: "Upgrade2, keep-alive Upgrade"),
        SocketPeer.handshake("/__echo").replacing("keep-alive, Upgrade", with: ","),
    ]

    @Test func headerListsAreParsedWithAnyCaseAndBlanks() async throws {
        try await withServer({ $0.testDoor = true }) { port in
            for request in Self.good {
                let peer = try await RawPeer.connect(port: port, sending: request)
                #expect(try await peer.text(containing: "\r\n\r\n").hasPrefix("HTTP/1.1 101 "), "\(request)")
                await peer.close()
            }
            for request in Self.bad {
                let peer = try await RawPeer.connect(port: port, sending: request)
                #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 4"), "\(request)")
            }
        }
    }

    @Test func eachRefusedOriginGetsItsOwnRequestID() {
        #expect(WebSocketHandshake.originRefused.answer.body != WebSocketHandshake.originRefused.answer.body)
        #expect(WebSocketHandshake.originRefused.answer.status == .forbidden)
    }

    @Test func theSubprotocolIsConfirmedOnlyIfTheClientOffersIt() async throws {
        try await withServer { port in
            for (offer, isTold) in [("", false), ("Sec-WebSocket-Protocol: chat , zonecast.notices.1\r\n", true)] {
                let request = SocketPeer.handshake("/push/1/c/development", extra: offer)
                let peer = try await RawPeer.connect(port: port, sending: request)
                let answer = try await peer.text(containing: "\r\n\r\n")
                #expect(answer.hasPrefix("HTTP/1.1 101 "))
                #expect(answer.contains("\r\nSec-WebSocket-Protocol: zonecast.notices.1\r\n") == isTold)
                await peer.close()
            }
        }
    }
}
