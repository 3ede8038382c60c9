import Testing
import ZoneKit

/// Cancelled downloads.
@Suite struct DownloadWaitTests {
    private let content = "12345678"

    /// A record with an asset, followed by the given answers to requests for its content.
    private func asset(_ lines: ScriptedRelay.Line...) async throws -> (CKAsset, ScriptedRelay) {
        let image = #"{"fileChecksum":"Ae95fIEY8C37ZJYH3V0/jHYjBIyc","size":8,"downloadURL":"http://relay.example/x"}"#
        let record = """
            {"records":[{"recordName":"a","recordType":"Photo","recordChangeTag":"1","zoneID":{"zoneName":"Photos"},
            "fields":{"image":{"value":\(image),"type":"ASSETID"}}}]}
            """
        let relay = ScriptedRelay([.answer(200, record)] + lines)
        let id = CKRecord.ID(recordName: "a", zoneID: CKRecordZone.ID(zoneName: "Photos"))
        let found = try await relay.container().privateCloudDatabase.record(for: id)
        return (try #require(found["image"] as? CKAsset), relay)
    }

    @Test func aCancelledTaskStopsWaiting() async throws {
        let (asset, relay) = try await asset(.silence, .answer(200, content))
        let task = Task { try await asset.download() }
        while relay.requests.count < 2 { await Task.yield() }
        task.cancel()
        await expect(.operationCancelled) { _ = try await task.value }
        // The cancelled download does not block the next one.
        let file = try await asset.download()
        #expect(try String(contentsOf: file, encoding: .utf8) == content)
        #expect(relay.requests.count == 3)
    }
}
