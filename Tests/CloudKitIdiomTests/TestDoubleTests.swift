import CloudKit
import Testing
import ZoneTesting

// Abstractions that programs put in front of CloudKit to test without it: protocols that its classes satisfy unchanged,
// and subclasses with fixed answers. Each requirement must match the exact declaration.

private protocol RecordStore: AnyObject, Sendable {
    var databaseScope: CKDatabase.Scope { get }
    func add(_ operation: CKDatabaseOperation)
    func save(_ record: CKRecord) async throws -> CKRecord
    func record(for recordID: CKRecord.ID) async throws -> CKRecord
    func deleteRecord(withID recordID: CKRecord.ID) async throws -> CKRecord.ID
    func records(
        matching query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID?,
        desiredKeys: [CKRecord.FieldKey]?,
        resultsLimit: Int
    ) async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    )
    func records(
        continuingMatchFrom queryCursor: CKQueryOperation.Cursor,
        desiredKeys: [CKRecord.FieldKey]?,
        resultsLimit: Int
    ) async throws -> (
        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)], queryCursor: CKQueryOperation.Cursor?
    )
    func records(
        for ids: [CKRecord.ID],
        desiredKeys: [CKRecord.FieldKey]?
    ) async throws -> [CKRecord.ID: Result<CKRecord, any Error>]
    func modifyRecords(
        saving recordsToSave: [CKRecord],
        deleting recordIDsToDelete: [CKRecord.ID],
        savePolicy: CKModifyRecordsOperation.RecordSavePolicy,
        atomically: Bool
    ) async throws -> (
        saveResults: [CKRecord.ID: Result<CKRecord, any Error>], deleteResults: [CKRecord.ID: Result<Void, any Error>]
    )
    func databaseChanges(
        since previousServerChangeToken: CKServerChangeToken?,
        resultsLimit: Int?
    ) async throws -> (
        modifications: [CKDatabase.DatabaseChange.Modification], deletions: [CKDatabase.DatabaseChange.Deletion],
        changeToken: CKServerChangeToken, moreComing: Bool
    )
    func recordZoneChanges(
        inZoneWith zoneID: CKRecordZone.ID,
        since previousServerChangeToken: CKServerChangeToken?,
        desiredKeys: [CKRecord.FieldKey]?,
        resultsLimit: Int?
    ) async throws -> (
        modificationResultsByID: [CKRecord.ID: Result<CKDatabase.RecordZoneChange.Modification, any Error>],
        deletions: [CKDatabase.RecordZoneChange.Deletion], changeToken: CKServerChangeToken, moreComing: Bool
    )
    func allRecordZones() async throws -> [CKRecordZone]
    func save(_ zone: CKRecordZone) async throws -> CKRecordZone
    func modifyRecordZones(
        saving recordZonesToSave: [CKRecordZone],
        deleting recordZoneIDsToDelete: [CKRecordZone.ID]
    ) async throws -> (
        saveResults: [CKRecordZone.ID: Result<CKRecordZone, any Error>],
        deleteResults: [CKRecordZone.ID: Result<Void, any Error>]
    )
    func save(_ subscription: CKSubscription) async throws -> CKSubscription
    func deleteSubscription(withID subscriptionID: CKSubscription.ID) async throws -> CKSubscription.ID
}

private protocol OlderRecordStore {
    func save(_ record: CKRecord, completionHandler: @escaping @Sendable (CKRecord?, (any Error)?) -> Void)
    func fetch(
        withRecordID recordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKRecord?, (any Error)?) -> Void
    )
    func delete(
        withRecordID recordID: CKRecord.ID,
        completionHandler: @escaping @Sendable (CKRecord.ID?, (any Error)?) -> Void
    )
    func perform(
        _ query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID?,
        completionHandler: @escaping @Sendable ([CKRecord]?, (any Error)?) -> Void
    )
    func fetchAllRecordZones(completionHandler: @escaping @Sendable ([CKRecordZone]?, (any Error)?) -> Void)
    func fetch(
        withQuery query: CKQuery,
        inZoneWith zoneID: CKRecordZone.ID?,
        desiredKeys: [CKRecord.FieldKey]?,
        resultsLimit: Int,
        completionHandler:
            @escaping @Sendable (
                Result<
                    (
                        matchResults: [(CKRecord.ID, Result<CKRecord, any Error>)],
                        queryCursor: CKQueryOperation.Cursor?
                    ), any Error
                >
            ) -> Void
    )
}

private protocol Cloud {
    associatedtype Store: RecordStore
    var privateCloudDatabase: Store { get }
    var containerIdentifier: String? { get }
    func database(with databaseScope: CKDatabase.Scope) -> Store
    func accountStatus() async throws -> CKAccountStatus
    func accountStatus(completionHandler: @escaping @Sendable (CKAccountStatus, (any Error)?) -> Void)
    func userRecordID() async throws -> CKRecord.ID
    func fetchUserRecordID(completionHandler: @escaping @Sendable (CKRecord.ID?, (any Error)?) -> Void)
    func shareMetadata(for url: URL) async throws -> CKShare.Metadata
    func accept(_ metadata: CKShare.Metadata) async throws -> CKShare
    func add(_ operation: CKOperation)
}

