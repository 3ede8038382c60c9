public import Foundation
import SyncCore

/// Fetches the zones of a private or shared database that have changed.
open class CKFetchDatabaseChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The token of the previous fetch; `nil` to fetch from the beginning.
    open var previousServerChangeToken: CKServerChangeToken?
    /// The maximum number of zones per response; 0 for the relay's maximum.
    open var resultsLimit = 0
    /// Whether to continue until there are no more changes.
    ///
    /// If `false`, the operation ends after one response.
    open var fetchAllChanges = true

    /// Called for each zone that was created or changed.
    @Block open var recordZoneWithIDChangedBlock: ((CKRecordZone.ID) -> Void)?
    /// Called for each zone that was deleted.
    @Block open var recordZoneWithIDWasDeletedBlock: ((CKRecordZone.ID) -> Void)?
    /// Called for each zone that was deleted because the user erased the app's data.
    ///
    /// If `nil`, `recordZoneWithIDWasDeletedBlock` is called instead.
    @Block open var recordZoneWithIDWasPurgedBlock: ((CKRecordZone.ID) -> Void)?
    /// Called for each zone that was deleted because the user reset the encrypted data.
    ///
    /// If `nil`, `recordZoneWithIDWasDeletedBlock` is called instead.
    @Block open var recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock: ((CKRecordZone.ID) -> Void)?
    /// Called with the new token after each response.
    @Block open var changeTokenUpdatedBlock: ((CKServerChangeToken) -> Void)?
    /// Called at the end; the older form of `fetchDatabaseChangesResultBlock`.
    @Block open var fetchDatabaseChangesCompletionBlock:
        ((_ serverChangeToken: CKServerChangeToken?, _ moreComing: Bool, _ operationError: (any Error)?) -> Void)?
    /// Called at the end with the token, and whether there are more changes.
    @Block open var fetchDatabaseChangesResultBlock:
        ((_ operationResult: Result<(serverChangeToken: CKServerChangeToken, moreComing: Bool), any Error>) -> Void)?

    /// Creates an operation that fetches from the beginning.
    public override init() { super.init() }

    /// Creates an operation that fetches the changes after a token.
    public convenience init(previousServerChangeToken: CKServerChangeToken?) {
        self.init()
        self.previousServerChangeToken = previousServerChangeToken
    }

    package override func perform() async {
        var token = previousServerChangeToken
        var progress = FeedProgress()
        do {
            let database = resolvedDatabase
            while true {
                try requireNotCancelled()
                let page = try await database.databaseChanges(
                    since: token,
                    resultsLimit: resultsLimit > 0 ? resultsLimit : nil
                )
                try progress.accept(page.changeToken, after: token, moreComing: page.moreComing)
                for modification in page.modifications {
                    try requireNotCancelled()
                    recordZoneWithIDChangedBlock?(modification.zoneID)
                }
                for deletion in page.deletions {
                    try requireNotCancelled()
                    tell(deletion)
                }
                // If a block cancels the operation within a page, the page's token is not reported, so the rest of it
                // is fetched again.
                try requireNotCancelled()
                token = page.changeToken
                changeTokenUpdatedBlock?(page.changeToken)
                if page.moreComing && fetchAllChanges { continue }
                fetchDatabaseChangesCompletionBlock?(page.changeToken, page.moreComing, nil)
                fetchDatabaseChangesResultBlock?(.success((page.changeToken, page.moreComing)))
                return
            }
        } catch {
            fetchDatabaseChangesCompletionBlock?(token, false, error)
            fetchDatabaseChangesResultBlock?(.failure(error))
        }
    }

    private func tell(_ deletion: CKDatabase.DatabaseChange.Deletion) {
        switch deletion.reason {
        case .deleted: recordZoneWithIDWasDeletedBlock?(deletion.zoneID)
        case .purged: (recordZoneWithIDWasPurgedBlock ?? recordZoneWithIDWasDeletedBlock)?(deletion.zoneID)
        case .encryptedDataReset:
            let block = recordZoneWithIDWasDeletedDueToUserEncryptedDataResetBlock ?? recordZoneWithIDWasDeletedBlock
            block?(deletion.zoneID)
        }
    }
}

