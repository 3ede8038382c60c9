import AsyncHTTPClient
import ChildProcesses
import Crypto
import Foundation
import NIOCore
import NIOSSL
import Records
import RelayCore
import RelayGateways
import Testing

/// Pushes against peers that share no code with ours: Python's `h2` for HTTP/2, `cryptography` for keys, and `http_ece`
/// for the encryption if it is installed.
@Suite(
    .timeLimit(.minutes(15)),
    .enabled(if: PythonPeer.python != nil, "python3-h2 or python3-cryptography is not installed")
)
struct IndependentPeerTests {
    private static let token = String(repeating: "0a", count: 32)
    private static let silent = Push(payload: Array(#"{"aps":{"content-available":1}}"#.utf8), topic: "abc")

    @Test func independentPeersAcceptPushesForAppleAndABrowser() async throws {
        let browser = P256.KeyAgreement.PrivateKey()
        let secret = Array(RandomSource.random(16))
        let peer = try PythonPeer(key: browser, secret: secret)
        defer { peer.end() }
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(PushServicePeer.certificate.utf8)))
        var configuration = HTTPClient.Configuration.outgoing(connect: .seconds(120), read: .seconds(120))
        configuration.tlsConfiguration = tls
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        var settings = PushSettings()
        let (appleKey, webKey) = (P256.Signing.PrivateKey(), P256.Signing.PrivateKey())
        var apns = PushSettings.APNs(
            key: appleKey,
            keyID: "ABC123DEFG",
            teamID: "DEF123GHIJ",
            topics: ["org.example.notes"]
        )
        apns.production = peer.address
        settings.apns = apns
        settings.webPush = .init(key: webKey, contact: "mailto:ada@example.org")
        settings.hosts = ["localhost"]
        let time = TimeSource(
            now: { Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1000)) },
            uptime: { .zero }
        )
        let random = RandomSource(bytes: RandomSource.random)
        let services = PushServices(settings, client: client, time: time, random: random)

        let device = PushTarget.apns(token: Self.token, topic: "org.example.notes", isSandbox: false)
        #expect(await services.send(Self.silent, to: device) == .taken)
        let apple = try peer.next()
        #expect(apple.path == "/3/device/\(Self.token)" && apple.method == "POST")
        #expect(apple.headers["apns-push-type"] == "background" && apple.headers["apns-priority"] == "5")
        #expect(apple.body == Self.silent.payload)
        #expect(try Self.isSigned(apple.headers["authorization"]?.dropFirst("bearer ".count), by: appleKey))

        let point = Array(browser.publicKey.x963Representation)
        let target = PushTarget.webPush(endpoint: peer.address + "/sub/1", key: point, secret: secret)
        for size in [1, 30, 3_993] {
            let push = Push(payload: [UInt8](repeating: UInt8(ascii: "x"), count: size), topic: "abc")
            #expect(await services.send(push, to: target) == .taken)
            let web = try peer.next()
            #expect(web.headers["content-encoding"] == "aes128gcm" && web.body.count <= 4_096)
            #expect(web.plain.map { !$0.isEmpty } == true && web.plain?.allSatisfy { $0 == push.payload } == true)
            // RFC 8292: the token is signed by the key in the same header, for this push service.
            let words =
                web.headers["authorization"]?.split(whereSeparator: { " ,".contains($0) }).map(String.init) ?? []
            let signed = words.first { $0.hasPrefix("t=") }?.dropFirst(2)
            #expect(try Self.isSigned(signed, by: webKey))
            #expect(web.audience == peer.address)
        }
        try await client.shutdown()
    }

    private static func isSigned(_ token: Substring?, by key: P256.Signing.PrivateKey) throws -> Bool {
        let parts = try #require(token).split(separator: ".").map(String.init)
        let raw = try #require(parts.last.flatMap { Base64URL.decode($0.utf8) })
        let signature = try P256.Signing.ECDSASignature(rawRepresentation: raw)
        return key.publicKey.isValidSignature(signature, for: Data(parts.dropLast().joined(separator: ".").utf8))
    }
}

extension RandomSource {
    fileprivate static let random: @Sendable (Int) -> [UInt8] = { count in
        (0..<count).map { _ in UInt8.random(in: .min ... .max) }
    }
}

/// A push service written in Python that prints the requests it receives and what a browser decrypts from them.
private final class PythonPeer {
    struct Request: Decodable {
        var method: String
        var path: String
        var headers: [String: String]
        var body: [UInt8]
        /// The payload, decrypted in every available way.
        var plain: [[UInt8]]?
        /// Of the VAPID token.
        var audience: String?
    }

    struct Failure: Error, CustomStringConvertible { var description: String }

