public import Foundation

/// Fetches one zone's changes, in the words before `CKFetchRecordZoneChangesOperation`.
///
/// One answer is all; while `moreComing` says so, another operation with the new token goes on.
open class CKFetchRecordChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The zone.
    open var recordZoneID = CKRecordZone.ID.default
    /// How far the caller has come; `nil`: from the start.
    open var previousServerChangeToken: CKServerChangeToken?
    /// At most so many records; 0: as many as the relay gives.
    open var resultsLimit = 0
    /// The fields that are wanted; `nil`: all.
    open var desiredKeys: [CKRecord.FieldKey]?
    /// Whether there is more to fetch; told by the end of the operation.
    open private(set) var moreComing = false

    /// Told of each record that is new or changed.
    @Block open var recordChangedBlock: ((CKRecord) -> Void)?
    /// Told of each record that is gone.
    @Block open var recordWithIDWasDeletedBlock: ((CKRecord.ID) -> Void)?
    /// Told at the end how far the caller has come.
    @Block open var fetchRecordChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ clientTokenData: Data?, _ operationError: (any Error)?) -> Void)?

    /// An operation that fetches the default zone, which has no changes to give, until it is told otherwise.
    public override init() { super.init() }

    /// An operation that fetches what came in a zone after a token.
    public convenience init(recordZoneID: CKRecordZone.ID, previousServerChangeToken: CKServerChangeToken?) {
        self.init()
        self.recordZoneID = recordZoneID
        self.previousServerChangeToken = previousServerChangeToken
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            let page = try await resolvedDatabase.zoneChangesPage(
                in: recordZoneID,
                since: previousServerChangeToken,
                desiredKeys: desiredKeys,
                limit: resultsLimit > 0 ? resultsLimit : nil
            )
            page.records.forEach { recordChangedBlock?($0) }
            page.deletions.forEach { recordWithIDWasDeletedBlock?($0.recordID) }
            let errors = page.failures.map { (AnyHashable($0.0), $0.1 as any Error) }
            // Without a token: it would be past records that the program was not told of.
            guard errors.isEmpty else { throw CKError.partialFailure(Dictionary(errors) { $1 }) }
            moreComing = page.moreComing
            fetchRecordChangesCompletionBlock?(page.changeToken, nil, nil)
        } catch {
            fetchRecordChangesCompletionBlock?(nil, nil, error)
        }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _recordChangedBlock.letGo()
        _recordWithIDWasDeletedBlock.letGo()
        _fetchRecordChangesCompletionBlock.letGo()
    }
}

/// Sets the number on a program's badge, for devices that have one.
///
/// A relay keeps no badges: notices carry none of its own counting. So the operation only sees that the relay can be
/// reached as the current user, as a program that resets its badge at start expects.
open class CKModifyBadgeOperation: CKOperation, @unchecked Sendable {
    /// The number.
    open var badgeValue = 0
    /// Told at the end.
    @Block open var modifyBadgeCompletionBlock: ((_ operationError: (any Error)?) -> Void)?

    /// An operation that takes the badge away.
    public override init() { super.init() }

    /// An operation that sets the badge.
    public convenience init(badgeValue: Int) {
        self.init()
        self.badgeValue = badgeValue
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            _ = try await configuredContainer.userRecordID()
            modifyBadgeCompletionBlock?(nil)
        } catch {
            modifyBadgeCompletionBlock?(error)
        }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _modifyBadgeCompletionBlock.letGo()
    }
}
