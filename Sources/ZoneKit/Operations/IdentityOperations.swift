/// Finds users by email address, phone number or record ID.
open class CKDiscoverUserIdentitiesOperation: CKOperation, @unchecked Sendable {
    /// The addresses or record IDs of the users.
    open var userIdentityLookupInfos: [CKUserIdentity.LookupInfo] = []

    /// Called for each user that was found.
    ///
    /// Not called for others.
    @Block open var userIdentityDiscoveredBlock: ((CKUserIdentity, CKUserIdentity.LookupInfo) -> Void)?
    /// Called at the end; the older form of `discoverUserIdentitiesResultBlock`.
    @Block open var discoverUserIdentitiesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    @Block open var discoverUserIdentitiesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that finds users.
    public convenience init(userIdentityLookupInfos: [CKUserIdentity.LookupInfo]) {
        self.init()
        self.userIdentityLookupInfos = userIdentityLookupInfos
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            let container = configuredContainer
            let found = try await container.identities(userIdentityLookupInfos)
            let name = try container.session.connection().caller.recordName
            for (info, identity) in zip(userIdentityLookupInfos, found) {
                guard let identity else { continue }
                userIdentityDiscoveredBlock?(CKUserIdentity(identity, callerName: name), info)
            }
            discoverUserIdentitiesCompletionBlock?(nil)
            discoverUserIdentitiesResultBlock?(.success(()))
        } catch {
            discoverUserIdentitiesCompletionBlock?(error)
            discoverUserIdentitiesResultBlock?(.failure(error))
        }
    }
}

/// Finds all users that are discoverable by the current user.
open class CKDiscoverAllUserIdentitiesOperation: CKOperation, @unchecked Sendable {
    /// Called for each user that was found.
    @Block open var userIdentityDiscoveredBlock: ((CKUserIdentity) -> Void)?
    /// Called at the end; the older form of `discoverAllUserIdentitiesResultBlock`.
    @Block open var discoverAllUserIdentitiesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    @Block open var discoverAllUserIdentitiesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an operation that finds all users.
    public override init() { super.init() }

    package override func perform() async {
        do {
            try requireNotCancelled()
            try await configuredContainer.allUserIdentitiesFromContacts().forEach { userIdentityDiscoveredBlock?($0) }
            discoverAllUserIdentitiesCompletionBlock?(nil)
            discoverAllUserIdentitiesResultBlock?(.success(()))
        } catch {
            discoverAllUserIdentitiesCompletionBlock?(error)
            discoverAllUserIdentitiesResultBlock?(.failure(error))
        }
    }
}

/// Returns a web auth token with which a web page can act as the current user.
open class CKFetchWebAuthTokenOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The API token of the web page.
    ///
    /// The returned token is the app's own token, which is valid for the whole container.
    open var apiToken: String?

    /// Called at the end; the older form of `fetchWebAuthTokenResultBlock`.
    @Block open var fetchWebAuthTokenCompletionBlock:
        ((_ webAuthToken: String?, _ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    @Block open var fetchWebAuthTokenResultBlock: ((_ operationResult: Result<String, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation for a web page.
    public convenience init(apiToken APIToken: String) {
        self.init()
        apiToken = APIToken
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            let connection = try resolvedDatabase.session.connection()
            // Every response contains a renewed token.
            _ = try await connection.fetchCallerName()
            guard let token = connection.credentials.webAuthToken else { throw CKError(.notAuthenticated) }
            fetchWebAuthTokenCompletionBlock?(token, nil)
            fetchWebAuthTokenResultBlock?(.success(token))
        } catch {
            fetchWebAuthTokenCompletionBlock?(nil, error)
            fetchWebAuthTokenResultBlock?(.failure(error))
        }
    }
}
