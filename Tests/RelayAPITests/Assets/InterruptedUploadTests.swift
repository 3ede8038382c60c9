import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import TestSupport
import Testing
import Wire

/// Uploads that are interrupted and resumed.
@Suite struct InterruptedUploadTests {
    let world: RelayWorld
    let content = (0..<100_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }

    private let clock = HandClock()
    private let place = TestStore.current.makeHome(.lasting)

    init() throws { world = try RelayWorld(time: clock.source, in: place) }

    /// The files of incomplete uploads.
    private var incoming: [String] {
        let incoming = "\(place.folder)/containers/\(world.container)/development.assets/incoming"
        return ((try? FileManager.default.contentsOfDirectory(atPath: incoming)) ?? []).map { "\(incoming)/\($0)" }
    }

    private func address(of user: String = "alice") async throws -> String {
        let answer = try await world.ask(
            "private/assets/upload",
            as: user,
            #"{"tokens":[{"recordType":"Photo","fieldName":"file","recordName":"p"}]}"#
        )
        let url = try #require(try answer.items("tokens").first?.text("url"))
        return try #require(URLComponents(string: url)).path
    }

    private func request(_ path: String, from offset: Int? = nil, _ body: ArraySlice<UInt8> = []) throws -> APIRequest {
        var request = APIRequest(method: .post, path: path, body: Array(body))
        request.headers[try #require(HTTPField.Name("Upload-Offset"))] = offset.map { "\($0)" }
        return request
    }

    /// Sends some bytes and then closes the connection.
    private func breakOff(_ path: String, from offset: Int? = nil, _ bytes: ArraySlice<UInt8>) throws {
        let intake = try #require(world.relay.intake(for: try request(path, from: offset)))
        for start in stride(from: bytes.startIndex, to: bytes.endIndex, by: 7000) {
            _ = intake.take(Array(bytes[start..<min(start + 7000, bytes.endIndex)])) {}
        }
    }

    /// Waits until the relay reports this many received bytes; chunks are written outside the connection's task.
    private func progress(_ path: String, reaching count: Int) async throws -> Int? {
        let name = try #require(HTTPField.Name("Upload-Offset"))
        var last: Int?
        try await eventually("\(count) bytes to be there") {
            let response = await world.relay.respond(to: APIRequest(method: .get, path: path))
            #expect(response.status == .noContent)
            last = response.headers[name].flatMap { Int($0) }
            return last == count
        }
        return last
    }

    private func finish(_ path: String, from offset: Int?, _ bytes: ArraySlice<UInt8>) async throws -> APIResponse {
        await world.relay.respond(to: try request(path, from: offset, bytes))
    }

    private func checksum(_ response: APIResponse) throws -> String? {
        try JSONDocument(parsing: response.body).root.required("singleFile").text("fileChecksum")
    }

    @Test func aResumedUploadSendsOnlyTheRest() async throws {
        let whole = try checksum(try await finish(try await address(), from: nil, content[...]))
        let path = try await address()
        #expect(try await progress(path, reaching: 0) == 0)
        try breakOff(path, content[..<30_000])
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        try breakOff(path, from: 30_000, content[30_000..<65_000])
        #expect(try await progress(path, reaching: 65_000) == 65_000)
        let response = try await finish(path, from: 65_000, content[65_000...])
        #expect(response.status == .ok)
        #expect(try checksum(response) == whole)
        #expect(try await progress(path, reaching: 0) == 0, "a complete upload has no progress")
    }

    @Test func anUploadWithoutAnOffsetStartsOver() async throws {
        let path = try await address()
        try breakOff(path, content[..<30_000])
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        let response = try await finish(path, from: nil, content[...])
        let whole = try checksum(try await finish(try await address(), from: nil, content[...]))
        #expect(try checksum(response) == whole)
    }

    @Test func aWrongOffsetIsRefusedAndKeepsTheReceivedBytes() async throws {
        let path = try await address()
        try breakOff(path, content[..<30_000])
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        for wrong in [1, 29_999, 30_001, -1] {
            let response = try await finish(path, from: wrong, content[30_000...])
            #expect(response.status == .conflict)
        }
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        #expect(try await finish(path, from: 30_000, content[30_000...]).status == .ok)
    }

    @Test func eachUploadAddressHasItsOwnProgress() async throws {
        let (one, other) = (try await address(), try await address())
        try breakOff(one, content[..<30_000])
        #expect(try await progress(one, reaching: 30_000) == 30_000)
        #expect(try await progress(other, reaching: 0) == 0)
        #expect(await world.relay.respond(to: APIRequest(method: .get, path: one + "A")).status == .notFound)
    }

    @Test(.enabled(if: TestStore.current.keepsFiles))
    func anAbandonedUploadIsRemovedAfterFifteenMinutes() async throws {
        let path = try await address()
        try breakOff(path, content[..<30_000])
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        clock.advance(.seconds(899))
        world.relay.removeExpiredUploads()
        #expect(incoming.count == 1)
        clock.advance(.seconds(2))
        world.relay.removeExpiredUploads()
        #expect(incoming.isEmpty)
    }

    @Test func aPausedUploadHoldsNoFileDescriptor() async throws {
        let path = try await address()
        try breakOff(path, content[..<30_000])
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        let held = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        let open = held.compactMap { name in
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
        }
        #expect(!open.contains { incoming.contains($0) })
        #expect(try await finish(path, from: 30_000, content[30_000...]).status == .ok)
    }

    @Test func aUsersPausedUploadsDoNotEvictThoseOfOthers() async throws {
        let other = try await address(of: "bob")
        try breakOff(other, content[..<1_000])
        #expect(try await progress(other, reaching: 1_000) == 1_000)
        var own: [String] = []
        for _ in 0..<70 {
            let path = try await address()
            try breakOff(path, content[..<1_000])
            #expect(try await progress(path, reaching: 1_000) == 1_000)
            own.append(path)
            clock.advance(.seconds(1))
        }
        #expect(try await progress(other, reaching: 1_000) == 1_000)
        #expect(try await progress(own[61], reaching: 0) == 0)
        #expect(try await progress(own[62], reaching: 1_000) == 1_000)
        #expect(incoming.count == 9 || !TestStore.current.keepsFiles)
    }

    @Test(.enabled(if: TestStore.current.keepsFiles))
    func startingTheRelayRemovesIncompleteUploads() async throws {
        let path = try await address()
        try breakOff(path, content[..<30_000])
        #expect(try await progress(path, reaching: 30_000) == 30_000)
        #expect(incoming.count == 1)
        place.stores().removeBrokenUploads()
        #expect(incoming.isEmpty)
    }

    @Test func anUploadRefusedForItsSizeKeepsNoProgress() async throws {
        var settings = AssetSettings()
        settings.largest = 10_000
        let relay = world.relay(assets: settings)
        let path = try await address()
        let answer = await relay.respond(to: try request(path, from: nil, content[...]))
        #expect(answer.status.code == 413)
        let progress = await relay.respond(to: APIRequest(method: .get, path: path))
        #expect(progress.headers[try #require(HTTPField.Name("Upload-Offset"))] == "0")
    }
}
