import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayServer
import Synchronization
import Testing

/// Request bodies that are processed while they arrive, and response bodies from files.
@Suite struct BodyStreamTests {
    /// Counts its bytes and asks for a pause now and then.
    private final class Counting: BodyIntake {
        let count = Mutex(0)
        let limit: Int

        init(limit: Int) { self.limit = limit }

        func take(_ piece: [UInt8], whenReady: @escaping @Sendable () -> Void) -> IntakeVerdict {
            let sum = count.withLock { count in
                count += piece.count
                return count
            }
            guard sum <= limit else { return .tooLarge }
            guard sum % 3 == 0 else { return .proceed }
            DispatchQueue.global().async { whenReady() }
            return .wait
        }
    }

    private func withUploads<Value: Sendable>(
        limit: Int,
        _ body: @escaping @Sendable (Int) async throws -> Value
    ) async throws -> Value {
        try await withServer(
            { $0.limits.upload = 3_000_000 },
            intake: { $0.path.hasSuffix("refused") ? nil : Counting(limit: limit) },
            respond: { request in
                let counted = (request.intake as? Counting)?.count.withLock { $0 }
                return APIResponse(status: .ok, body: Array("\(counted ?? -1) \(request.body.count)".utf8))
            },
            body
        )
    }

    @Test func aLargeBodyIsStreamedToItsIntake() async throws {
        try await withUploads(limit: 3_000_000) { port in
            let peer = try await RawPeer.connect(port: port)
            let body = String(repeating: "x", count: 2_500_001)
            let head = "POST /asset/1/upload/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2500001\r\n\r\n"
            try await peer.send(head + body + "GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
            // The pipelined request behind it is answered afterwards.
            let answer = try await peer.text(containing: "-1 0")
            #expect(answer.contains("2500001 0"))
            await peer.close()
        }
    }

    @Test func aChunkedBodyIsLimitedWhileItArrives() async throws {
        try await withUploads(limit: 100_000) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("POST /asset/1/upload/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            let chunk = "8000\r\n" + String(repeating: "x", count: 0x8000) + "\r\n"
            for _ in 0..<4 { try await peer.send(chunk) }
            #expect(try await peer.untilClosed().hasPrefix("HTTP/1.1 413"))
        }
    }

    @Test func withoutAnIntakeTheUsualLimitApplies() async throws {
        try await withUploads(limit: 100) { port in
            for (path, length) in [("/asset/1/upload/refused", 5_000_000), ("/database/1/asset/1/upload/a", 5_000_000)]
            {
                let peer = try await RawPeer.connect(port: port)
                try await peer.send("POST \(path) HTTP/1.1\r\nHost: x\r\nContent-Length: \(length)\r\n\r\n")
                let answer = try await peer.untilClosed()
                #expect(answer.hasPrefix("HTTP/1.1 413"), "\(path)")
                // The error must not mention space: a client that sends records then halves its batch.
                let codes = #""serverErrorCode":"BAD_REQUEST","ckErrorCode":"LIMIT_EXCEEDED""#
                #expect(answer.contains(codes), "\(answer)")
            }
        }
    }

    @Test func aFileIsSentWholeOrInPartAndPipeliningContinues() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let content = (0..<700_000).map { UInt8(ascii: "a") + UInt8($0 % 26) }
        try Data(content).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let path = file.path
        try await withServer(respond: { request in
            guard request.path == "/file" else { return APIResponse(status: .ok, body: Array("after".utf8)) }
            var response = APIResponse(status: .ok)
            let isPart = request.query != nil
            response.file = FileBody(path: path, offset: isPart ? 26 : 0, length: isPart ? 3 : 700_000)
            return response
        }) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(
                "GET /file HTTP/1.1\r\nHost: x\r\n\r\nHEAD /file HTTP/1.1\r\nHost: x\r\n\r\n"
                    + "GET /file?part HTTP/1.1\r\nHost: x\r\n\r\nGET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            let text = try await peer.untilClosed()
            let parts = text.components(separatedBy: "HTTP/1.1 200 OK\r\n")
            #expect(parts.count == 5)
            #expect(parts[1].hasSuffix("\r\n\r\n" + String(decoding: content, as: UTF8.self)))
            #expect(parts[2].contains("Content-Length: 700000") && parts[2].hasSuffix("\r\n\r\n"))
            #expect(parts[3].contains("Content-Length: 3\r\n") && parts[3].hasSuffix("\r\n\r\nabc"))
            #expect(parts[4].hasSuffix("after"))
        }
    }

    /// Returns the given parts, which may have another length than declared.
    private final class Pieces: BodyParts {
        let length: Int64
        private let rest: Mutex<[BodyPart]>

        init(_ parts: [BodyPart], length: Int64) {
            self.length = length
            rest = Mutex(parts.reversed())
        }

        func next() throws -> BodyPart? { rest.withLock { $0.popLast() } }
    }