/// Fetches the changes in some zones, one zone after another.
open class CKFetchRecordZoneChangesOperation: CKDatabaseOperation, @unchecked Sendable {
    /// The options for fetching one zone.
    public typealias ZoneConfiguration = CKFetchRecordZoneChangesConfiguration
    /// The older name of `ZoneConfiguration`.
    public typealias ZoneOptions = ZoneConfiguration

    /// The zones to fetch, in this order.
    open var recordZoneIDs: [CKRecordZone.ID]?
    /// The options per zone.
    ///
    /// A zone without options is fetched from the beginning.
    open var configurationsByRecordZoneID: [CKRecordZone.ID: ZoneConfiguration]?
    /// Whether to continue in each zone until there are no more changes.
    ///
    /// If `false`, each zone ends after one response.
    open var fetchAllChanges = true

    /// The older name of `configurationsByRecordZoneID`.
    open var optionsByRecordZoneID: [CKRecordZone.ID: ZoneOptions]? {
        get { configurationsByRecordZoneID }
        set { configurationsByRecordZoneID = newValue }
    }

    /// Called for each record that was created or changed; the older form of `recordWasChangedBlock`.
    ///
    /// Not called if `recordWasChangedBlock` is set.
    @Block open var recordChangedBlock: ((CKRecord) -> Void)?
    /// Called for each record that was created or changed.
    @Block open var recordWasChangedBlock:
        ((_ recordID: CKRecord.ID, _ recordResult: Result<CKRecord, any Error>) -> Void)?
    /// Called for each record that was deleted.
    @Block open var recordWithIDWasDeletedBlock: ((CKRecord.ID, CKRecord.RecordType) -> Void)?
    /// Called with a zone's new token after each response, and before the end of the zone is reported.
    @Block open var recordZoneChangeTokensUpdatedBlock: ((CKRecordZone.ID, CKServerChangeToken?, Data?) -> Void)?
    /// Called at the end of each zone; the older form of `recordZoneFetchResultBlock`.
    @Block open var recordZoneFetchCompletionBlock:
        ((CKRecordZone.ID, CKServerChangeToken?, Data?, Bool, (any Error)?) -> Void)?
    /// Called at the end of each zone with its token, and whether there are more changes.
    @Block open var recordZoneFetchResultBlock:
        (
            (
                _ recordZoneID: CKRecordZone.ID,
                _ fetchChangesResult: Result<
                    (serverChangeToken: CKServerChangeToken, clientChangeTokenData: Data?, moreComing: Bool), any Error
                >
            ) -> Void
        )?
    /// Called at the end; the older form of `fetchRecordZoneChangesResultBlock`.
    @Block open var fetchRecordZoneChangesCompletionBlock: ((_ operationError: (any Error)?) -> Void)?
    /// Called at the end.
    ///
    /// Errors of single items don't fail the operation; other blocks report them. If every item failed because its zone
    /// does not exist, the result is `partialFailure`.
    @Block open var fetchRecordZoneChangesResultBlock: ((_ operationResult: Result<Void, any Error>) -> Void)?

    /// Creates an operation without zones.
    public override init() { super.init() }

    /// Creates an operation that fetches some zones.
    ///
    /// - Parameters:
    ///   - recordZoneIDs: The zones to fetch.
    ///   - configurationsByRecordZoneID: The options per zone.
    public convenience init(
        recordZoneIDs: [CKRecordZone.ID]? = nil,
        configurationsByRecordZoneID: [CKRecordZone.ID: ZoneConfiguration]? = nil
    ) {
        self.init()
        self.recordZoneIDs = recordZoneIDs
        self.configurationsByRecordZoneID = configurationsByRecordZoneID
    }

