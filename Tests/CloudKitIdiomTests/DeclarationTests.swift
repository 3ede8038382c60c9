import CloudKit
import Testing
import ZoneTesting

/// Declarations whose exact shape programs rely on: optional or not, open or not, printable or not.
@Suite struct DeclarationTests {
    /// Programs and test doubles override an operation's properties.
    final class WatchedOperation: CKModifyRecordsOperation, @unchecked Sendable {
        var reads = 0
        // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
        override var configuration: CKOperation.Configuration! {
            get { super.configuration }
            set { super.configuration = newValue }
        }
        override var database: CKDatabase? {
            get {
                reads += 1
                return super.database
            }
            set { super.database = newValue }
        }
        override var recordsToSave: [CKRecord]? {
            didSet { reads += 1 }
        }
    }

    @Test func operationPropertiesCanBeOverridden() {
        let operation = WatchedOperation()
        operation.recordsToSave = [CKRecord(recordType: "A")]
        #expect(operation.database == nil)
        #expect(operation.reads == 2)
    }

    @Test func engineValuesCanBePrinted() {
        let id = CKRecord.ID(recordName: "n", zoneID: CKRecordZone.ID(zoneName: "Z"))
        let options = CKSyncEngine.SendChangesOptions(scope: .recordIDs([id]))
        #expect(options.scope.description.contains("n"))
        #expect("\(options)".contains("n"))
        #expect(CKSyncEngine.FetchChangesOptions(scope: .zoneIDs([id.zoneID])).description.contains("Z"))
        #expect(CKSyncEngine.SyncReason.manual.description == "manual")
        #expect(CKSyncEngine.PendingRecordZoneChange.saveRecord(id).description.contains("n"))
        #expect(CKSyncEngine.PendingDatabaseChange.deleteZone(id.zoneID).description.contains("Z"))
        let record = CKRecord(recordType: "A", recordID: id)
        record["secret"] = "nobody's business"
        let batch = CKSyncEngine.RecordZoneChangeBatch(recordsToSave: [record], recordIDsToDelete: [])
        #expect(batch.description.contains("n") && !batch.description.contains("business"))
    }

    final class Listener: CKSyncEngineDelegate {
        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
            if case .willSendChanges(let event) = event { print(event.context.description, event) }
        }
        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? { nil }
    }

    @Test func aConfigurationHoldsItsDelegate() throws {
        let database = try TestRelay().device(of: "alice").privateDatabase
        let configuration = CKSyncEngine.Configuration(
            database: database,
            stateSerialization: nil,
            delegate: Listener()
        )
        // Not optional: CloudKit's delegate is never nil here.
        let delegate: any CKSyncEngineDelegate = configuration.delegate
        #expect(delegate is Listener)
        #expect(configuration.description.contains("automatic"))
    }

    @Test func querySubscriptionsHaveAnOptionalRecordType() {
        let subscription = CKQuerySubscription(
            recordType: "A",
            predicate: NSPredicate(value: true),
            subscriptionID: "s",
            options: .firesOnRecordCreation
        )
        if let type = subscription.recordType { #expect(type == "A") } else { Issue.record("no type") }
    }

    @Test func decodingAShareReturnsANonOptional() throws {
        let root = CKRecord(
            recordType: "A",
            recordID: CKRecord.ID(recordName: "r", zoneID: CKRecordZone.ID(zoneName: "Z"))
        )
        let share = CKShare(rootRecord: root)
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        share.encodeSystemFields(with: archiver)
        let reader = try NSKeyedUnarchiver(forReadingFrom: archiver.encodedData)
        reader.requiresSecureCoding = true
        let read: CKShare = CKShare(coder: reader)
        #expect(read.recordID == share.recordID)
        #expect(read.recordType == CKRecord.SystemType.share)

        // An archive without a share gives one that no relay accepts.
        let other = NSKeyedArchiver(requiringSecureCoding: true)
        other.encode("x" as NSString, forKey: "Other")
        let strange = try NSKeyedUnarchiver(forReadingFrom: other.encodedData)
        strange.decodingFailurePolicy = .setErrorAndReturn
        #expect(CKShare(coder: strange).recordID.zoneID.zoneName.isEmpty)
    }

    @Test func valuesAreReadForSeveralKeysAtOnce() {
        let record = CKRecord(recordType: "A")
        record["a"] = 1
        record["b"] = "two"
        let values = record.dictionaryWithValues(forKeys: record.allKeys() + ["c"])
        #expect(values["a"] as? Int == 1 && values["b"] as? String == "two" && values["c"] is NSNull)
    }

    /// CloudKit's records define no equality, so each equals only itself.
    ///
    /// Programs use this to tell two versions of a record apart.
    @Test func aRecordEqualsOnlyItself() {
        let id = CKRecord.ID(recordName: "n", zoneID: CKRecordZone.ID(zoneName: "Z"))
        let (one, same) = (CKRecord(recordType: "A", recordID: id), CKRecord(recordType: "A", recordID: id))
        #expect(one == one && [same, one].contains(one) && one.recordID == same.recordID)
        #expect(one != same && ![same].contains(one) && Set([one, same]).count == 2 && !one.isEqual("n"))
    }

    @Test func changesAreHashable() throws {
        let record = CKRecord(recordType: "A")
        let changes: Set<CKDatabase.RecordZoneChange.Modification> = []
        #expect(!changes.contains { $0.record == record })
        let permissions: CKContainer.Application.Permissions = [.userDiscoverability]
        let sameThing: CKContainer_Application_Permissions = permissions
        #expect(sameThing == CKContainer.ApplicationPermissions.userDiscoverability)
    }

    @Test func sortDescriptorsHaveTheirKey() {
        let descriptor = NSSortDescriptor(key: "name", ascending: true)
        #expect(descriptor.key == "name")
    }

    @Test func zonesHaveAnEncryptionScope() {
        let zone = CKRecordZone(zoneName: "Z")
        #expect(zone.encryptionScope == .perRecord)
        zone.encryptionScope = .perZone
        #expect(zone.encryptionScope == .perZone)
    }

    /// A relay stores no past notices and reports that in the form that older programs expect.
    @Test(.timeLimit(.minutes(15))) func pastNotificationsAreAnEmptyList() async throws {
        let database = try TestRelay().device(of: "alice").privateDatabase
        let fetched: (CKServerChangeToken?, Error?) = await withCheckedContinuation { done in
            let operation = CKFetchNotificationChangesOperation(previousServerChangeToken: nil)
            operation.notificationChangedBlock = { _ in Issue.record("a notice") }
            operation.fetchNotificationChangesCompletionBlock = { token, error in
                done.resume(returning: (token, error))
            }
            OperationQueue().addOperation(operation)
        }
        #expect(fetched.0 == nil && fetched.1 == nil)
        let payload: [AnyHashable: Any] = ["ck": ["nid": "n-1", "met": [:] as [String: Any]] as [String: Any]]
        let names = [CKNotification(fromRemoteNotificationDictionary: payload)?.notificationID].compactMap { $0 }
        let read: [CKNotification.ID]? = await withCheckedContinuation { done in
            let operation = CKMarkNotificationsReadOperation(notificationIDsToMarkRead: names)
            operation.markNotificationsReadCompletionBlock = { read, _ in done.resume(returning: read) }
            OperationQueue().addOperation(operation)
        }
        #expect(read == names)
        _ = database
    }
}