private protocol Saving: CKDatabaseOperation {
    var recordsToSave: [CKRecord]? { get set }
    var recordIDsToDelete: [CKRecord.ID]? { get set }
    var savePolicy: CKModifyRecordsOperation.RecordSavePolicy { get set }
    var isAtomic: Bool { get set }
}

private protocol Engine: AnyObject {
    associatedtype PendingState: EngineState
    var state: PendingState { get }
    var database: CKDatabase { get }
    func fetchChanges(_ options: CKSyncEngine.FetchChangesOptions) async throws
    func sendChanges(_ options: CKSyncEngine.SendChangesOptions) async throws
    func cancelOperations() async
}

private protocol EngineState: AnyObject {
    var pendingRecordZoneChanges: [CKSyncEngine.PendingRecordZoneChange] { get }
    var pendingDatabaseChanges: [CKSyncEngine.PendingDatabaseChange] { get }
    var hasPendingUntrackedChanges: Bool { get set }
    func add(pendingRecordZoneChanges: [CKSyncEngine.PendingRecordZoneChange])
    func remove(pendingRecordZoneChanges: [CKSyncEngine.PendingRecordZoneChange])
    func add(pendingDatabaseChanges: [CKSyncEngine.PendingDatabaseChange])
    func remove(pendingDatabaseChanges: [CKSyncEngine.PendingDatabaseChange])
}

extension CKDatabase: RecordStore, OlderRecordStore {}
extension CKContainer: Cloud {}
extension CKModifyRecordsOperation: Saving {}
extension CKSyncEngine: Engine {}
extension CKSyncEngine.State: EngineState {}

// Conformances that programs add to CloudKit's types.
extension CKDatabase.Scope: CustomStringConvertible {
    /// A description for logs.
    public var description: String {
        switch self {
        case .public: "public"
        case .private: "private"
        case .shared: "shared"
        @unknown default: "new"
        }
    }
}
extension CKAccountStatus: CustomStringConvertible {
    /// A description for logs.
    public var description: String { self == .available ? "available" : "status \(rawValue)" }
}
extension CKRecord.ID: Comparable {
    /// Orders by name.
    public static func < (a: CKRecordID, b: CKRecordID) -> Bool { a.recordName < b.recordName }
}
extension CKRecord: Identifiable {
    /// The identity in lists.
    public var id: CKRecord.ID { recordID }
}
extension CKShare.Participant: Identifiable {
    /// The identity in lists.
    public var id: String { participantID }
}

/// A record with the values of a server.
private final class StoredRecord: CKRecord, @unchecked Sendable {
    override var recordType: String { "Stored" }
    override var recordID: CKRecord.ID { CKRecord.ID(recordName: "stored") }
    override var creationDate: Date? { Date(timeIntervalSince1970: 1) }
    override var modificationDate: Date? { Date(timeIntervalSince1970: 2) }
    override var recordChangeTag: String? { "tag" }
    override var creatorUserRecordID: CKRecord.ID? { CKRecord.ID(recordName: "me") }
    override var lastModifiedUserRecordID: CKRecord.ID? { CKRecord.ID(recordName: "you") }
}

@Suite(.timeLimit(.minutes(15))) struct TestDoubleTests {
    private func roundTrip(_ store: some RecordStore) async throws -> [String] {
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "n"))
        record["text"] = "hello"
        _ = try await store.save(record)
        let query = CKQuery(recordType: "Note", predicate: NSPredicate(value: true))
        let page = try await store.records(matching: query, inZoneWith: nil, desiredKeys: nil, resultsLimit: 5)
        _ = try await store.deleteRecord(withID: record.recordID)
        return try page.matchResults.compactMap { try $0.1.get()["text"] as? String }
    }

    @Test func databasesSatisfyAProgramsProtocol() async throws {
        let container = try TestRelay().device(of: "alice").container
        func scope(of cloud: some Cloud) -> String { "\(cloud.database(with: .private).databaseScope)" }
        #expect(scope(of: container) == "private")
        #expect(try await roundTrip(container.privateCloudDatabase) == ["hello"])
        #expect(try await "\(container.accountStatus())" == "available")
        let older: any OlderRecordStore = container.privateCloudDatabase
        let names: [String]? = await withCheckedContinuation { done in
            older.fetchAllRecordZones { zones, _ in done.resume(returning: zones?.map(\.zoneID.zoneName)) }
        }
        #expect(names == [CKRecordZone.ID.defaultZoneName])
        let saving: any Saving = CKModifyRecordsOperation(recordsToSave: nil, recordIDsToDelete: nil)
        #expect(saving.isAtomic && saving.savePolicy == .ifServerRecordUnchanged)
    }

    @Test func recordsCanBeSubclassed() {
        let record = StoredRecord(recordType: "Any", recordID: CKRecord.ID(recordName: "any"))
        record["a"] = 1
        #expect(record.recordType == "Stored" && record.recordID.recordName == "stored" && record.id == record.recordID)
        #expect(record.creationDate.map { $0 < record.modificationDate ?? $0 } == true)
        #expect([CKRecord.ID(recordName: "b"), CKRecord.ID(recordName: "a")].sorted().map(\.recordName) == ["a", "b"])
    }
}
