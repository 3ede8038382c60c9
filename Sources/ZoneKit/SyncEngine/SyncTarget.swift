package import Records
package import SyncCore

/// What a round of fetching has done so far.
package protocol FetchRoundProgress {
    /// The user for whom the round works; see `SyncRunner.accountEpoch`.
    var epoch: Int { get }
    /// The errors by zone; the key `nil` stands for the database.
    var errors: [ZoneID?: CKError] { get set }
}

/// What a round of sending has done so far.
package protocol SendRoundProgress {
    /// The user for whom the round works; see `SyncRunner.accountEpoch`.
    var epoch: Int { get }
    var outcome: SyncSchedule.SendOutcome { get set }
    /// The error that ended the round.
    var error: CKError? { get set }
    /// Busy zones; nothing more is sent to them in this round.
    var busyZones: Set<ZoneID> { get set }
    /// The error of the first busy zone.
    var busy: CKError? { get set }
    /// The zones in which something was saved or deleted.
    var changedZones: Set<ZoneID> { get }
    /// The error to throw to the caller of the round.
    var failure: CKError? { get }
}

extension SendRoundProgress {
    /// Adds an error after which the loop retries: a busy zone blocks only itself; any other error ends the round.
    package mutating func retryLater(_ error: CKError, in zone: ZoneID? = nil) {
        guard let zone, error.syncFailure.kind == .zoneBusy else { return self.error = self.error ?? error }
        busyZones.insert(zone)
        outcome.zoneFailures[zone] = error.syncFailure
        busy = busy ?? error
    }
}

/// One change to send.
package protocol SendItem: Sendable {
    var zone: ZoneID { get }
    /// The approximate size in a request, in bytes.
    var size: Int { get }

    /// Returns items of one zone in an order in which each item follows the items that it refers to.
    static func inDependencyOrder(_ items: [Self]) -> [Self]
}

/// The next changes to send.
package protocol SendBatch<Item>: Sendable {
    associatedtype Item: SendItem

    var items: [Item] { get }
    /// Whether a zone's changes go into one request if the relay accepts that many.
    var isAtomic: Bool { get }
    /// Whether the app learns the results of all zones together; until then nothing is fetched from them.
    var isReportedAsWhole: Bool { get }
}

/// A request with changes of one zone.
package protocol SendRequest<Item>: Sendable {
    associatedtype Item: SendItem

    var items: [Item] { get }
    var attempts: WriteAttempts { get set }
}

