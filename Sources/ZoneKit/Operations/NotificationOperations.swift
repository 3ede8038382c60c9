/// Fetches the notices of the past, in the words before change tokens.
///
/// A relay keeps no notices: they only say that there is something to fetch, and a change token finds that by itself. So
/// there is never any, and a program that relies on this finds what it missed by its next fetch.
open class CKFetchNotificationChangesOperation: CKOperation, @unchecked Sendable {
    /// How far the caller has come; `nil`: from the start.
    open var previousServerChangeToken: CKServerChangeToken?
    /// At most so many notices; 0: any number.
    open var resultsLimit = 0
    /// Whether there is more: never.
    open private(set) var moreComing = false

    /// Told of each notice: never.
    @Block open var notificationChangedBlock: ((CKNotification) -> Void)?
    /// Told at the end how far the caller has come: as far as before.
    @Block open var fetchNotificationChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ operationError: (any Error)?) -> Void)?

    /// An operation that looks from the start.
    public override init() { super.init() }

    /// An operation that looks for what came after a token.
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

/// Says that notices have been read, so that they are not given out again; here they never are.
open class CKMarkNotificationsReadOperation: CKOperation, @unchecked Sendable {
    /// Those that have been read.
    open var notificationIDs: [CKNotification.ID] = []
    /// Told at the end which of them are taken as read: all.
    @Block open var markNotificationsReadCompletionBlock:
        ((_ notificationIDsMarkedRead: [CKNotification.ID]?, _ operationError: (any Error)?) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that takes these as read.
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