    /// Creates an operation that fetches some zones; the older form.
    ///
    /// - Parameters:
    ///   - recordZoneIDs: The zones to fetch.
    ///   - optionsByRecordZoneID: The options per zone.
    public convenience init(
        recordZoneIDs: [CKRecordZone.ID],
        optionsByRecordZoneID: [CKRecordZone.ID: ZoneOptions]?
    ) {
        self.init(recordZoneIDs: recordZoneIDs, configurationsByRecordZoneID: optionsByRecordZoneID)
    }

    package override func perform() async {
        var errors: [AnyHashable: any Error] = [:]
        var failure: CKError?
        var fetchedAny = false
        let database = resolvedDatabase
        let user = (try? database.session.connection()).map(AccountBinding.forCurrentTask)
        for zoneID in recordZoneIDs ?? [] {
            if let failure {
                tellEnd(of: zoneID, .failure(failure))
                continue
            }
            do throws(CKError) {
                try await fetch(zoneID, from: database, for: user, &errors)
                fetchedAny = true
            } catch {
                tellEnd(of: zoneID, .failure(error))
                errors[zoneID] = error
                // An error that is not about a single zone would affect the other zones too.
                if !error.isZoneError, error.code != .changeTokenExpired, error.code != .invalidArguments {
                    failure = error
                }
            }
        }
        let error = failure ?? (errors.isEmpty ? nil : CKError.partialFailure(errors))
        fetchRecordZoneChangesCompletionBlock?(error)
        let result = CKError.operationResult(of: errors, anySucceeded: fetchedAny)
        fetchRecordZoneChangesResultBlock?(failure.map { .failure($0) } ?? result)
    }

    /// Fetches one zone, page by page.
    private func fetch(
        _ zoneID: CKRecordZone.ID,
        from database: CKDatabase,
        for user: AccountBinding?,
        _ errors: inout [AnyHashable: any Error]
    ) async throws(CKError) {
        let configuration = configurationsByRecordZoneID?[zoneID] ?? ZoneConfiguration()
        var token = configuration.previousServerChangeToken
        var progress = FeedProgress()
        while true {
            try requireNotCancelled()
            let ask = { () async throws(CKError) in
                try await database.zoneChangesPage(
                    in: zoneID,
                    since: token,
                    desiredKeys: configuration.desiredKeys,
                    limit: configuration.resultsLimit > 0 ? configuration.resultsLimit : nil
                )
            }
            let page = if let user { try await user.perform(ask) } else { try await ask() }
            try progress.accept(page.changeToken, after: token, moreComing: page.moreComing)
            try tell(page, &errors)
            token = page.changeToken
            recordZoneChangeTokensUpdatedBlock?(zoneID, page.changeToken, nil)
            guard page.moreComing, fetchAllChanges else {
                return tellEnd(of: zoneID, .success((page.changeToken, nil, page.moreComing)))
            }
        }
    }

    /// Calls the blocks for the contents of a page.
    ///
    /// Throws if a block has cancelled the operation. The page's token is then not reported, so that the rest of the
    /// page is fetched again.
    private func tell(
        _ page: CKDatabase.ZoneChangesPage,
        _ errors: inout [AnyHashable: any Error]
    ) throws(CKError) {
        for record in page.records {
            try requireNotCancelled()
            if let recordWasChangedBlock {
                recordWasChangedBlock(record.recordID, .success(record))
            } else {
                recordChangedBlock?(record)
            }
        }
        for (id, error) in page.failures {
            try requireNotCancelled()
            recordWasChangedBlock?(id, .failure(error))
            errors[id] = error
        }
        for deletion in page.deletions {
            try requireNotCancelled()
            recordWithIDWasDeletedBlock?(deletion.recordID, deletion.recordType)
        }
        try requireNotCancelled()
    }

