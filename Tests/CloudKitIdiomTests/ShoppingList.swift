import CloudKit
import Testing
import ZoneTesting

/// A family's shopping list: an engine syncs each device's copy, and the list is shared by a link.
private actor ShoppingList: CKSyncEngineDelegate {
    private(set) var items: [CKRecord.ID: String] = [:]
    private(set) var lostZones: [CKRecordZone.ID] = []
    private(set) var conflicts = 0
    private var systemFields: [CKRecord.ID: Data] = [:]
    /// The state that a program writes into a file.
    private(set) var savedState: Data?
    private var engine: CKSyncEngine?

    func start(_ database: CKDatabase) throws {
        let state = try savedState.map { try JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: $0) }
        var configuration = CKSyncEngine.Configuration(database: database, stateSerialization: state, delegate: self)
        configuration.automaticallySync = false
        engine = CKSyncEngine(configuration)
    }

    func put(_ text: String, _ id: CKRecord.ID) {
        items[id] = text
        engine?.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneID: id.zoneID))])
        engine?.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
    }

    func edit(_ text: String, _ id: CKRecord.ID) {
        items[id] = text
        engine?.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
    }

    func remove(_ id: CKRecord.ID) {
        items[id] = nil
        engine?.state.add(pendingRecordZoneChanges: [.deleteRecord(id)])
    }

    /// Runs outside of the actor, because the engine's events need the actor.
    nonisolated func synchronize() async throws {
        guard let engine = await engine else { return }
        try await engine.fetchChanges()
        do { try await engine.sendChanges() } catch let error as CKError where error.code == .partialFailure {
            // The event handler has added the conflicting changes to the queue again.
            try await engine.sendChanges()
        }
    }

    private func record(_ id: CKRecord.ID) -> CKRecord? {
        guard let text = items[id] else { return nil }
        var record = CKRecord(recordType: "Item", recordID: id)
        if let data = systemFields[id], let reader = try? NSKeyedUnarchiver(forReadingFrom: data) {
            reader.requiresSecureCoding = true
            if let kept = CKRecord(coder: reader) { record = kept }
        }
        record["text"] = text
        return record
    }

    private func keep(_ record: CKRecord) {
        let coder = NSKeyedArchiver(requiringSecureCoding: true)
        record.encodeSystemFields(with: coder)
        systemFields[record.recordID] = coder.encodedData
    }

    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
        switch event {
        case .stateUpdate(let update): savedState = try? JSONEncoder().encode(update.stateSerialization)
        case .fetchedRecordZoneChanges(let changes):
            for modification in changes.modifications where modification.record.recordType == "Item" {
                keep(modification.record)
                items[modification.record.recordID] = modification.record["text"]
            }
            for deletion in changes.deletions { items[deletion.recordID] = nil }
        case .fetchedDatabaseChanges(let changes):
            for deletion in changes.deletions {
                lostZones.append(deletion.zoneID)
                items = items.filter { $0.key.zoneID != deletion.zoneID }
            }
        case .sentRecordZoneChanges(let sent):
            sent.savedRecords.forEach(keep)
            for failure in sent.failedRecordSaves {
                guard let server = failure.error.serverRecord else { continue }
                conflicts += 1
                keep(server)
                syncEngine.state.add(pendingRecordZoneChanges: [.saveRecord(failure.record.recordID)])
            }
        default: break
        }
    }

    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch? {
        let scope = context.options.scope
        let changes = syncEngine.state.pendingRecordZoneChanges.filter { scope.contains($0) }
        return await CKSyncEngine.RecordZoneChangeBatch(pendingChanges: changes) { await self.record($0) }
    }
}

/// Sharing by operations.
private struct Invitations {
    let container: CKContainer

