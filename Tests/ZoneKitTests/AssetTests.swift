import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Assets: uploaded before their records and only once, downloaded on demand.
@Suite(.timeLimit(.minutes(15))) struct AssetTests {
    let relay: TestRelay
    let phone: TestDevice
    let laptop: TestDevice
    let zone = CKRecordZone(zoneName: "Photos")
    let folder = TestFolder()

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        laptop = relay.device(of: "alice", named: "laptop")
        try folder.make()
        try await phone.privateDatabase.save(zone)
    }

    private func file(_ name: String, _ text: String) throws -> URL {
        let url = folder.url.appendingPathComponent(name)
        try Data(text.utf8).write(to: url)
        return url
    }

    private func photo(_ name: String) -> CKRecord {
        CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: name, zoneID: zone.zoneID))
    }

    /// Reads through `download()`: `fileURL` blocks its thread, and all tests share few threads.
    private func text(_ asset: CKAsset?) async throws -> String {
        let asset = try #require(asset)
        return String(decoding: try Data(contentsOf: await asset.download()), as: UTF8.self)
    }

    @Test func anAssetIsUploadedAndDownloadedOnDemand() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("a.jpg", "a picture"))
        record["title"] = "A"
        try await phone.privateDatabase.save(record)
        let sent = ["private/assets/upload", "asset/1/upload", "private/records/modify"]
        #expect(phone.network.operations.suffix(3) == sent)
        #expect((record["image"] as? CKAsset)?.fileURL?.lastPathComponent == "a.jpg", "the local file URL stays")

        let fetched = try await laptop.privateDatabase.record(for: record.recordID)
        let asset = try #require(fetched["image"] as? CKAsset)
        #expect(laptop.network.operations == ["private/records/lookup"], "nothing was downloaded yet")
        #expect(asset.size == 9)
        let file = try #require(asset.fileURL)
        #expect(try Data(contentsOf: file) == Data("a picture".utf8))
        #expect(try await text(fetched["image"]) == "a picture")
        #expect(laptop.network.operations.count == 2, "the content is downloaded once")
    }

    @Test func equalContentIsUploadedOnce() async throws {
        let (first, second) = (photo("a"), photo("b"))
        first["image"] = CKAsset(fileURL: try file("1", "same"))
        second["image"] = CKAsset(fileURL: try file("2", "same"))
        second["more"] = [CKAsset(fileURL: try file("3", "other")), CKAsset(fileURL: try file("4", "same"))]
        let (saves, _) = try await phone.privateDatabase.modifyRecords(saving: [first, second], deleting: [])
        for result in saves.values { _ = try result.get() }
        #expect(phone.network.operations.filter { $0 == "private/assets/upload" }.count == 2)
        let fetched = try await laptop.privateDatabase.record(for: second.recordID)
        let more = try #require(fetched["more"] as? [CKAsset])
        #expect(try await text(more.first) == "other")
        #expect(try await text(more.last) == "same")
    }

    /// A receipt that the relay gave to one user is not valid for another.
    @Test func anotherUserUploadsTheSameContentAgain() async throws {
        for user in ["alice", "bob"] {
            phone.connection.credentials.replace(webAuthToken: "dev-\(user)")
            let record = CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: "of-\(user)"))
            record["image"] = CKAsset(fileURL: try file("1", "same"))
            try await phone.privateDatabase.save(record)
        }
        let operations = phone.network.operations
        #expect(operations.filter { $0 == "private/records/modify" }.count == 2)
        #expect(operations.filter { $0 == "private/assets/upload" }.count == 2)
    }

    /// A user who signs in during an upload must not send the remaining files.
    @Test func aSignInDuringASaveStopsItBeforeTheNextFile() async throws {
        let record = CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: "two"))
        record["images"] = [CKAsset(fileURL: try file("1", "one")), CKAsset(fileURL: try file("2", "two"))]
        phone.network.forgetOperations()
        let container = phone.container
        phone.network.fail(
            request: 1,
            of: "assets/upload",
            by: .beforeAnswer { try? await container.signIn(.dev(user: "bob")) }
        )
        await expect(.accountTemporarilyUnavailable) { try await phone.privateDatabase.save(record) }
        #expect(phone.network.operations.filter { $0 == "private/assets/upload" }.count == 1)
        #expect(!phone.network.operations.contains("private/records/modify"))
    }

    @Test func anAssetCanBeCopiedIntoAnotherRecord() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "moving"))
        try await phone.privateDatabase.save(record)
        let fetched = try await laptop.privateDatabase.record(for: record.recordID)
        let copy = photo("copy")
        copy["image"] = fetched["image"] as? CKAsset
        try await laptop.privateDatabase.save(copy)
        #expect(!laptop.network.operations.contains("private/assets/upload"))
        let again = try await phone.privateDatabase.record(for: copy.recordID)
        #expect(try await text(again["image"]) == "moving")
        // Saving all fields of a fetched record keeps its asset.
        fetched["title"] = "new"
        _ = try await laptop.privateDatabase.modifyRecords(saving: [fetched], deleting: [], savePolicy: .allKeys)
        #expect(try await text(phone.privateDatabase.record(for: record.recordID)["image"]) == "moving")
    }

    /// The program's own file stands in for the asset only while the relay has the same content.
    @Test func anAssetReplacedElsewhereIsSeenAfterASave() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("a.jpg", "a picture"))
        try await phone.privateDatabase.save(record)
        let elsewhere = try await laptop.privateDatabase.record(for: record.recordID)
        elsewhere["image"] = CKAsset(fileURL: try file("b.jpg", "another"))
        try await laptop.privateDatabase.save(elsewhere)

        record["title"] = "A"
        let saved = try await phone.privateDatabase.modifyRecords(
            saving: [record],
            deleting: [],
            savePolicy: .changedKeys
        )
        _ = try saved.saveResults[record.recordID]?.get()
        #expect(try await text(record["image"]) == "another")
        record["title"] = "B"
        try await phone.privateDatabase.save(record)
        #expect(try await text(record["image"]) == "another")
    }

    @Test func aMissingFileFailsOnlyItsOwnRecord() async throws {
        let (good, bad) = (photo("good"), photo("bad"))
        good["title"] = "fine"
        bad["image"] = CKAsset(fileURL: folder.url.appendingPathComponent("nowhere"))
        let results = try await phone.privateDatabase.modifyRecords(
            saving: [good, bad],
            deleting: [],
            atomically: false
        )
        _ = try results.saveResults[good.recordID]?.get()
        expect(.assetFileNotFound) { _ = try results.saveResults[bad.recordID]?.get() }
    }

    @Test func downloadOfADeletedAssetReportsAssetNotAvailable() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "gone soon"))
        try await phone.privateDatabase.save(record)
        let fetched = try await laptop.privateDatabase.record(for: record.recordID)
        let asset = try #require(fetched["image"] as? CKAsset)
        try await phone.privateDatabase.deleteRecord(withID: record.recordID)
        await expect(.assetNotAvailable) { _ = try await asset.download() }
        #expect(asset.fileURL == nil)
    }

    @Test func anExpiredDownloadURLIsRequestedAgain() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "still there"))
        try await phone.privateDatabase.save(record)
        let fetched = try await laptop.privateDatabase.record(for: record.recordID)
        relay.clock.advance(by: .seconds(3 * 3600))
        #expect(try await text(fetched["image"]) == "still there")
    }

    @Test func newFilesSurviveAnArchive() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "kept"))
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        let read = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        try await phone.privateDatabase.save(read)
        #expect(try await text(laptop.privateDatabase.record(for: record.recordID)["image"]) == "kept")
    }

    /// The list mixes fetched assets and new files in a record that was never saved.
    @Test func fetchedAssetsSurviveAnArchive() async throws {
        let database = try relay.configurableDevice(of: "alice").configure(as: "alice").privateCloudDatabase
        try await database.save(zone)
        let source = photo("a")
        source["image"] = CKAsset(fileURL: try file("1", "fetched"))
        try await database.save(source)
        let fetched = try #require(try await database.record(for: source.recordID)["image"] as? CKAsset)
        let record = photo("b")
        record["images"] = [CKAsset(fileURL: try file("2", "first")), fetched, CKAsset(fileURL: try file("3", "last"))]
        record["image"] = fetched
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        let read = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        try await database.save(read)
        let saved = try await database.record(for: record.recordID)
        #expect(try await text(saved["image"]) == "fetched")
        var texts: [String] = []
        for asset in try #require(saved["images"] as? [CKAsset]) { texts.append(try await text(asset)) }
        #expect(texts == ["first", "fetched", "last"])
    }

    @Test func operationsReportProgress() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "one"))
        let operation = CKModifyRecordsOperation(recordsToSave: [record])
        let shares = Mutex<[Double]>([])
        operation.perRecordProgressBlock = { _, progress in shares.withLock { $0.append(progress) } }
        await withCheckedContinuation { done in
            operation.completionBlock = { done.resume() }
            phone.privateDatabase.add(operation)
        }
        #expect(shares.withLock { $0 } == [0.5, 1])
    }

    // MARK: Large files

    /// A file of more than two download parts.
    private func largeFile(_ name: String) throws -> URL {
        let url = folder.url.appendingPathComponent(name)
        var bytes = [UInt8](repeating: 7, count: 5 << 19)
        for index in stride(from: 0, to: bytes.count, by: 4096) {
            bytes[index] = UInt8(truncatingIfNeeded: index >> 12)
        }
        try Data(bytes).write(to: url)
        return url
    }

    @Test func aLargeFileIsDownloadedInParts() async throws {
        let source = try largeFile("big")
        let record = photo("a")
        record["image"] = CKAsset(fileURL: source)
        try await phone.privateDatabase.save(record)
        let fetched = try await laptop.privateDatabase.record(for: record.recordID)
        laptop.network.forgetOperations()
        let file = try await #require(fetched["image"] as? CKAsset).download()
        #expect(try Data(contentsOf: file) == Data(contentsOf: source))
        #expect(laptop.network.operations.count == 3)
    }

    @Test func anInterruptedDownloadResumes() async throws {
        let source = try largeFile("big")
        let record = photo("a")
        record["image"] = CKAsset(fileURL: source)
        try await phone.privateDatabase.save(record)
        let asset = try #require(try await laptop.privateDatabase.record(for: record.recordID)["image"] as? CKAsset)
        laptop.network.forgetOperations()
        // The first part arrives; then the connection fails more often than the download retries.
        laptop.network.fail(.passes, .losesAnswer, .losesAnswer, .losesAnswer)
        await expect(.networkFailure) { _ = try await asset.download() }
        #expect(laptop.network.operations.count == 4)
        laptop.network.forgetOperations()
        let file = try await asset.download()
        #expect(try Data(contentsOf: file) == Data(contentsOf: source))
        #expect(laptop.network.operations.count == 2, "the first piece was there")
    }

    @Test func aShortInterruptionIsRetriedInternally() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try largeFile("big"))
        try await phone.privateDatabase.save(record)
        let asset = try #require(try await laptop.privateDatabase.record(for: record.recordID)["image"] as? CKAsset)
        laptop.network.fail(.passes, .losesAnswer, .passes, .losesAnswer)
        _ = try await asset.download()
    }

    @Test func contentThatTheRelayHasIsNotUploadedAgain() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "the same everywhere"))
        try await phone.privateDatabase.save(record)
        // Another device saves the same file in the same zone.
        let other = photo("b")
        other["image"] = CKAsset(fileURL: try file("2", "the same everywhere"))
        try await laptop.privateDatabase.save(other)
        #expect(laptop.network.operations == ["private/assets/upload", "private/records/modify"])
        #expect(try await text(phone.privateDatabase.record(for: other.recordID)["image"]) == "the same everywhere")
        // In another zone the relay does not reveal what the first zone holds.
        let elsewhere = CKRecordZone(zoneName: "Elsewhere")
        try await laptop.privateDatabase.save(elsewhere)
        let third = CKRecord(recordType: "Photo", recordID: CKRecord.ID(recordName: "c", zoneID: elsewhere.zoneID))
        third["image"] = CKAsset(fileURL: try file("3", "the same everywhere"))
        let fresh = relay.device(of: "alice", named: "tablet")
        try await fresh.privateDatabase.save(third)
        #expect(fresh.network.operations == ["private/assets/upload", "asset/1/upload", "private/records/modify"])
    }

    @Test func anUploadWithALostAnswerIsNotRepeated() async throws {
        let record = photo("a")
        record["image"] = CKAsset(fileURL: try file("1", "the answer was lost"))
        phone.network.fail(.passes, .losesAnswer)
        phone.network.forgetOperations()
        try await phone.privateDatabase.save(record)
        // The file is sent, then the client asks for the upload offset. It does not send the file again.
        let start = ["private/assets/upload", "asset/1/upload", "asset/1/upload"]
        #expect(phone.network.operations == start + ["private/assets/upload", "private/records/modify"])
        #expect(try await text(laptop.privateDatabase.record(for: record.recordID)["image"]) == "the answer was lost")
    }
}