    private func tellEnd(
        of zoneID: CKRecordZone.ID,
        _ result: Result<
            (serverChangeToken: CKServerChangeToken, clientChangeTokenData: Data?, moreComing: Bool), any Error
        >
    ) {
        recordZoneFetchResultBlock?(zoneID, result)
        switch result {
        case .success(let end): recordZoneFetchCompletionBlock?(zoneID, end.serverChangeToken, nil, end.moreComing, nil)
        case .failure(let error): recordZoneFetchCompletionBlock?(zoneID, nil, nil, false, error)
        }
    }
}

/// The options for fetching one zone, also available as `CKFetchRecordZoneChangesOperation.ZoneConfiguration`.
///
/// Not nested in the operation, because Foundation on Linux cannot archive nested classes.
open class CKFetchRecordZoneChangesConfiguration: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked for the same reason as the operation: one thread configures it before it starts.

    /// The token of the previous fetch; `nil` to fetch from the beginning.
    open var previousServerChangeToken: CKServerChangeToken?
    /// The maximum number of records per response; 0 for the relay's maximum.
    open var resultsLimit: Int
    /// The fields to fetch; `nil` for all fields.
    open var desiredKeys: [CKRecord.FieldKey]?

    /// Creates options that fetch all fields from the beginning.
    public override convenience init() { self.init(previousServerChangeToken: nil, resultsLimit: nil) }

    /// Creates options for fetching a zone.
    ///
    /// - Parameters:
    ///   - previousServerChangeToken: The token of the previous fetch.
    ///   - resultsLimit: The maximum number of records per response.
    ///   - desiredKeys: The fields to fetch; `nil` for all fields.
    public init(
        previousServerChangeToken: CKServerChangeToken? = nil,
        resultsLimit: Int? = nil,
        desiredKeys: [CKRecord.FieldKey]? = nil
    ) {
        self.previousServerChangeToken = previousServerChangeToken
        self.resultsLimit = resultsLimit ?? 0
        self.desiredKeys = desiredKeys
    }

    /// Creates options from the output of `encode(with:)`.
    public required init?(coder: NSCoder) {
        previousServerChangeToken = coder.object(CKServerChangeToken.self, "Token")
        resultsLimit = coder.number("Limit")
        desiredKeys = coder.text("Keys").map { $0.split(separator: "\n").map(String.init) }
    }

    /// Whether the class supports secure coding: always `true`.
    open class var supportsSecureCoding: Bool { true }

    /// Encodes the token, the limit and the fields.
    open func encode(with coder: NSCoder) {
        if let previousServerChangeToken { coder.encode(previousServerChangeToken, forKey: "Token") }
        coder.encode(resultsLimit, forKey: "Limit")
        if let desiredKeys { coder.encode(desiredKeys.joined(separator: "\n") as NSString, forKey: "Keys") }
    }

    /// Returns an independent copy.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKFetchRecordZoneChangesConfiguration(
            previousServerChangeToken: previousServerChangeToken,
            resultsLimit: resultsLimit,
            desiredKeys: desiredKeys
        )
    }
}

/// The name of the options before Swift 4.2.
public typealias CKFetchRecordZoneChangesOptions = CKFetchRecordZoneChangesConfiguration

/// Checks that a feed makes progress, to protect an operation from a relay that violates the protocol.
///
/// See Sync.md, "Fetching".
struct FeedProgress {
    private var repeats = 0

    /// Counts consecutive pages that announce more changes but repeat the request's token.
    ///
    /// Throws if there are too many.
    mutating func accept(
        _ token: CKServerChangeToken,
        after old: CKServerChangeToken?,
        moreComing: Bool
    ) throws(CKError) {
        repeats = moreComing && token == old ? repeats + 1 : 0
        guard repeats < FetchRound.maxRepeats else { throw CKError(SyncFailure(.protocolViolation)) }
    }
}
