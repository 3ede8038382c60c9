public import Foundation

/// Fetches the metadata of shares by their URLs.
open class CKFetchShareMetadataOperation: CKOperation, @unchecked Sendable {
    /// The URLs of the shares.
    open var shareURLs: [URL]?
    /// Whether to fetch the root records too.
    open var shouldFetchRootRecord = false
    /// The fields of the root records to fetch; `nil` for all fields.
    open var rootRecordDesiredKeys: [CKRecord.FieldKey]?

    /// Called with the result of each link; the older form of `perShareMetadataResultBlock`.
    @Block open var perShareMetadataBlock: ((URL, CKShare.Metadata?, (any Error)?) -> Void)?
    /// Called with the result of each link.
    @Block open var perShareMetadataResultBlock:
        ((_ shareURL: URL, _ shareMetadataResult: Result<CKShare.Metadata, any Error>) -> Void)?
    /// Called at the end; the older form of `fetchShareMetadataResultBlock`.
    @Block open var fetchShareMetadataCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them.
    @Block open var fetchShareMetadataResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that fetches the metadata of shares.
    public convenience init(shareURLs: [URL]) {
        self.init()
        self.shareURLs = shareURLs
    }

    package override func perform() async {
        var tally = OperationTally<CKShare.Metadata, URL>()
        let urls = shareURLs ?? []
        do {
            try requireNotCancelled()
            let results = try await configuredContainer.shareMetadatas(
                for: urls,
                fetchingRoots: shouldFetchRootRecord,
                rootKeys: rootRecordDesiredKeys
            )
            for url in urls {
                guard let result = results[url] else { continue }
                perShareMetadataResultBlock?(url, result)
                perShareMetadataBlock?(url, try? result.get(), result.error)
                tally.saved(url, result)
            }
        } catch {
            fetchShareMetadataCompletionBlock?(error)
            fetchShareMetadataResultBlock?(.failure(error))
            return
        }
        fetchShareMetadataCompletionBlock?(tally.failure)
        fetchShareMetadataResultBlock?(.success(()))
    }
}

/// Accepts shares.
open class CKAcceptSharesOperation: CKOperation, @unchecked Sendable {
    /// The metadata of the shares to accept.
    open var shareMetadatas: [CKShare.Metadata]?

    /// Called with the result of each share; the older form of `perShareResultBlock`.
    @Block open var perShareCompletionBlock: ((CKShare.Metadata, CKShare?, (any Error)?) -> Void)?
    /// Called with the result of each share.
    @Block open var perShareResultBlock:
        ((_ shareMetadata: CKShare.Metadata, _ acceptedShareResult: Result<CKShare, any Error>) -> Void)?
    /// Called at the end; the older form of `acceptSharesResultBlock`.
    @Block open var acceptSharesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them.
    @Block open var acceptSharesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that accepts shares.
    public convenience init(shareMetadatas: [CKShare.Metadata]) {
        self.init()
        self.shareMetadatas = shareMetadatas
    }

    package override func perform() async {
        var tally = OperationTally<CKShare, CKShare.Metadata>()
        let metadatas = shareMetadatas ?? []
        do {
            try requireNotCancelled()
            let results = try await configuredContainer.accept(metadatas)
            for metadata in metadatas {
                guard let result = results[metadata] else { continue }
                perShareResultBlock?(metadata, result)
                perShareCompletionBlock?(metadata, try? result.get(), result.error)
                tally.saved(metadata, result)
            }
        } catch {
            acceptSharesCompletionBlock?(error)
            acceptSharesResultBlock?(.failure(error))
            return
        }
        acceptSharesCompletionBlock?(tally.failure)
        acceptSharesResultBlock?(.success(()))
    }
}

/// Asks the owners of shares for access.
open class CKShareRequestAccessOperation: CKOperation, @unchecked Sendable {
    /// The URLs of the shares.
    open var shareURLs: [URL]?

    /// Called with the result of each request.
    @Block open var perShareAccessRequestResultBlock: ((_ shareURL: URL, _ result: Result<Void, any Error>) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single requests don't fail the operation.
    @Block open var shareAccessRequestResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that requests access to shares.
    public convenience init(shareURLs: [URL]) {
        self.init()
        self.shareURLs = shareURLs
    }

    package override func perform() async {
        let urls = shareURLs ?? []
        do {
            try requireNotCancelled()
            let results = try await configuredContainer.requestAccess(urls)
            for url in urls {
                if let result = results[url] { perShareAccessRequestResultBlock?(url, result) }
            }
            shareAccessRequestResultBlock?(.success(()))
        } catch {
            shareAccessRequestResultBlock?(.failure(error))
        }
    }
}

/// Finds users to invite to a share.
open class CKFetchShareParticipantsOperation: CKOperation, @unchecked Sendable {
    /// The addresses or record IDs of the users.
    open var userIdentityLookupInfos: [CKUserIdentity.LookupInfo]?

    /// Called for each user that was found; the older form of `perShareParticipantResultBlock`.
    ///
    /// Not called if `perShareParticipantResultBlock` is set.
    @Block open var shareParticipantFetchedBlock: ((CKShare.Participant) -> Void)?
    /// Called with the result for each user.
    @Block open var perShareParticipantResultBlock:
        (
            (
                _ userIdentityLookupInfo: CKUserIdentity.LookupInfo,
                _ shareParticipantResult: Result<CKShare.Participant, any Error>
            ) -> Void
        )?
    /// Called at the end; the older form of `fetchShareParticipantsResultBlock`.
    @Block open var fetchShareParticipantsCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them.
    @Block open var fetchShareParticipantsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an empty operation.
    public override init() { super.init() }

    /// Creates an operation that finds users.
    public convenience init(userIdentityLookupInfos: [CKUserIdentity.LookupInfo]) {
        self.init()
        self.userIdentityLookupInfos = userIdentityLookupInfos
    }

    package override func perform() async {
        var tally = OperationTally<CKShare.Participant, CKUserIdentity.LookupInfo>()
        let infos = userIdentityLookupInfos ?? []
        do {
            try requireNotCancelled()
            let results = try await configuredContainer.shareParticipants(for: infos)
            for info in infos {
                guard let result = results[info] else { continue }
                if let perShareParticipantResultBlock {
                    perShareParticipantResultBlock(info, result)
                } else if case .success(let participant) = result {
                    shareParticipantFetchedBlock?(participant)
                }
                tally.saved(info, result)
            }
        } catch {
            fetchShareParticipantsCompletionBlock?(error)
            fetchShareParticipantsResultBlock?(.failure(error))
            return
        }
        fetchShareParticipantsCompletionBlock?(tally.failure)
        fetchShareParticipantsResultBlock?(.success(()))
    }
}

extension CKOperation {
    /// The container, with this operation's request settings.
    var configuredContainer: CKContainer {
        let session = resolvedContainer.session
        return CKContainer(sharing: session, settings: requestSettings(on: session))
    }
}

extension Result {
    /// The error, or `nil` on success.
    var error: Failure? {
        if case .failure(let error) = self { return error }
        return nil
    }
}