/// What a sync loop drives: the delegate of an engine, or a mirrored store.
///
/// The loop decides and asks the relay; a target provides what is pending, and applies and stores what arrives.
package protocol SyncTarget: PendingWorkReporting, Actor {
    /// What a round of fetching is to fetch.
    associatedtype FetchContext: Sendable
    associatedtype FetchProgress: FetchRoundProgress
    /// A page of a zone's feed.
    associatedtype Page: Sendable
    /// What a round of sending is to send.
    associatedtype SendContext: Sendable
    associatedtype SendProgress: SendRoundProgress
    associatedtype Batch: SendBatch
    associatedtype Request: SendRequest where Request.Item == Batch.Item
    /// The relay's answer to a request.
    associatedtype Answer: Sendable

    var runner: SyncRunner { get set }
    /// The contexts of automatic rounds.
    static var scheduledFetch: FetchContext { get }
    static var scheduledSend: SendContext { get }

    // MARK: Account

    /// Called if the credentials of this generation identify no user.
    ///
    /// Returns if requests without a user are allowed.
    func userIsMissing(_ generation: Int) async throws

    /// Called with the signed-in user's record name, and the generation of the credentials.
    func userIsKnown(_ name: String, _ generation: Int) async throws

    /// Called when the relay rejects the user's credentials.
    func userIsRefused() async throws

    /// Called when the account could not be checked.
    func accountCheckFailed(_ error: CKError) async

    /// Called when requests are made as another user from now on.
    func credentialsReplaced()

    // MARK: Fetching

    /// Called when a round begins; returns the round to run.
    func fetchBegins(
        _ context: FetchContext,
        asksDatabase: Bool,
        backingOff: Set<ZoneID>
    ) async -> (FetchRound, FetchProgress)

    /// Called when all answers have been applied.
    func fetchEnds(_ outcome: inout FetchRound.Outcome, _ progress: inout FetchProgress) async

    /// Requests a page of the database's feed.
    func databasePage(since token: SyncToken?) async throws -> DatabasePage

    /// Returns the zones that a full listing of the database must contain, besides those with a token.
    func knownZones() async -> Set<ZoneID>

    /// Applies a page of the database's feed with its token.
    ///
    /// `returned` are zones that were missing at the last request and exist again.
    func apply(_ page: DatabasePage, returned: Set<ZoneID>, _ progress: inout FetchProgress) async throws

    /// Requests a page of a zone's feed, with the zone's lock held.
    func zonePage(_ zone: ZoneID, since token: SyncToken?) async throws -> Page

    /// Applies a page of a zone with its token, with the zone's lock held; returns what to tell the round.
    func apply(
        _ page: Page,
        of zone: ZoneID,
        since token: SyncToken?,
        _ progress: inout FetchProgress
    ) async throws -> FetchRound.Event

    /// Called when a page has been applied and the round knows it.
    func pageApplied() async

    /// Called when a zone was deleted and created again: what the target has belongs to the old one.
    func zoneReplaced(_ zone: ZoneID, _ reason: ZoneDeletionReason, _ progress: inout FetchProgress) async throws

    func zoneBegins(_ zone: ZoneID, _ progress: FetchProgress) async
    /// Called before the first page of a zone is requested that lists the zone from its beginning.
    func listingBegins(_ zone: ZoneID)
    func zoneEnded(_ zone: ZoneID, _ failure: SyncFailure?, _ progress: FetchProgress) async

    /// Returns the error to throw if only single zones failed.
    nonisolated func failure(of zones: [ZoneID: CKError]) -> CKError?

    /// Reads and changes the state of the feeds.
    func updateFeed<Result>(_ body: (inout FeedState) -> Result) -> Result

    // MARK: Sending

    func sendProgress(_ context: SendContext) -> SendProgress

    /// Called at the begin of a round, and again if `passEnds` has returned `true`.
    func passBegins(_ progress: inout SendProgress) async throws

    /// Returns the next changes; `nil` if there are none left in this pass.
    func pendingBatch(_ progress: inout SendProgress) async throws -> Batch?

    /// Creates a zone before its first change is sent, with its lock held.
    ///
    /// Returns `false` if it cannot be created now.
    func createZone(_ zone: ZoneID, for items: [Batch.Item], _ progress: inout SendProgress) async throws -> Bool

    /// Returns a request for changes of one zone; `nil` if none of them is to be sent.
    func request(
        for items: [Batch.Item],
        of batch: Batch,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> Request?

    /// Sends a request.
    func answer(to request: Request, in zone: ZoneID, _ progress: SendProgress) async throws -> Answer

    /// Stores the results of an answered request; returns the changes to send again at once.
    func settle(
        _ request: Request,
        _ answer: Answer,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> [Batch.Item]

    /// Stores what follows from the failure of a whole request; returns the changes to send again at once.
    ///
    /// The loop itself splits requests, backs off and repeats.
    func settle(
        _ request: Request,
        _ error: CKError,
        _ decision: WriteAttempts.Decision,
        in zone: ZoneID,
        _ progress: inout SendProgress
    ) async throws -> [Batch.Item]

    /// Called when all requests of a batch are settled; if it is reported as a whole, with the locks of its zones held.
    func settle(_ batch: Batch, _ progress: inout SendProgress) async throws

    /// Called when nothing is left to send; returns whether to begin another pass.
    func passEnds(_ progress: inout SendProgress) async throws -> Bool

    /// Called at the end of a round.
    func sendEnds(_ progress: inout SendProgress) async

    /// Called when the schedule knows the end of a round.
    func sendEnded(_ progress: SendProgress) async

    // MARK: Requests without an answer

    /// The zones with a stored request whose answer is missing.
    ///
    /// A target that stores none leaves the repetition to the app, whose repeated write has the same idempotency key; see
    /// `IdempotencyCache`.
    func unansweredZones() async throws -> [ZoneID]
    func unansweredRequest(in zone: ZoneID) async throws -> Request?
    /// Called when a stored request was sent again before a page of its zone is read.
    func requestRepeated(_ progress: SendProgress) async

    // MARK: Schedule

    /// Returns the token for the hello of the notice connection.
    nonisolated var databaseToken: @Sendable () -> SyncToken? { get }

    /// Called after the schedule has handled an event.
    func scheduleChanged()

    /// Called when the schedule knows the end of a round of fetching.
    func fetchEnded() async

    /// Called at the time of `pollWake`.
    func pollIsDue()

    /// Returns how to retry after an error.
    nonisolated func syncFailure(of error: CKError) -> SyncFailure

    /// Tells the app why automatic work has failed.
    ///
    /// If `isReported`, a round has failed, which has reported its end itself.
    func tell(_ error: CKError, of lane: SyncRunner.Lane, isReported: Bool) async
}

extension SyncTarget {
    package func scheduleChanged() {}
    package func pollIsDue() {}
    package func zoneBegins(_ zone: ZoneID, _ progress: FetchProgress) async {}
    package func listingBegins(_ zone: ZoneID) {}
    package func zoneEnded(_ zone: ZoneID, _ failure: SyncFailure?, _ progress: FetchProgress) async {}
    package func pageApplied() async {}
    package func userIsRefused() async throws {}
    package func accountCheckFailed(_ error: CKError) async {}
    package func createZone(_: ZoneID, for items: [Batch.Item], _: inout SendProgress) async throws -> Bool { true }
    package func settle(_ batch: Batch, _ progress: inout SendProgress) async throws {}
    package func passEnds(_ progress: inout SendProgress) async throws -> Bool { false }
    package func unansweredZones() async throws -> [ZoneID] { [] }
    package func unansweredRequest(in zone: ZoneID) async throws -> Request? { nil }
    package func requestRepeated(_ progress: SendProgress) async {}
    package nonisolated func syncFailure(of error: CKError) -> SyncFailure { error.syncFailure }
}
