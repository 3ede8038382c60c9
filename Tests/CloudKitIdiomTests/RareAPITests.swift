import CloudKit
import Testing
import ZoneTesting

/// Less common uses of Apple's framework, with a relay in this process.
@Suite(.timeLimit(.minutes(15))) struct RareAPITests {
    private let relay: TestRelay
    private let database: CKDatabase
    private let zone = CKRecordZone(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        database = relay.device(of: "alice").privateDatabase
        _ = try await database.save(zone)
    }

    private func note(_ name: String, _ count: Int = 0) -> CKRecord {
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zone.zoneID))
        record["title"] = name
        record["count"] = count
        return record
    }

    /// Older programs read item errors from the dictionary, with various casts.
    @Test func partialErrorsCanBeCastToEveryForm() async throws {
        let saved = try await database.save(note("a"))
        let stale = note("a")
        let (good, id) = (note("b"), saved.recordID)
        let error: Error? = await withCheckedContinuation { done in
            let operation = CKModifyRecordsOperation(recordsToSave: [stale, good], recordIDsToDelete: nil)
            operation.isAtomic = false
            operation.modifyRecordsCompletionBlock = { _, _, error in done.resume(returning: error) }
            database.add(operation)
        }
        let failure = try #require(error as NSError?)
        #expect(failure.domain == CKErrorDomain && failure.code == CKError.Code.partialFailure.rawValue)
        let items = failure.userInfo[CKPartialErrorsByItemIDKey]
        #expect((items as? [CKRecord.ID: NSError])?[id]?.code == CKError.Code.serverRecordChanged.rawValue)
        #expect((items as? [CKRecord.ID: CKError])?[id]?.code == .serverRecordChanged)
        #expect((items as? [CKRecord.ID: Error])?[id] is CKError)
        #expect((items as? [AnyHashable: NSError])?.count == 1)
        #expect((items as? NSDictionary)?.count == 1)
        let one = try #require((items as? NSDictionary)?[id] as? NSError)
        #expect((one.userInfo[CKRecordChangedErrorServerRecordKey] as? CKRecord)?.recordID == id)
        #expect((error as? CKError)?.partialErrorsByItemID?[id] is CKError)
        // An error that was passed on as `NSError` is still the same error.
        #expect((one as Error as? CKError)?.serverRecord?.recordChangeTag == saved.recordChangeTag)
        #expect((NSError(domain: "somewhere else", code: 14) as Error as? CKError) == nil)
        do { throw one } catch let error as CKError where error.code == .serverRecordChanged {
            #expect(error.clientRecord?.recordID == id)
        } catch {
            Issue.record("not caught")
        }
        do { throw CKError(.zoneBusy) } catch let error as NSError { #expect(error.code == 23) }
    }

    @Test func zoneChangesAreReportedByEveryBlock() async throws {
        let records = (0..<25).map { note("n\($0)", $0) }
        _ = try await database.modifyRecords(saving: records, deleting: [])
        _ = try await database.deleteRecord(withID: records[0].recordID)
        final class Seen: @unchecked Sendable {
            var records: [CKRecord] = [], deleted: [CKRecord.ID] = [], tokens = 0
            var zoneEnd: (CKServerChangeToken, Bool)?
        }
        let seen = Seen()
        func fetch(_ token: CKServerChangeToken?, all: Bool = true) async -> Result<Void, Error> {
            let options = CKFetchRecordZoneChangesOperation.ZoneConfiguration()
            options.previousServerChangeToken = token
            options.resultsLimit = 10
            options.desiredKeys = ["count"]
            let operation = CKFetchRecordZoneChangesOperation(
                recordZoneIDs: [zone.zoneID],
                configurationsByRecordZoneID: [zone.zoneID: options]
            )
            operation.fetchAllChanges = all
            operation.recordWasChangedBlock = { _, result in
                if let record = try? result.get() { seen.records.append(record) }
            }
            operation.recordWithIDWasDeletedBlock = { id, _ in seen.deleted.append(id) }
            operation.recordZoneChangeTokensUpdatedBlock = { _, token, _ in if token != nil { seen.tokens += 1 } }
            operation.recordZoneFetchResultBlock = { _, result in
                if let end = try? result.get() { seen.zoneEnd = (end.serverChangeToken, end.moreComing) }
            }
            return await withCheckedContinuation { done in
                operation.fetchRecordZoneChangesResultBlock = { done.resume(returning: $0) }
                database.add(operation)
            }
        }
        try await fetch(nil).get()
        #expect(seen.records.count == 24 && seen.deleted.isEmpty && seen.tokens >= 1)
        #expect(seen.records.allSatisfy { $0["title"] == nil && $0["count"] as? Int != nil })
        let end = try #require(seen.zoneEnd)
        #expect(!end.1)
        _ = try await database.deleteRecord(withID: records[1].recordID)
        seen.records = []
        try await fetch(end.0).get()
        #expect(seen.records.isEmpty && seen.deleted == [records[1].recordID])
        // One page at a time, if the program asks for it.
        seen.records = []
        try await fetch(nil, all: false).get()
        #expect(seen.records.count <= 10 && seen.zoneEnd?.1 == true)
    }

    @Test func groupsAndSettingsApplyToOperations() async throws {
        let group = CKOperationGroup()
        group.name = "first sync"
        group.quantity = 2
        group.expectedSendSize = .kilobytes
        group.defaultConfiguration.qualityOfService = .utility
        let data = try NSKeyedArchiver.archivedData(withRootObject: group, requiringSecureCoding: true)
        let read = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKOperationGroup.self, from: data))
        #expect(read.name == group.name && read.operationGroupID == group.operationGroupID && read.quantity == 2)
        let saved: [CKRecord.ID: Bool] = await withCheckedContinuation { done in
            let operation = CKModifyRecordsOperation(recordsToSave: [note("g")], recordIDsToDelete: [])
            operation.group = group
            operation.configuration.timeoutIntervalForRequest = 30
            var outcome: [CKRecord.ID: Bool] = [:]
            operation.perRecordSaveBlock = { id, result in outcome[id] = (try? result.get()) != nil }
            operation.modifyRecordsResultBlock = { _ in done.resume(returning: outcome) }
            database.add(operation)
        }
        #expect(saved == [note("g").recordID: true])
    }

    @Test func queriesPageWithDesiredKeys() async throws {
        _ = try await database.modifyRecords(saving: (0..<30).map { note("q\($0)", $0) }, deleting: [])
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(format: "count >= %d AND count < %d", 5, 25))
        query.sortDescriptors = [NSSortDescriptor(key: "count", ascending: true)]
        // The query is restored by a later launch of the program.
        let data = try NSKeyedArchiver.archivedData(withRootObject: query, requiringSecureCoding: true)
        let kept = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQuery.self, from: data))
        #expect(kept.recordType == "Note" && kept.sortDescriptors?.first?.key == "count")
        for query in [query, kept, try #require(kept.copy() as? CKQuery)] {
            var counts: [Int] = []
            var page = try await database.records(
                matching: query,
                inZoneWith: zone.zoneID,
                desiredKeys: ["count"],
                resultsLimit: 8
            )
            while true {
                for (_, result) in page.matchResults {
                    let record = try result.get()
                    #expect(record["title"] == nil)
                    counts.append(record["count"] as? Int ?? -1)
                }
                guard let cursor = page.queryCursor else { break }
                page = try await database.records(continuingMatchFrom: cursor, desiredKeys: ["count"], resultsLimit: 8)
            }
            #expect(counts == Array(5..<25))
        }
    }

    @Test func unsupportedQueriesStayUnsupportedInAnArchive() async throws {
        for (predicate, isEmpty) in [
            (NSPredicate(format: "a = 1 OR b = 2"), false), (NSPredicate(value: false), true),
        ] {
            let query = CKQuery(recordType: "Note", predicate: predicate)
            let data = try NSKeyedArchiver.archivedData(withRootObject: query, requiringSecureCoding: true)
            let kept = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKQuery.self, from: data))
            do {
                let found = try await database.records(matching: kept).matchResults
                #expect(isEmpty && found.isEmpty)
            } catch let error as CKError {
                #expect(!isEmpty && error.code == .invalidArguments)
            }
        }
    }

    @Test func encryptedValuesHoldEveryType() async throws {
        let record = note("secret")
        let (date, place) = (Date(timeIntervalSinceReferenceDate: 12.5), CLLocation(latitude: 1, longitude: 2))
        let values = record.encryptedValues
        values["text"] = "s"
        values["data"] = Data([1, 2])
        values["number"] = 3
        values["double"] = 0.25
        values["date"] = date
        values["place"] = place
        values["texts"] = ["a", "b"]
        values["dates"] = [date]
        values["numbers"] = [1, 2, 3]
        #expect(Set(values.changedKeys()).count == 9)
        let saved = try await database.save(record)
        #expect(saved.encryptedValues.changedKeys().isEmpty)
        let read = try await database.record(for: record.recordID)
        #expect(read.encryptedValues["text"] == "s" && read.encryptedValues["data"] == Data([1, 2]))
        #expect(read.encryptedValues["number"] == 3 && read.encryptedValues["double"] == 0.25)
        #expect(read.encryptedValues["date"] == date && read.encryptedValues["dates"] == [date])
        #expect(read.encryptedValues["texts"] == ["a", "b"] && read.encryptedValues["numbers"] == [1, 2, 3])
        let there = read.encryptedValues["place"] as? CLLocation
        #expect(there?.coordinate.latitude == 1 && there?.coordinate.longitude == 2)
        #expect(read.encryptedValues.allKeys().count == 9 && Set(read.allKeys()).isSuperset(of: ["title"]))
        read.encryptedValues["text"] = nil
        let cleared = try await database.save(read)
        #expect(cleared.encryptedValues["text"] == nil && cleared.encryptedValues["data"] != nil)
    }

    @Test func assetsAreReadOnDemandEvenAfterTheLocalFileIsDeleted() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("asset-\(UUID().uuidString)")
        try Data("picture".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let record = note("picture")
        record["file"] = CKAsset(fileURL: file)
        record["files"] = [CKAsset(fileURL: file), CKAsset(fileURL: file)]
        _ = try await database.save(record)
        // A program may remove its file after the save.
        try FileManager.default.removeItem(at: file)
        let read = try await database.record(for: record.recordID)
        let place = try #require((read["file"] as? CKAsset)?.fileURL)
        #expect(try Data(contentsOf: place) == Data("picture".utf8))
        #expect(
            (read["files"] as? [CKAsset])?.compactMap { $0.fileURL.flatMap { try? Data(contentsOf: $0) } }.count == 2
        )
        let bare = try await database.records(for: [record.recordID], desiredKeys: ["title"])
        #expect(try bare[record.recordID]?.get()["file"] == nil)
        read["file"] = nil
        #expect(try await database.save(read)["file"] == nil)
    }

    @Test func zoneAndDatabaseNotificationsAreParsed() throws {
        let zonePush: [AnyHashable: Any] = [
            "aps": ["content-available": 1],
            "ck": [
                "ce": 2, "cid": "iCloud.x", "nid": "n", "ckuserid": "u",
                "fet": ["dbs": 2, "sid": "s", "zid": "Notes", "zoid": "_owner"],
            ] as [String: Any],
        ]
        let zone = try #require(CKNotification(fromRemoteNotificationDictionary: zonePush) as? CKRecordZoneNotification)
        #expect(zone.notificationType == .recordZone && zone.recordZoneID?.zoneName == "Notes")
        #expect(zone.databaseScope == .private && zone.subscriptionID == "s" && zone.containerIdentifier == "iCloud.x")
        let databasePush: [AnyHashable: Any] = [
            "ck": ["cid": "iCloud.x", "nid": "n", "met": ["dbs": 3, "sid": "shared"]] as [String: Any]
        ]
        let notice = try #require(
            CKNotification(fromRemoteNotificationDictionary: databasePush) as? CKDatabaseNotification
        )
        #expect(notice.notificationType == .database && notice.databaseScope == .shared && !notice.isPruned)
    }

    @Test func zoneSubscriptionsAreStored() async throws {
        let subscription = CKRecordZoneSubscription(zoneID: zone.zoneID, subscriptionID: "notes")
        subscription.recordType = "Note"
        let info = CKSubscription.NotificationInfo()
        info.shouldSendContentAvailable = true
        subscription.notificationInfo = info
        let saved = try await database.save(subscription)
        #expect(saved.subscriptionType == .recordZone && (saved as? CKRecordZoneSubscription)?.zoneID == zone.zoneID)
        let kept = try await database.subscription(for: "notes") as? CKRecordZoneSubscription
        #expect(kept?.zoneID.zoneName == "Notes" && kept?.notificationInfo?.shouldSendContentAvailable == true)
        let results = try await database.modifySubscriptions(saving: [], deleting: ["notes"])
        #expect(try results.deleteResults["notes"]?.get() != nil)
        do {
            _ = try await database.subscription(for: "notes")
            Issue.record("still there")
        } catch CKError.unknownItem {}
    }

    @Test func anEnginesPendingChangesCanBeEdited() throws {
        final class Nobody: CKSyncEngineDelegate {
            func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {}
            func nextRecordZoneChangeBatch(
                _ context: CKSyncEngine.SendChangesContext,
                syncEngine: CKSyncEngine
            ) async -> CKSyncEngine.RecordZoneChangeBatch? { nil }
        }
        var configuration = CKSyncEngine.Configuration(
            database: database,
            stateSerialization: nil,
            delegate: Nobody()
        )
        configuration.automaticallySync = false
        let state = CKSyncEngine(configuration).state
        let (a, b) = (note("a").recordID, note("b").recordID)
        state.add(pendingRecordZoneChanges: [.saveRecord(a), .saveRecord(b), .deleteRecord(a)])
        #expect(state.pendingRecordZoneChanges == [.saveRecord(b), .deleteRecord(a)])
        state.add(pendingRecordZoneChanges: [.saveRecord(b)])
        #expect(state.pendingRecordZoneChanges.count == 2)
        state.remove(pendingRecordZoneChanges: [.saveRecord(a), .saveRecord(b)])
        #expect(state.pendingRecordZoneChanges == [.deleteRecord(a)])
        state.add(pendingDatabaseChanges: [.saveZone(zone), .deleteZone(zone.zoneID)])
        #expect(state.pendingDatabaseChanges == [.deleteZone(zone.zoneID)])
        #expect(!state.hasPendingUntrackedChanges)
        state.hasPendingUntrackedChanges = true
        #expect(state.hasPendingUntrackedChanges && state.zoneIDsWithUnfetchedServerChanges.isEmpty)
    }

    @Test func participantsHaveRolesAndPermissions() async throws {
        let owner = relay.device(of: "alice@example.org").container
        let guest = relay.device(of: "bob@example.org").container
        _ = try await guest.userRecordID()
        _ = try await owner.privateCloudDatabase.save(zone)
        let root = note("root")
        let share = CKShare(rootRecord: root)
        share[CKShare.SystemFieldKey.title] = "Trip"
        let people = try await owner.shareParticipants(
            for: CKUserIdentity.LookupInfo.lookupInfos(withEmails: ["bob@example.org"])
        )
        let bob = try #require(try people.values.first?.get())
        #expect(people.keys.first?.emailAddress == "bob@example.org")
        bob.permission = .readOnly
        bob.role = .privateUser
        share.addParticipant(bob)
        _ = try await owner.privateCloudDatabase.modifyRecords(saving: [root, share], deleting: [])
        #expect(share.owner.role == .owner && share.owner.acceptanceStatus == .accepted)
        #expect(share.participants.count == 2 && share.currentUserParticipant?.role == .owner)
        let metadata = try await guest.shareMetadata(for: try #require(share.url))
        #expect(metadata.participantStatus == .pending && metadata.participantPermission == .readOnly)
        #expect(metadata.hierarchicalRootRecordID == root.recordID || metadata.rootRecordID.recordName == "root")
        let joined = try await guest.accept(metadata)
        #expect(joined.currentUserParticipant?.acceptanceStatus == .accepted)
        #expect(joined[CKShare.SystemFieldKey.title] as? String == "Trip")
        for shared in try await guest.sharedCloudDatabase.allRecordZones() {
            #expect(shared.zoneID.zoneName == "Notes" && shared.zoneID.ownerName != CKCurrentUserDefaultName)
        }
    }

    @Test func accountStatusAndUserIDAreAvailable() async throws {
        let container = relay.device(of: "carol").container
        #expect(try await container.accountStatus() == .available)
        let status: CKAccountStatus = await withCheckedContinuation { done in
            container.accountStatus { status, _ in done.resume(returning: status) }
        }
        #expect(status == .available)
        let (me, same) = (try await container.userRecordID(), try await container.userRecordID())
        #expect(me == same && me.zoneID == .default && me.recordName.hasPrefix("_"))
        #expect(Notification.Name.CKAccountChanged.rawValue == "CKAccountChangedNotification")
    }

    @Test func everySecureCodingTypeSurvivesAnArchive() throws {
        let id = note("a").recordID
        let location = CLLocation(latitude: 3, longitude: 4)
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(format: "near = %@", "x"))
        let objects: [NSObject & NSSecureCoding] = [
            note("a"), id, zone, zone.zoneID, CKRecord.Reference(recordID: id, action: .deleteSelf),
            CKUserIdentity.LookupInfo(emailAddress: "a@example.org"), CKDatabaseSubscription(subscriptionID: "d"),
            CKRecordZoneSubscription(zoneID: zone.zoneID, subscriptionID: "z"), CKAllowedSharingOptions.standard,
            CKQuerySubscription(recordType: "Note", predicate: query.predicate, subscriptionID: "q", options: []),
            CKSubscription.NotificationInfo(), CKOperationGroup(), location, query, CKShare(rootRecord: note("b")),
        ]
        for object in objects {
            let data = try NSKeyedArchiver.archivedData(withRootObject: object, requiringSecureCoding: true)
            let read = try NSKeyedUnarchiver.unarchivedObject(ofClasses: [type(of: object)], from: data)
            #expect(read.map { type(of: $0) == type(of: object) } == true, "\(type(of: object))")
            #expect(!object.description.isEmpty)
        }
    }
}
