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

/// The lifetime of downloaded files.
@Suite struct DownloadFolderTests {
    private let parent = FileManager.default.temporaryDirectory
        .appendingPathComponent("folder-\(UUID().uuidString)", isDirectory: true)

    private func isThere(_ url: URL) -> Bool { FileManager.default.fileExists(atPath: url.path) }

    private func download(_ name: String, to folder: DownloadFolder) throws -> DownloadFolder.File {
        let file = folder.file(named: name)
        try folder.prepare()
        try Data(count: 100).write(to: file.url)
        folder.changed(file)
        return file
    }

    @Test func theLeastRecentlyUsedUnheldFileIsRemovedWhenSpaceRunsOut() throws {
        defer { try? FileManager.default.removeItem(at: parent) }
        let folder = DownloadFolder(in: parent, capacity: 400)
        let held = try download("held", to: folder)
        let places = try (0..<3).map { try download("\($0)", to: folder).url }
        #expect(([held.url] + places).allSatisfy(isThere))
        // Using the file makes the next one the least recently used.
        _ = folder.file(named: "0")
        let last = try download("last", to: folder)
        #expect([held.url, places[0], last.url].allSatisfy(isThere))
        #expect(!isThere(places[1]) && !isThere(places[2]))
    }

    @Test func aFolderIsRemovedWithItsOwnerOrByTheNextProgram() throws {
        defer { try? FileManager.default.removeItem(at: parent) }
        let abandoned = parent.appendingPathComponent("zonecast-downloads-old")
        let foreign = parent.appendingPathComponent("zonecast-downloads-not-ours")
        for folder in [abandoned, foreign] {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }
        try Data().write(to: abandoned.appendingPathComponent("lock"))
        var living: DownloadFolder? = DownloadFolder(in: parent)
        let place = try download("a", to: try #require(living)).url
        #expect(!isThere(abandoned) && isThere(foreign))
        let other = try download("b", to: DownloadFolder(in: parent)).url
        #expect(isThere(place) && !isThere(other))
        living = nil
        #expect(!isThere(place))
    }

    /// Many programs start at the same time, and each removes the folders that others have abandoned.
    @Test func aFolderThatIsBeingCreatedIsNotRemovedAsAbandoned() async throws {
        defer { try? FileManager.default.removeItem(at: parent) }
        let folders = (0..<200).map { _ in DownloadFolder(in: parent) }
        let files = try await withThrowingTaskGroup { group in
            for folder in folders { group.addTask { try download("a", to: folder) } }
            return try await group.reduce(into: [DownloadFolder.File]()) { $0.append($1) }
        }
        #expect(files.allSatisfy { isThere($0.url) })
        let names = try FileManager.default.contentsOfDirectory(atPath: parent.path)
        #expect(names.count == folders.count && !names.contains { $0.hasPrefix(".") })
        withExtendedLifetime(folders) {}
    }
}

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