    @Test func manyPartsFormOneBodyAndPipeliningContinues() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let content = (0..<1_300_000).map { UInt8(ascii: "a") + UInt8($0 % 26) }
        try Data(content).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let path = file.path
        try await withServer(respond: { request in
            guard request.path == "/parts" else { return APIResponse(status: .ok, body: Array("after".utf8)) }
            var response = APIResponse(status: .ok)
            let small = (0..<5_000).map { _ in BodyPart.bytes([UInt8(ascii: ".")]) }
            let large = BodyPart.file(FileBody(path: path, offset: 0, length: 1_300_000))
            response.parts = Pieces(small + [large, .bytes([33]), large] + small, length: 2_610_001)
            return response
        }) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(
                "GET /parts HTTP/1.1\r\nHost: x\r\n\r\nHEAD /parts HTTP/1.1\r\nHost: x\r\n\r\n"
                    + "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            let text = try await peer.untilClosed()
            let parts = text.components(separatedBy: "HTTP/1.1 200 OK\r\n")
            #expect(parts.count == 4)
            let letters = String(decoding: content, as: UTF8.self)
            let dots = String(repeating: ".", count: 5_000)
            #expect(parts[1].contains("Content-Length: 2610001\r\n"))
            #expect(parts[1].hasSuffix("\r\n\r\n" + dots + letters + "!" + letters + dots))
            #expect(parts[2].contains("Content-Length: 2610001\r\n") && parts[2].hasSuffix("\r\n\r\n"))
            #expect(parts[3].hasSuffix("after"))
        }
    }

    /// A body whose parts arrive one after the other, each when the server waits for it.
    private final class LateParts: BodyParts {
        let length: Int64
        private let state: Mutex<(next: Int, isThere: Bool)>
        private let pieces: Int

        init(pieces: Int) {
            self.pieces = pieces
            length = Int64(pieces) * 1_000
            state = Mutex((0, false))
        }

        func next() throws -> BodyPart? {
            state.withLock { state in
                guard state.next < pieces else { return nil }
                guard state.isThere else { return .later }
                // Every other part is there at once.
                state.isThere = state.next.isMultiple(of: 2)
                state.next += 1
                return .bytes(Array(repeating: UInt8(ascii: "a") + UInt8(state.next % 26), count: 1_000))
            }
        }

        func whenReady(_ body: @escaping @Sendable () -> Void) {
            DispatchQueue.global().async { [self] in
                state.withLock { $0.isThere = true }
                body()
            }
        }
    }

    @Test func aBodyThatArrivesWhileItIsSentIsSentWhole() async throws {
        try await withServer(respond: { request in
            guard request.path == "/parts" else { return APIResponse(status: .ok, body: Array("after".utf8)) }
            var response = APIResponse(status: .ok)
            response.parts = LateParts(pieces: 101)
            return response
        }) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send(
                "GET /parts HTTP/1.1\r\nHost: x\r\n\r\nGET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )
            let parts = try await peer.untilClosed().components(separatedBy: "HTTP/1.1 200 OK\r\n")
            #expect(parts.count == 3)
            let letters = (1...101).map { Character(UnicodeScalar(UInt8(ascii: "a") + UInt8($0 % 26))) }
            #expect(parts[1].contains("Content-Length: 101000\r\n"))
            #expect(parts[1].hasSuffix("\r\n\r\n" + letters.map { String(repeating: $0, count: 1_000) }.joined()))
            #expect(parts[2].hasSuffix("after"))
        }
    }

    /// The client cannot take the body for complete.
    @Test func aBodyThatStopsToArriveClosesTheConnection() async throws {
        final class Failing: BodyParts {
            let length: Int64 = 10
            private let state = Mutex(0)

            func next() throws -> BodyPart? {
                try state.withLock { state in
                    state += 1
                    switch state {
                    case 1: return .bytes(Array("hello".utf8))
                    case 2: return .later
                    default: throw RelayError(.tryAgainLater, "The database is away.")
                    }
                }
            }
        }
        try await withServer(respond: { _ in
            var response = APIResponse(status: .ok)
            response.parts = Failing()
            return response
        }) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("GET /parts HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n")
            #expect(try await peer.untilClosed().hasSuffix("\r\n\r\nhello"))
        }
    }

    /// If the body has another length than declared, the connection is closed without further bytes.
    @Test(arguments: [0, 1, 2]) func aBodyOfAnotherLengthThanDeclaredClosesTheConnection(kind: Int) async throws {
        try await withServer(respond: { request in
            var response = APIResponse(status: .ok)
            let missing = BodyPart.file(FileBody(path: "/nowhere/at/all", offset: 0, length: 5))
            let pieces: [[BodyPart]] = [
                [.bytes([65])], [.bytes([65]), missing], [.bytes([65]), .bytes([66, 66, 66, 66, 66, 66])],
            ]
            response.parts = Pieces(pieces[kind], length: 6)
            return response
        }) { port in
            let peer = try await RawPeer.connect(port: port)
            try await peer.send("GET /parts HTTP/1.1\r\nHost: x\r\n\r\nGET /next HTTP/1.1\r\nHost: x\r\n\r\n")
            let text = try await peer.untilClosed()
            #expect(text.hasSuffix("\r\n\r\nA"), "\(text.suffix(80))")
        }
    }
}
