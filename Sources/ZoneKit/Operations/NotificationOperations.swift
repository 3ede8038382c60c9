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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _notificationChangedBlock.letGo()
        _fetchNotificationChangesCompletionBlock.letGo()
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _markNotificationsReadCompletionBlock.letGo()
    }
}
