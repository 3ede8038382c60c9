import Foundation
import HTTPTypes
import Records
import RelayAPI
import RelayCore
import StoreTesting
import Testing
import Wire

/// Uploads to one relay that are saved at another one; on a store that several relays serve at once.
@Suite struct SharedUploadTests {
    private let relays: [RelayWorld]
    private let isShared: Bool

    init() throws {
        let place = TestStore.current.makeHome(.lasting)
        isShared = try place.accounts().attempts != nil
        var limits = Limits()
        limits.quota = .unlimited
        limits.quota.privateBytes = 10_000
        let directory = try place.accounts()
        relays = try (0..<(isShared ? 2 : 1)).map { _ in
            try RelayWorld(directory: directory, limits: limits, in: place)
        }
    }

    private func address(_ known: String = "") async throws -> Answer {
        try await relays[0].ask(
            "private/assets/upload",
            #"{"tokens":[{"recordType":"Photo","fieldName":"file","recordName":"p"\#(known)}]}"#
        )
    }

    private func send(_ count: Int, _ filler: UInt8, to tokens: Answer, at relay: RelayWorld) async throws -> Answer {
        let address = try #require(try tokens.items("tokens").first?.text("url"))
        let response = await relay.relay.respond(
            to: APIRequest(
                method: .post,
                path: try #require(URLComponents(string: address)).path,
                body: Array(repeating: filler, count: count)
            )
        )
        return Answer(
            status: response.status.code,
            json: try JSONDocument(parsing: response.body).root,
            response: response
        )
    }

    private func save(_ upload: Answer, named name: String, at relay: RelayWorld) async throws -> Bool {
        let asset = String(decoding: try upload.json.required("singleFile").rawBytes, as: UTF8.self)
        let operation = RelayWorld.Operation(
            kind: "forceUpdate",
            name: name,
            type: "Photo",
            fields: #"{"file":{"value":\#(asset)}}"#
        )
        let answer = try await relay.modify(zone: "_defaultZone", [operation])
        return try answer.items("records").first?.text("serverErrorCode") == nil && answer.status == 200
    }

    @Test func uploadsToAllRelaysCountTowardsTheQuota() async throws {
        let tokens = try await address()
        #expect(try await send(4_000, 1, to: tokens, at: relays[0]).status == 200)
        #expect(try await send(4_000, 2, to: tokens, at: relays[relays.count - 1]).status == 200)
        for relay in relays {
            let third = try await send(4_000, 3, to: tokens, at: relay)
            #expect(third.status == 413 && third.code == "QUOTA_EXCEEDED")
        }
    }

    @Test func anUploadThatIsSavedAtAnotherRelayIsCountedOnce() async throws {
        let last = relays[relays.count - 1]
        let upload = try await send(4_000, 1, to: address(), at: relays[0])
        #expect(try await save(upload, named: "a", at: last))
        // The quota has 6,000 bytes left, which an upload at either relay may use.
        let second = try await send(4_500, 2, to: address(), at: relays[0])
        #expect(second.status == 200)
        #expect(try await save(second, named: "b", at: relays[0]))
    }

    @Test func anUploadToOneRelayNeedsNoOtherOneAtAnother() async throws {
        let upload = try await send(4_000, 1, to: address(), at: relays[relays.count - 1])
        let checksum = try #require(try upload.json.required("singleFile").text("fileChecksum"))
        let known = try await address(#","fileChecksum":"\#(checksum)","size":4000"#)
        #expect(try known.items("tokens").first?.hasMember("receipt") == true)
        let other = try await address(#","fileChecksum":"\#(checksum)","size":3999"#)
        #expect(try other.items("tokens").first?.hasMember("receipt") == false)
    }
}
