/// Finds users by their addresses.
open class CKDiscoverUserIdentitiesOperation: CKOperation, @unchecked Sendable {
    /// By what they are looked for.
    open var userIdentityLookupInfos: [CKUserIdentity.LookupInfo] = []

    /// Told of each who was found; of others nothing is said.
    @Block open var userIdentityDiscoveredBlock: ((CKUserIdentity, CKUserIdentity.LookupInfo) -> Void)?
    /// Told at the end; the older form of `discoverUserIdentitiesResultBlock`.
    @Block open var discoverUserIdentitiesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Told at the end.
    @Block open var discoverUserIdentitiesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that finds these.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _userIdentityDiscoveredBlock.letGo()
        _discoverUserIdentitiesCompletionBlock.letGo()
        _discoverUserIdentitiesResultBlock.letGo()
    }
}

/// Finds all users there are to be found.
open class CKDiscoverAllUserIdentitiesOperation: CKOperation, @unchecked Sendable {
    /// Told of each who was found.
    @Block open var userIdentityDiscoveredBlock: ((CKUserIdentity) -> Void)?
    /// Told at the end; the older form of `discoverAllUserIdentitiesResultBlock`.
    @Block open var discoverAllUserIdentitiesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Told at the end.
    @Block open var discoverAllUserIdentitiesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation that finds everybody.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _userIdentityDiscoveredBlock.letGo()
        _discoverAllUserIdentitiesCompletionBlock.letGo()
        _discoverAllUserIdentitiesResultBlock.letGo()
    }
}

/// Hands out a web auth token, for a web page to speak as the current user.
open class CKFetchWebAuthTokenOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The web page's API token.
    ///
    /// The token that is handed out is the program's own, which is good for the whole container.
    open var apiToken: String?

    /// Told at the end; the older form of `fetchWebAuthTokenResultBlock`.
    @Block open var fetchWebAuthTokenCompletionBlock:
        ((_ webAuthToken: String?, _ operationError: (any Error)?) -> Void)?
    /// Told at the end.
    @Block open var fetchWebAuthTokenResultBlock: ((_ operationResult: Result<String, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation for a web page.
    public convenience init(apiToken APIToken: String) {
        self.init()
        apiToken = APIToken
    }

    package override func perform() async {
        do {
            try requireNotCancelled()
            let connection = try resolvedDatabase.session.connection()
            // The answer to any call brings a fresh one.
            _ = try await connection.fetchCallerName()
            guard let token = connection.credentials.webAuthToken else { throw CKError(.notAuthenticated) }
            fetchWebAuthTokenCompletionBlock?(token, nil)
            fetchWebAuthTokenResultBlock?(.success(token))
        } catch {
            fetchWebAuthTokenCompletionBlock?(nil, error)
            fetchWebAuthTokenResultBlock?(.failure(error))
        }
    }

    package override func letBlocksGo() {
        super.letBlocksGo()
        _fetchWebAuthTokenCompletionBlock.letGo()
        _fetchWebAuthTokenResultBlock.letGo()
    }
}
