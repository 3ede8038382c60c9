public import Foundation

/// Fetches shares by their links.
open class CKFetchShareMetadataOperation: CKOperation, @unchecked Sendable {
    /// The links.
    open var shareURLs: [URL]?
    /// Whether root records are wanted too.
    open var shouldFetchRootRecord = false
    /// The fields of root records that are wanted; `nil`: all.
    open var rootRecordDesiredKeys: [CKRecord.FieldKey]?

    /// Told what became of each link; the older form of `perShareMetadataResultBlock`.
    @Block open var perShareMetadataBlock: ((URL, CKShare.Metadata?, (any Error)?) -> Void)?
    /// Told what became of each link.
    @Block open var perShareMetadataResultBlock:
        ((_ shareURL: URL, _ shareMetadataResult: Result<CKShare.Metadata, any Error>) -> Void)?
    /// Told at the end; the older form of `fetchShareMetadataResultBlock`.
    @Block open var fetchShareMetadataCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    @Block open var fetchShareMetadataResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that fetches these.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perShareMetadataBlock.letGo()
        _perShareMetadataResultBlock.letGo()
        _fetchShareMetadataCompletionBlock.letGo()
        _fetchShareMetadataResultBlock.letGo()
    }
}

/// Comes into shares.
open class CKAcceptSharesOperation: CKOperation, @unchecked Sendable {
    /// The shares.
    open var shareMetadatas: [CKShare.Metadata]?

    /// Told what became of each share; the older form of `perShareResultBlock`.
    @Block open var perShareCompletionBlock: ((CKShare.Metadata, CKShare?, (any Error)?) -> Void)?
    /// Told what became of each share.
    @Block open var perShareResultBlock:
        ((_ shareMetadata: CKShare.Metadata, _ acceptedShareResult: Result<CKShare, any Error>) -> Void)?
    /// Told at the end; the older form of `acceptSharesResultBlock`.
    @Block open var acceptSharesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    @Block open var acceptSharesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that comes into these.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perShareCompletionBlock.letGo()
        _perShareResultBlock.letGo()
        _acceptSharesCompletionBlock.letGo()
        _acceptSharesResultBlock.letGo()
    }
}

/// Asks the owners of shares to be let in.
open class CKShareRequestAccessOperation: CKOperation, @unchecked Sendable {
    /// The links.
    open var shareURLs: [URL]?

    /// Told what became of each.
    @Block open var perShareAccessRequestResultBlock: ((_ shareURL: URL, _ result: Result<Void, any Error>) -> Void)?
    /// Told at the end; failures of single items are told one by one.
    @Block open var shareAccessRequestResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that asks for these.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _perShareAccessRequestResultBlock.letGo()
        _shareAccessRequestResultBlock.letGo()
    }
}

/// Finds people to invite.
open class CKFetchShareParticipantsOperation: CKOperation, @unchecked Sendable {
    /// By what they are looked for.
    open var userIdentityLookupInfos: [CKUserIdentity.LookupInfo]?

    /// Told of each who was found; the older form of `perShareParticipantResultBlock`, not called where that is set.
    @Block open var shareParticipantFetchedBlock: ((CKShare.Participant) -> Void)?
    /// Told what became of each.
    @Block open var perShareParticipantResultBlock:
        (
            (
                _ userIdentityLookupInfo: CKUserIdentity.LookupInfo,
                _ shareParticipantResult: Result<CKShare.Participant, any Error>
            ) -> Void
        )?
    /// Told at the end; the older form of `fetchShareParticipantsResultBlock`.
    @Block open var fetchShareParticipantsCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Told at the end; failures of single items are told one by one, and fail only the older form.
    @Block open var fetchShareParticipantsResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// An operation with nothing to do yet.
    public override init() { super.init() }

    /// An operation that finds these.
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

    package override func letBlocksGo() {
        super.letBlocksGo()
        _shareParticipantFetchedBlock.letGo()
        _perShareParticipantResultBlock.letGo()
        _fetchShareParticipantsCompletionBlock.letGo()
        _fetchShareParticipantsResultBlock.letGo()
    }
}

extension CKOperation {
    /// The container, for requests of this operation's settings.
    var configuredContainer: CKContainer {
        let session = resolvedContainer.session
        return CKContainer(sharing: session, settings: requestSettings(on: session))
    }
}

extension Result {
    /// What went wrong, if it did.
    var error: Failure? {
        if case .failure(let error) = self { return error }
        return nil
    }
}