    private func run<Operation: CKOperation>(
        _ operation: Operation,
        _ finish: (Operation, @escaping (Result<Void, Error>) -> Void) -> Void
    ) async throws {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, Error>) in
            finish(operation) { done.resume(with: $0) }
            if let operation = operation as? CKDatabaseOperation {
                container.privateCloudDatabase.add(operation)
            } else {
                container.add(operation)
            }
        }
    }

    func share(_ zoneID: CKRecordZone.ID, with address: String) async throws -> URL {
        let share = CKShare(recordZoneID: zoneID)
        share[CKShare.SystemFieldKey.title] = "Shopping"
        share.publicPermission = .none
        let lookup = CKFetchShareParticipantsOperation(userIdentityLookupInfos: [
            CKUserIdentity.LookupInfo(emailAddress: address)
        ])
        lookup.perShareParticipantResultBlock = { _, result in
            guard let participant = try? result.get() else { return }
            participant.permission = .readWrite
            share.addParticipant(participant)
        }
        try await run(lookup) { $0.fetchShareParticipantsResultBlock = $1 }
        let save = CKModifyRecordsOperation(recordsToSave: [share])
        try await run(save) { $0.modifyRecordsResultBlock = $1 }
        return try #require(share.url)
    }

    func join(_ url: URL) async throws -> CKShare {
        var metadata: [CKShare.Metadata] = []
        let fetch = CKFetchShareMetadataOperation(shareURLs: [url])
        fetch.perShareMetadataResultBlock = { _, result in if let found = try? result.get() { metadata.append(found) } }
        try await run(fetch) { $0.fetchShareMetadataResultBlock = $1 }
        var joined: CKShare?
        let accept = CKAcceptSharesOperation(shareMetadatas: metadata)
        accept.perShareResultBlock = { _, result in joined = try? result.get() }
        try await run(accept) { $0.acceptSharesResultBlock = $1 }
        return try #require(joined)
    }
}

@Suite(.timeLimit(.minutes(15))) struct ShoppingListTests {
    @Test func familyMembersShareOneList() async throws {
        let relay = try TestRelay()
        let alice = relay.device(of: "alice@example.org", named: "phone").container
        let bob = relay.device(of: "bob@example.org").container
        _ = try await bob.userRecordID()
        let zoneID = CKRecordZone.ID(zoneName: "Shopping")
        let milk = CKRecord.ID(recordName: "milk", zoneID: zoneID)
        let (hers, his) = (ShoppingList(), ShoppingList())
        try await hers.start(alice.privateCloudDatabase)
        await hers.put("Milk", milk)
        await hers.put("Bread", CKRecord.ID(recordName: "bread", zoneID: zoneID))
        try await hers.synchronize()

        let url = try await Invitations(container: alice).share(zoneID, with: "bob@example.org")
        let share = try await Invitations(container: bob).join(url)
        #expect(share[CKShare.SystemFieldKey.title] as? String == "Shopping")
        #expect(share.currentUserParticipant?.permission == .readWrite && share.owner.role == .owner)
        try await his.start(bob.sharedCloudDatabase)
        try await his.synchronize()
        let theirs = CKRecord.ID(recordName: "milk", zoneID: share.recordID.zoneID)
        #expect(theirs.zoneID.ownerName != CKCurrentUserDefaultName)
        #expect(await his.items[theirs] == "Milk")
        #expect(await his.items.count == 2)

        // Both change the same item before they fetch each other's change. All devices converge.
        await his.edit("Oat milk", theirs)
        try await his.synchronize()
        await hers.edit("Two milk", milk)
        try await hers.synchronize()
        await his.remove(CKRecord.ID(recordName: "bread", zoneID: theirs.zoneID))
        try await his.synchronize()
        try await hers.synchronize()
        #expect(await hers.items.count == 1)
        #expect(await his.items == [theirs: hers.items[milk]])

        // A later launch continues where the last one ended.
        let state = try #require(await his.savedState)
        #expect(try JSONSerialization.jsonObject(with: state, options: .fragmentsAllowed) is [String: Any])
        try await his.start(bob.sharedCloudDatabase)
        await hers.put("Eggs", CKRecord.ID(recordName: "eggs", zoneID: zoneID))
        try await hers.synchronize()
        try await his.synchronize()
        #expect(await Set(his.items.values) == Set(hers.items.values))

        // Bob leaves, and his copy is deleted.
        _ = try await bob.sharedCloudDatabase.deleteRecord(withID: share.recordID)
        try await his.synchronize()
        #expect(await his.items.isEmpty)
        #expect(await his.lostZones == [theirs.zoneID])
        #expect(await hers.items.count == 2)
    }
}