    /// The command of a Python that has the required packages; `nil` if there is none.
    ///
    /// Debian's packages belong to Debian's Python, which need not be the first on the path.
    static let python = [["/usr/bin/python3"], ["/usr/bin/env", "python3"]].first { python in
        let trial = ChildProcess(python, ["-c", "import h2.connection, cryptography"])
        trial.standardError = FileHandle.nullDevice
        guard (try? trial.run()) != nil else { return false }
        trial.waitUntilExit()
        return trial.terminationStatus == 0
    }

    let address: String
    private let process: ChildProcess
    private let output = Pipe()
    private let folder = NSTemporaryDirectory() + "zonecast-peer-\(UUID().uuidString)"

    init(key: P256.KeyAgreement.PrivateKey, secret: [UInt8]) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let files = [
            "peer.py": Self.program, "cert.pem": PushServicePeer.certificate, "key.pem": PushServicePeer.key,
            "browser.pem": key.pemRepresentation,
        ]
        for (name, text) in files { try Data(text.utf8).write(to: URL(fileURLWithPath: "\(folder)/\(name)")) }
        process = ChildProcess(Self.python ?? [], ["peer.py", Base64URL.encode(secret)])
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        process.standardOutput = output
        try process.run()
        let port = try Self.line(output)
        address = "https://localhost:\(port)"
    }

    func next() throws -> Request { try JSONDecoder().decode(Request.self, from: Data(try Self.line(output).utf8)) }

    func end() {
        process.terminate()
        try? FileManager.default.removeItem(atPath: folder)
    }

    private static func line(_ pipe: Pipe) throws -> String {
        var bytes: [UInt8] = []
        let descriptor = pipe.fileHandleForReading.fileDescriptor
        while bytes.last != UInt8(ascii: "\n") {
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&waiting, 1, 120_000) > 0 else { throw Failure(description: "waited 120 s for the Python peer") }
            var byte: UInt8 = 0
            guard read(descriptor, &byte, 1) == 1 else { throw Failure(description: "the Python peer ended") }
            bytes.append(byte)
        }
        return String(decoding: bytes.dropLast(), as: UTF8.self)
    }

    private static let program = #"""
        import base64, json, socket, ssl, struct, sys
        import h2.config, h2.connection, h2.events
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        def unpadded(text):
            return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

        secret = unpadded(sys.argv[1])
        browser = serialization.load_pem_private_key(open("browser.pem", "rb").read(), None)

        def derive(salt, info, length, material):
            return HKDF(hashes.SHA256(), length, salt, info).derive(material)

        def by_the_standards(body):
            salt, size, length = body[:16], struct.unpack(">I", body[16:20])[0], body[20]
            sender = body[21:21 + length]
            assert len(body) - 21 - length <= size
            point = browser.public_key().public_bytes(
                serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
            shared = browser.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
            material = derive(secret, b"WebPush: info\0" + point + sender, 32, shared)
            key = derive(salt, b"Content-Encoding: aes128gcm\0", 16, material)
            nonce = derive(salt, b"Content-Encoding: nonce\0", 12, material)
            text = AESGCM(key).decrypt(nonce, body[21 + length:], None).rstrip(b"\0")
            assert text.endswith(b"\2")
            return list(text[:-1])

        def plain(body):
            ways = [by_the_standards(body)]
            try:
                import http_ece
                ways.append(list(http_ece.decrypt(body, private_key=browser, auth_secret=secret, version="aes128gcm")))
            except ImportError:
                pass
            return ways

        def audience(headers):
            token = headers.get("authorization", "").split("t=")[1].split(",")[0]
            return json.loads(unpadded(token.split(".")[1]))["aud"]

        def tell(request):
            headers, body = request["headers"], bytes(request["body"])
            said = {"method": headers[":method"], "path": headers[":path"], "headers": headers, "body": list(body)}
            if headers[":path"].startswith("/sub/"):
                said["plain"], said["audience"] = plain(body), audience(headers)
            print(json.dumps(said), flush=True)

        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain("cert.pem", "key.pem")
        tls.set_alpn_protocols(["h2"])
        door = socket.create_server(("127.0.0.1", 0))
        print(door.getsockname()[1], flush=True)
        while True:
            peer = tls.wrap_socket(door.accept()[0], server_side=True)
            link = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
            link.initiate_connection()
            peer.sendall(link.data_to_send())
            requests = {}
            while data := peer.recv(65536):
                for event in link.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        requests[event.stream_id] = {"headers": dict(event.headers), "body": bytearray()}
                    elif isinstance(event, h2.events.DataReceived):
                        requests[event.stream_id]["body"] += event.data
                        link.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        tell(requests.pop(event.stream_id))
                        link.send_headers(event.stream_id, [(":status", "201")], end_stream=True)
                peer.sendall(link.data_to_send())
        """#
}

extension ChildProcess {
    /// `command` is a program and its first arguments.
    fileprivate convenience init(_ command: [String], _ arguments: [String]) {
        self.init()
        executableURL = URL(fileURLWithPath: command.first ?? "")
        self.arguments = command.dropFirst() + arguments
    }
}
