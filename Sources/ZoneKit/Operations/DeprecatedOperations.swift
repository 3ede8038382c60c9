public import Foundation

/// Fetches one zone's changes; the API that preceded `CKFetchRecordZoneChangesOperation`.
///
/// The operation ends after one response. While `moreComing` is `true`, continue with another operation and the new
/// token.
open class CKFetchRecordChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The zone to fetch.
    open var recordZoneID = CKRecordZone.ID.default
    /// The token of the previous fetch; `nil` to fetch from the beginning.
    open var previousServerChangeToken: CKServerChangeToken?
    /// The maximum number of records; 0 for the relay's maximum.
    open var resultsLimit = 0
    /// The fields to fetch; `nil` for all fields.
    open var desiredKeys: [CKRecord.FieldKey]?
    /// Whether there are more changes; valid when the operation has ended.
    open private(set) var moreComing = false

    /// Called for each record that was created or changed.
    @Block open var recordChangedBlock: ((CKRecord) -> Void)?
    /// Called for each record that was deleted.
    @Block open var recordWithIDWasDeletedBlock: ((CKRecord.ID) -> Void)?
    /// Called at the end with the new token.
    @Block open var fetchRecordChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ clientTokenData: Data?, _ operationError: (any Error)?) -> Void)?

    /// Creates an operation for the default zone, which has no change feed.
    ///
    /// Set another zone.
    public override init() { super.init() }

    /// Creates an operation that fetches a zone's changes after a token.
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
            // Without a token, because the token would skip records that were not reported to the app.
            guard errors.isEmpty else { throw CKError.partialFailure(Dictionary(errors) { $1 }) }
            moreComing = page.moreComing
            fetchRecordChangesCompletionBlock?(page.changeToken, nil, nil)
        } catch {
            fetchRecordChangesCompletionBlock?(nil, nil, error)
        }
    }
}

/// Sets the number on the app's badge.
///
/// The relay stores no badge numbers, and its notifications contain none. The operation only checks that the relay can
/// be reached as the current user, because apps reset their badge at launch and expect a result.
open class CKModifyBadgeOperation: CKOperation, @unchecked Sendable {
    /// The number.
    open var badgeValue = 0
    /// Called at the end.
    @Block open var modifyBadgeCompletionBlock: ((_ operationError: (any Error)?) -> Void)?

    /// Creates an operation that removes the badge.
    public override init() { super.init() }

    /// Creates an operation that sets the badge.
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
}

/// Fetches earlier notifications; the API that preceded change tokens.
///
/// The relay stores no notifications, because they only report that there are changes to fetch, and a change token
/// finds those. The operation therefore never returns any. An app that uses it gets the missed changes with its next
/// fetch.
open class CKFetchNotificationChangesOperation: CKOperation, @unchecked Sendable {
    /// The token of the previous fetch; `nil` to fetch from the beginning.
    open var previousServerChangeToken: CKServerChangeToken?
    /// The maximum number of notifications; 0 for no limit.
    open var resultsLimit = 0
    /// Whether there are more notifications: always `false`.
    open private(set) var moreComing = false

    /// Called for each notification: never.
    @Block open var notificationChangedBlock: ((CKNotification) -> Void)?
    /// Called at the end with the previous token.
    @Block open var fetchNotificationChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ operationError: (any Error)?) -> Void)?

    /// Creates an operation that fetches from the beginning.
    public override init() { super.init() }

    /// Creates an operation that fetches the notifications after a token.
    public convenience init(previousServerChangeToken: CKServerChangeToken?) {
        self.init()
        self.previousServerChangeToken = previousServerChangeToken
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            fetchNotificationChangesCompletionBlock?(previousServerChangeToken, nil)
        } catch {
            fetchNotificationChangesCompletionBlock?(nil, error)
        }
    }
}

/// Marks notifications as read, so that they are not fetched again.
///
/// Has no effect, because none are ever fetched.
open class CKMarkNotificationsReadOperation: CKOperation, @unchecked Sendable {
    /// The IDs of the notifications to mark.
    open var notificationIDs: [CKNotification.ID] = []
    /// Called at the end with the IDs of the marked notifications, which are all of them.
    @Block open var markNotificationsReadCompletionBlock:
        ((_ notificationIDsMarkedRead: [CKNotification.ID]?, _ operationError: (any Error)?) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that marks notifications as read.
    public convenience init(notificationIDsToMarkRead notificationIDs: [CKNotification.ID]) {
        self.init()
        self.notificationIDs = notificationIDs
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            markNotificationsReadCompletionBlock?(notificationIDs, nil)
        } catch {
            markNotificationsReadCompletionBlock?(nil, error)
        }
    }
}
