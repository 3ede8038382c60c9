import Crypto
import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayServer
import Testing
import Wire

/// Query notices on real sockets, for a user and for a server-to-server key.
///
/// See Notices.md, "Connecting" and "Which notice".
@Suite(.timeLimit(.minutes(15))) struct QuerySocketTests {
    private let key = P256.Signing.PrivateKey()

    private func serve(_ relay: NoticePort, _ body: @escaping @Sendable (Int) async throws -> Void) async throws {
        let service = NoticeService(hub: relay.hub, admission: relay.admission)
        try await withServer(notices: service, respond: { await relay.relay.respond(to: $0) }, body)
    }

    /// Opens a socket and waits for its `ready`.
    private func listen(_ hello: NoticeHello, extra: String = "", port: Int) async throws -> SocketPeer {
        let socket = try await SocketPeer.connect(
            port: port,
            path: "/push/1/\(NoticePort.container)/development",
            extra: extra,
            early: SocketPeer.frame(0x81, ClientFrame.hello(hello).encoded)
        )
        let frames = try await socket.frames(1, waitingFor: "ready of \(hello.deviceID)")
        guard let first = frames.first, case .ready = try ServerFrame(decoding: first.payload) else {
            throw RawPeer.TimedOut(description: "no ready but \(frames.first?.text ?? "the end")")
        }
        return socket
    }

    /// Returns all notices once there are `count` of them.
    private func notices(_ count: Int, on socket: SocketPeer) async throws -> [Notice] {
        try await socket.frames(count + 1, waitingFor: "\(count) notices").compactMap { frame in
            guard case .notice(let notice) = try ServerFrame(decoding: frame.payload) else { return nil }
            return notice
        }
    }

    private static let watch = """
        {"operations":[{"operationType":"create","subscription":{"subscriptionID":"open","subscriptionType":"query",
        "query":{"recordType":"Note","filterBy":[{"comparator":"EQUALS","fieldName":"done",
        "fieldValue":{"value":0,"type":"INT64"}}]},"firesOn":["create","delete"],
        "notificationInfo":{"alertBody":"something new","additionalFields":["title"]}}}]}
        """

    private static func save(_ name: String, done: Int) -> String {
        """
        {"operations":[{"operationType":"forceUpdate","record":{"recordName":"\(name)","recordType":"Note",
        "fields":{"done":{"value":\(done)},"title":{"value":"milk"}}}}]}
        """
    }

    private static func delete(_ name: String) -> String {
        #"{"operations":[{"operationType":"forceDelete","record":{"recordName":"\#(name)"}}]}"#
    }

    @Test func aUserIsNotifiedOfMatchingChanges() async throws {
        let relay = try NoticePort()
        _ = try await relay.ask("subscriptions/modify", of: 1, Self.watch)
        try await serve(relay) { port in
            func hello(_ device: String) -> NoticeHello {
                NoticeHello(deviceID: device, apiToken: "x", webAuthToken: "dev-user1", since: [:])
            }
            let phone = try await listen(hello("phone"), port: port)
            let writer = try await listen(hello("device-0"), port: port)
            _ = try await relay.ask("records/modify", of: 1, Self.save("a", done: 1))
            _ = try await relay.ask("records/modify", of: 1, Self.save("b", done: 0))
            _ = try await relay.ask("records/modify", of: 2, Self.save("theirs", done: 0))
            _ = try await relay.ask("records/modify", of: 1, Self.delete("b"))
            let heard = try await notices(2, on: phone)
            #expect(heard.map(\.query?.recordName) == ["b", "b"])
            #expect(heard.map(\.query?.reason) == [.create, .delete])
            #expect(heard.allSatisfy { $0.kind == .query && $0.scope == .private && $0.subscriptionID == "open" })
            let aps = try #require(heard.first?.aps)
            #expect(String(decoding: aps, as: UTF8.self).contains("something new"))
            #expect(heard.first?.query?.fields == Array(#"{"title":"milk"}"#.utf8))
            // The writer gets no notices of its own changes; the first one it receives is of another device's change.
            _ = try await relay.ask("records/modify", of: 1, device: "tablet", Self.save("c", done: 0))
            #expect(try await notices(1, on: writer).map(\.query?.recordName) == ["c"])
            await phone.close()
            await writer.close()
        }
    }

    /// Returns the headers of a request, with the key's signature over its date, body and path.
    private func signed(_ path: String, _ body: String, by id: String) throws -> [(name: String, value: String)] {
        let date = Date().formatted(.iso8601)
        let hash = Base64.encode(Array(SHA256.hash(data: Array(body.utf8))))
        let signature = try key.signature(for: Data("\(date):\(hash):\(path)".utf8)).derRepresentation
        return [
            ("X-Apple-CloudKit-Request-KeyID", id), ("X-Apple-CloudKit-Request-ISO8601Date", date),
            ("X-Apple-CloudKit-Request-SignatureV1", Base64.encode(Array(signature))),
        ]
    }

    @Test func aServerKeyIsNotifiedOfPublicChanges() async throws {
        let relay = try NoticePort()
        let home = ContainerEnvironment(try #require(ContainerID(NoticePort.container)), .development)
        try relay.directory.addContainer(home.container)
        let id = try relay.directory.addServerKey(in: home, name: "", publicKeyPEM: key.publicKey.pemRepresentation).id
        let path = "/database/1/\(NoticePort.container)/development/public/subscriptions/modify"
        var request = APIRequest(method: .post, path: path, body: Array(Self.watch.utf8))
        for (name, value) in try signed(path, Self.watch, by: id) { request.headers[.known(name)] = value }
        let answer = await relay.relay.respond(to: request)
        #expect(answer.status == .ok && !String(decoding: answer.body, as: UTF8.self).contains("serverErrorCode"))
        let fields = try signed("/push/1/\(NoticePort.container)/development", "", by: id)
            .map { "\($0.name): \($0.value)\r\n" }.joined()
        try await serve(relay) { port in
            let server = try await listen(NoticeHello(deviceID: "server", since: [:]), extra: fields, port: port)
            _ = try await relay.ask("records/modify", of: 1, in: "private", Self.save("own", done: 0))
            _ = try await relay.ask("records/modify", of: 1, in: "public", Self.save("everybodys", done: 0))
            let heard = try await notices(1, on: server)
            #expect(heard.map(\.query?.recordName) == ["everybodys"])
            #expect(heard.map(\.scope) == [.public])
            // Revoking the key closes its socket, even if no request has noticed the revocation yet.
            try relay.directory.revokeServerKey(id)
            relay.admission.closeRevoked()
            let frames = try await server.frames(waitingFor: "a close frame") { $0.contains { $0.opcode == 8 } }
            #expect(frames.last?.closeCode == 4401)
        }
    }
}
