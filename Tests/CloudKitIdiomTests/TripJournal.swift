import CloudKit
import Testing
import ZoneTesting

/// A journal with a local copy of the server's records, as programs kept it before sync engines existed: operations,
/// archived change tokens, and system fields stored with the values.
private final class TripJournal: @unchecked Sendable {
    struct Entry {
        var title: String
        var systemFields: Data?
    }

    let database: CKDatabase
    let zoneID = CKRecordZone.ID(zoneName: "Trips", ownerName: CKCurrentUserDefaultName)
    private(set) var entries: [CKRecord.ID: Entry] = [:]
    private(set) var goneZones: [CKRecordZone.ID] = []
    private(set) var pages = 0
    private var databaseToken: Data?
    private var zoneTokens: [CKRecordZone.ID: Data] = [:]
    private let queue = OperationQueue()

    init(_ database: CKDatabase) {
        self.database = database
        queue.maxConcurrentOperationCount = 1
    }

    // MARK: Archives

    private func archive(_ token: CKServerChangeToken) -> Data? {
        try? NSKeyedArchiver.archivedData(withRootObject: token, requiringSecureCoding: true)
    }

    private func token(_ data: Data?) -> CKServerChangeToken? {
        data.flatMap { try? NSKeyedUnarchiver.unarchivedObject(ofClass: CKServerChangeToken.self, from: $0) }
    }

    private func keep(_ record: CKRecord) {
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        record.encodeSystemFields(with: archiver)
        archiver.finishEncoding()
        entries[record.recordID] = Entry(
            title: record["title"] as? String ?? "",
            systemFields: archiver.encodedData
        )
    }

    func record(for id: CKRecord.ID) -> CKRecord {
        guard let data = entries[id]?.systemFields, let reader = try? NSKeyedUnarchiver(forReadingFrom: data) else {
            return CKRecord(recordType: "Trip", recordID: id)
        }
        reader.requiresSecureCoding = true
        defer { reader.finishDecoding() }
        return CKRecord(coder: reader) ?? CKRecord(recordType: "Trip", recordID: id)
    }

    // MARK: Fetching

    func fetch(completion: @escaping (Error?) -> Void) {
        var changed: [CKRecordZone.ID] = []
        let operation = CKFetchDatabaseChangesOperation(previousServerChangeToken: token(databaseToken))
        operation.fetchAllChanges = true
        operation.recordZoneWithIDChangedBlock = { changed.append($0) }
        operation.recordZoneWithIDWasDeletedBlock = { [weak self] in self?.forget($0) }
        operation.recordZoneWithIDWasPurgedBlock = { [weak self] in self?.forget($0) }
        operation.recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock = { _ in }
        operation.changeTokenUpdatedBlock = { [weak self] in self?.databaseToken = self?.archive($0) }
        operation.fetchDatabaseChangesResultBlock = { [weak self] result in
            switch result {
            case .success(let (token, _)):
                self?.databaseToken = self?.archive(token)
                self?.fetch(changed, completion)
            case .failure(let error): completion(error)
            }
        }
        operation.qualityOfService = .userInitiated
        operation.database = database
        queue.addOperation(operation)
    }

    private func forget(_ zoneID: CKRecordZone.ID) {
        goneZones.append(zoneID)
        zoneTokens[zoneID] = nil
        entries = entries.filter { $0.key.zoneID != zoneID }
    }

    /// Fetches one page per operation and continues with the token until no more pages follow.
    private func fetch(_ zoneIDs: [CKRecordZone.ID], _ completion: @escaping (Error?) -> Void) {
        guard !zoneIDs.isEmpty else { return completion(nil) }
        var configurations: [CKRecordZone.ID: CKFetchRecordZoneChangesOperation.ZoneConfiguration] = [:]
        for zoneID in zoneIDs {
            let configuration = CKFetchRecordZoneChangesOperation.ZoneConfiguration()
            configuration.previousServerChangeToken = token(zoneTokens[zoneID])
            configuration.resultsLimit = 7
            configuration.desiredKeys = ["title"]
            configurations[zoneID] = configuration
        }
        let operation = CKFetchRecordZoneChangesOperation(
            recordZoneIDs: zoneIDs,
            configurationsByRecordZoneID: configurations
        )
        operation.fetchAllChanges = false
        var unfinished: [CKRecordZone.ID] = []
        operation.recordWasChangedBlock = { [weak self] _, result in
            if case .success(let record) = result { self?.keep(record) }
        }
        operation.recordWithIDWasDeletedBlock = { [weak self] id, type in
            if type == "Trip" { self?.entries[id] = nil }
        }
        operation.recordZoneChangeTokensUpdatedBlock = { [weak self] zoneID, token, _ in
            if let token { self?.zoneTokens[zoneID] = self?.archive(token) }
        }
        operation.recordZoneFetchResultBlock = { [weak self] zoneID, result in
            self?.pages += 1
            guard case .success(let page) = result else { return }
            self?.zoneTokens[zoneID] = self?.archive(page.serverChangeToken)
            if page.moreComing { unfinished.append(zoneID) }
        }
        operation.fetchRecordZoneChangesResultBlock = { [weak self] result in
            switch result {
            case .success: self?.fetch(unfinished, completion)
            case .failure(let error): completion(error)
            }
        }
        operation.database = database
        queue.addOperation(operation)
    }

    // MARK: Saving

