import Foundation
import Testing
import ZoneKit

/// Bytes that changed on their way or on somebody's disk.
@Suite struct SpoiltAssetTests {
    private let content = "12345678"
    /// Its name by content, and that of other bytes.
    private let good = "Ae95fIEY8C37ZJYH3V0/jHYjBIyc"
    private let other = "AQAAAAAAAAAAAAAAAAAAAAAAAAAA"

    private func record() -> CKRecord {
        let place = CKRecordZone.ID(zoneName: "Photos")
        return CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: "a", zoneID: place))
    }

    /// A record that names the content, and what comes when its address is asked.
    private func relay(sending files: String...) -> ScriptedRelay {
        ScriptedRelay([.answer(200, answer)] + files.map { .answer(200, $0) })
    }

    private var answer: String {
        let image = #"{"fileChecksum":"\#(good)","size":8,"downloadURL":"http://relay.example/x"}"#
        return """
            {"records":[{"recordName":"a","recordType":"Photo","recordChangeTag":"1","zoneID":{"zoneName":"Photos"},
            "fields":{"image":{"value":\(image),"type":"ASSETID"}}}]}
            """
    }

    private func download(from relay: ScriptedRelay) async throws -> String {
        let database = relay.container().privateCloudDatabase
        let asset = try #require(try await database.record(for: record().recordID)["image"] as? CKAsset)
        return try String(contentsOf: try await asset.download(), encoding: .utf8)
    }

    @Test func aSpoiltDownloadComesOnceMore() async throws {
        #expect(try await download(from: relay(sending: "1234x678", content)) == content)
    }

    @Test func whatStaysSpoiltIsNeverHandedOut() async throws {
        await expect(.assetNotAvailable) { _ = try await download(from: relay(sending: "1234x678", "12x45678")) }
    }

    /// Part after part of it, each longer than what is missing: without an end, were they taken.
    @Test func aPartThatIsTooLongIsNotIt() async throws {
        let part = ScriptedRelay.Line.answer(206, content + "9")
        // Its address leads to something else, and so does the one that the record has by now.
        let parts = ScriptedRelay([.answer(200, answer), part, .answer(200, answer), part])
        await expect(.assetNotAvailable) { _ = try await download(from: parts) }
        #expect(parts.requests.count == 4)
    }

    @Test func whatIsWholeComesOnce() async throws {
        let relay = relay(sending: content)
        #expect(try await download(from: relay) == content)
        #expect(relay.requests.count == 2)
    }

    /// The relay's own word, which asking again does not change; and with what it says.
    @Test func whatTheRelaySaysIsDamagedIsNotToBeHad() async throws {
        let words = #"{"uuid":"7","serverErrorCode":"INTERNAL_ERROR","reason":"The file of this asset is damaged."}"#
        let relay = ScriptedRelay(.answer(200, answer), .answer(500, words))
        let error = try await #require(throws: CKError.self) { _ = try await download(from: relay) }
        #expect(error.code == .assetNotAvailable)
        #expect(error.localizedDescription == "The file of this asset is damaged.")
        #expect(relay.requests.count == 2)
    }

    /// Too many for now: that is the relay too, and it says when to come again.
    @Test func aDownloadThatHasToWaitSaysForHowLong() async throws {
        let words = #"{"uuid":"7","serverErrorCode":"THROTTLED","reason":"Too much today.","retryAfter":9}"#
        let relay = ScriptedRelay(.answer(200, answer), .answer(429, words))
        let error = try await #require(throws: CKError.self) { _ = try await download(from: relay) }
        #expect(error.code == .requestRateLimited)
        #expect(error.retryAfterSeconds == 9)
        #expect(error.localizedDescription == "Too much today.")
    }

    /// Told as an answer that was lost, which is tried again by itself; the record is never saved with the wrong file.
    @Test func anUploadThatArrivedSpoiltIsNotSaved() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("spoilt-\(UUID().uuidString)")
        try Data(content.utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let relay = ScriptedRelay(
            .answer(200, ResumedUploadTests.place),
            .answer(200, #"{"singleFile":{"fileChecksum":"\#(other)","size":8,"receipt":"r"}}"#)
        )
        let record = record()
        record["image"] = CKAsset(fileURL: file)
        await expect(.serverResponseLost) {
            _ = try await relay.container().privateCloudDatabase.save(record)
        }
        #expect(relay.requests.count == 2)
    }
}
