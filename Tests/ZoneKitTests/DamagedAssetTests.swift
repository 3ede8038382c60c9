import Foundation
import Testing
import ZoneKit

/// Assets whose content was damaged in transit or on a disk.
@Suite struct DamagedAssetTests {
    private let content = "12345678"
    /// The checksum of the content, and another one.
    private let good = "Ae95fIEY8C37ZJYH3V0/jHYjBIyc"
    private let other = "AQAAAAAAAAAAAAAAAAAAAAAAAAAA"

    private func record() -> CKRecord {
        let place = CKRecordZone.ID(zoneName: "Photos")
        return CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: "a", zoneID: place))
    }

    /// A relay with a record that refers to the content, followed by these answers to downloads.
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

    @Test func aDamagedDownloadIsRetriedOnce() async throws {
        #expect(try await download(from: relay(sending: "1234x678", content)) == content)
    }

    @Test func aDownloadThatStaysDamagedIsNotDelivered() async throws {
        await expect(.assetNotAvailable) { _ = try await download(from: relay(sending: "1234x678", "12x45678")) }
    }

    /// Each part is longer than the missing rest; accepted, the download would never end.
    @Test func aTooLongPartIsRefused() async throws {
        let part = ScriptedRelay.Line.answer(206, content + "9")
        // The URL leads to something else, and so does the record's current one.
        let parts = ScriptedRelay([.answer(200, answer), part, .answer(200, answer), part])
        await expect(.assetNotAvailable) { _ = try await download(from: parts) }
        #expect(parts.requests.count == 4)
    }

    @Test func anIntactDownloadIsRequestedOnce() async throws {
        let relay = relay(sending: content)
        #expect(try await download(from: relay) == content)
        #expect(relay.requests.count == 2)
    }

    /// The relay itself reports the damage: a retry cannot help, and its reason is passed on.
    @Test func anAssetThatTheRelayReportsAsDamagedIsNotAvailable() async throws {
        let words = #"{"uuid":"7","serverErrorCode":"INTERNAL_ERROR","reason":"The file of this asset is damaged."}"#
        let relay = ScriptedRelay(.answer(200, answer), .answer(500, words))
        let error = try await #require(throws: CKError.self) { _ = try await download(from: relay) }
        #expect(error.code == .assetNotAvailable)
        #expect(error.localizedDescription == "The file of this asset is damaged.")
        #expect(relay.requests.count == 2)
    }

    /// The relay throttles downloads too and says when to retry.
    @Test func aThrottledDownloadReportsRetryAfter() async throws {
        let words = #"{"uuid":"7","serverErrorCode":"THROTTLED","reason":"Too much today.","retryAfter":9}"#
        let relay = ScriptedRelay(.answer(200, answer), .answer(429, words))
        let error = try await #require(throws: CKError.self) { _ = try await download(from: relay) }
        #expect(error.code == .requestRateLimited)
        #expect(error.retryAfterSeconds == 9)
        #expect(error.localizedDescription == "Too much today.")
    }

    /// Reported as a lost answer, which is retried automatically.
    ///
    /// The record is never saved with the wrong file.
    @Test func aDamagedUploadIsNotSaved() async throws {
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