    /// Saves the titles.
    ///
    /// On a conflict it puts its own title on top of the server's record.
    func save(_ titles: [CKRecord.ID: String], completion: @escaping (Error?) -> Void) {
        let records = titles.map { id, title in
            let record = record(for: id)
            record["title"] = title
            return record
        }
        let operation = CKModifyRecordsOperation(recordsToSave: records, recordIDsToDelete: nil)
        operation.savePolicy = .ifServerRecordUnchanged
        operation.isAtomic = false
        var conflicts: [CKRecord] = []
        operation.perRecordSaveBlock = { [weak self] id, result in
            switch result {
            case .success(let record): self?.keep(record)
            case .failure(let error as CKError) where error.code == .serverRecordChanged:
                guard let server = error.serverRecord else { return }
                server["title"] = titles[id]
                conflicts.append(server)
            case .failure: break
            }
        }
        operation.modifyRecordsResultBlock = { [weak self] result in
            guard let self, !conflicts.isEmpty else {
                if case .failure(let error) = result { return completion(error) }
                return completion(nil)
            }
            let second = CKModifyRecordsOperation(recordsToSave: conflicts, recordIDsToDelete: [])
            second.savePolicy = .changedKeys
            second.perRecordSaveBlock = { _, result in if let record = try? result.get() { self.keep(record) } }
            second.modifyRecordsResultBlock = { result in
                if case .failure(let error) = result { completion(error) } else { completion(nil) }
            }
            self.database.add(second)
        }
        database.add(operation)
    }
}

@Suite(.timeLimit(.minutes(15))) struct TripJournalTests {
    private func done(_ work: (@escaping (Error?) -> Void) -> Void) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, Error>) in
            work { error in
                if let error { continuation.resume(throwing: error) } else { continuation.resume() }
            }
        }
    }

    @Test func twoDevicesKeepTheSameJournal() async throws {
        let relay = try TestRelay()
        let phone = TripJournal(relay.device(of: "alice", named: "phone").privateDatabase)
        let laptop = TripJournal(relay.device(of: "alice", named: "laptop").privateDatabase)
        _ = try await phone.database.save(CKRecordZone(zoneID: phone.zoneID))
        let ids = (0..<20).map { CKRecord.ID(recordName: "trip\($0)", zoneID: phone.zoneID) }
        try await done { phone.save(Dictionary(uniqueKeysWithValues: ids.map { ($0, "Trip") }), completion: $0) }
        try await done { laptop.fetch(completion: $0) }
        #expect(laptop.entries.count == 20 && laptop.pages == 3)

        // Both change one entry. The laptop's copy is outdated, and its title overwrites the phone's.
        try await done { phone.save([ids[3]: "Rome"], completion: $0) }
        try await done { laptop.save([ids[3]: "Roma", ids[4]: "Oslo"], completion: $0) }
        try await done { phone.fetch(completion: $0) }
        #expect(phone.entries[ids[3]]?.title == "Roma" && phone.entries[ids[4]]?.title == "Oslo")
        #expect(laptop.record(for: ids[3]).recordChangeTag == phone.record(for: ids[3]).recordChangeTag)

        // The stored tokens fetch only new changes.
        let pages = laptop.pages
        _ = try await phone.database.deleteRecord(withID: ids[0])
        try await done { laptop.fetch(completion: $0) }
        #expect(laptop.entries.count == 19 && laptop.pages == pages + 1)
        _ = try await phone.database.deleteRecordZone(withID: phone.zoneID)
        try await done { laptop.fetch(completion: $0) }
        #expect(laptop.entries.isEmpty && laptop.goneZones == [phone.zoneID])
    }

    /// Reports upload progress per record, assets included, as programs do for a progress bar.
    @Test func uploadsReportTheirProgress() async throws {
        let database = try TestRelay().device(of: "alice").privateDatabase
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("trip-\(UUID().uuidString).jpg")
        try Data(repeating: 7, count: 100_000).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let record = CKRecord(recordType: "Photo")
        record["file"] = CKAsset(fileURL: file)
        let operation = CKModifyRecordsOperation(recordsToSave: [record])
        var progress: [Double] = []
        operation.perRecordProgressBlock = { _, share in progress.append(share) }
        operation.savePolicy = .allKeys
        try await done { completion in
            operation.modifyRecordsCompletionBlock = { saved, deleted, error in
                #expect(saved?.first === record && deleted?.isEmpty != false)
                completion(error)
            }
            database.add(operation)
        }
        #expect(progress == progress.sorted() && progress.last == 1)
        #expect(operation.database == database && record.changedKeys().isEmpty)
        let fetch = CKFetchRecordsOperation(recordIDs: [record.recordID, CKRecord.ID(recordName: "nowhere")])
        fetch.desiredKeys = ["file"]
        var outcomes: [CKRecord.ID: Bool] = [:]
        fetch.perRecordResultBlock = { id, result in outcomes[id] = (try? result.get()) != nil }
        var failure: CKError?
        await withCheckedContinuation { continuation in
            fetch.fetchRecordsCompletionBlock = { found, error in
                #expect(found?[record.recordID]?["file"] is CKAsset)
                failure = error as? CKError
                continuation.resume()
            }
            database.add(fetch)
        }
        #expect(outcomes == [record.recordID: true, CKRecord.ID(recordName: "nowhere"): false])
        #expect(failure?.code == .partialFailure)
        #expect((failure?.partialErrorsByItemID?.values.first as? CKError)?.code == .unknownItem)
    }
}
