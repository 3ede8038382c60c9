import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Uploads over interrupted connections, at the level of the wire.
@Suite struct ResumedUploadTests {
    static let place =
        #"{"tokens":[{"recordName":"a","fieldName":"image","url":"http://relay.example/asset/1/upload/x"}]}"#
    static let receipt = #"{"singleFile":{"fileChecksum":"AQ==","size":8,"receipt":"r"}}"#
    private let folder = TestFolder()
    let file: URL
    let content = Array("12345678".utf8)

    init() throws {
        try folder.make()
        file = folder.url.appendingPathComponent("upload")
        try Data(content).write(to: file)
    }

    private func reached(_ offset: Int) -> ScriptedRelay.Line {
        .answer(204, "", headers: ["Upload-Offset": "\(offset)"])
    }

    /// Saves a record with the file.
    ///
    /// The save itself fails because the script has ended.
    private func save(at relay: ScriptedRelay, in container: CKContainer? = nil) async -> CKError.Code? {
        let record = CKRecord(
            recordType: "Photo",
            recordID: CKRecord.ID(recordName: "a", zoneID: CKRecordZone.ID(zoneName: "Photos"))
        )
        record["image"] = CKAsset(fileURL: file)
        do {
            _ = try await (container ?? relay.container()).privateCloudDatabase.save(record)
            return nil
        } catch {
            return (error as? CKError)?.code
        }
    }

    private func uploads(_ relay: ScriptedRelay) -> [(bytes: [UInt8], offset: String?)] {
        relay.requests.filter { $0.file != nil }.map { request in
            (request.content, request.headers.first { $0.name == "Upload-Offset" }?.value)
        }
    }

    @Test func theRestIsSentAfterAnInterruption() async {
        let relay = ScriptedRelay(
            .answer(200, Self.place),
            .failure(.answerLost("the connection broke")),
            reached(3),
            .failure(.answerLost("it broke again")),
            reached(5),
            .answer(200, Self.receipt)
        )
        _ = await save(at: relay)
        let uploads = uploads(relay)
        #expect(uploads.map(\.bytes) == [content, Array("45678".utf8), Array("678".utf8)])
        #expect(uploads.map(\.offset) == [nil, "3", "5"])
        #expect(relay.requests.last?.path.hasSuffix("records/modify") == true)
    }

    @Test func anUploadWithoutProgressGivesUp() async {
        let attempt: [ScriptedRelay.Line] = [.answer(200, Self.place), .failure(.answerLost("broken")), reached(0)]
        let relay = ScriptedRelay(attempt + attempt + attempt + attempt)
        #expect(await save(at: relay) == .networkFailure)
        #expect(uploads(relay).map(\.offset) == [nil, nil, nil, nil])
    }

    @Test func aCompletedUploadIsNotSentAgain() async {
        let known = """
            {"tokens":[{"recordName":"a","fieldName":"image","fileChecksum":"AQ==","size":8,"receipt":"r"}]}
            """
        let relay = ScriptedRelay(
            .answer(200, Self.place),
            .failure(.answerLost("the answer")),
            reached(0),
            .answer(200, known)
        )
        _ = await save(at: relay)
        #expect(uploads(relay).count == 1)
        #expect(relay.requests.last?.path.hasSuffix("records/modify") == true)
    }

    @Test func aRelayWithoutResumptionReceivesTheWholeFile() async {
        let relay = ScriptedRelay(
            .answer(200, Self.place),
            .failure(.answerLost("1")),
            .answer(405, #"{"serverErrorCode":"BAD_REQUEST"}"#),
            .answer(200, Self.place),
            .answer(200, Self.receipt)
        )
        _ = await save(at: relay)
        #expect(uploads(relay).map(\.offset) == [nil, nil])
        #expect(uploads(relay).last?.bytes == content)
    }

    @Test func aLaterSaveResumesTheUpload() async {
        let relay = ScriptedRelay(
            .answer(200, Self.place),
            .failure(.answerLost("1")),
            .failure(.unreachable("the network is gone")),
            .failure(.unreachable("the network is gone")),
            reached(6),
            .answer(200, Self.receipt)
        )
        let container = relay.container()
        #expect(await save(at: relay, in: container) == .networkFailure)
        _ = await save(at: relay, in: container)
        #expect(uploads(relay).map(\.bytes) == [content, Array("78".utf8)])
    }
}
