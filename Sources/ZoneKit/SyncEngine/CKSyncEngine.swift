import Foundation
package import SyncCore

/// Synchronizes an app's own storage with a private or shared database.
///
/// The app reports its changes (`state.add`), provides records on request, and applies the events that it receives. The
/// engine decides when to send and fetch, and in what order; it retries after errors and keeps the change tokens.
/// Unless `Configuration.automaticallySync` is `false`, the engine sends as soon as a change is added, fetches when the
/// relay sends a notice and after every reconnection, and polls while there is no notice connection.
///
/// Events arrive one at a time: the engine delivers the next event after the delegate has returned from the previous
/// one. Don't await `fetchChanges` or `sendChanges` inside the delegate; start a task instead.
///
/// The public database has no change feed. Use `PublicDatabasePoller` for it.
public final class CKSyncEngine: Sendable {
    /// The database that the engine synchronizes.
    public let database: CKDatabase
    /// The pending changes and the other public state of the engine.
    public let state: State

    let driver: SyncDriver

    /// Creates an engine and starts to synchronize.
    ///
    /// - Parameter configuration: The database, the state of the previous run, and the delegate.
    public convenience init(_ configuration: Configuration) {
        let connection = try? configuration.database.session.connection()
        self.init(configuration, conditions: connection?.conditions ?? SyncConditions())
    }

    /// Creates an engine with given sources of time and randomness.
    package convenience init(_ configuration: Configuration, conditions: SyncConditions) {
        let state = Self.state(for: configuration)
        let link = DatabaseLink(database: configuration.database) { zone in
            state.read { $0.unreadable.contains(zone) }
        }
        self.init(configuration, state: state, link: link, conditions: conditions)
    }

    /// Creates an engine with a given link and given sources of time and randomness.
    package convenience init(
        _ configuration: Configuration,
        link: any Link<CKRecord, CKRecordZone>,
        conditions: SyncConditions
    ) {
        self.init(configuration, state: Self.state(for: configuration), link: link, conditions: conditions)
    }

    private static func state(for configuration: Configuration) -> State {
        let post = State.Post(
            delegate: ObjectIdentifier(configuration.delegate),
            session: configuration.database.session.identity,
            scope: configuration.database.databaseScope
        )
        return State(configuration.stateSerialization, for: post)
    }

    private init(
        _ configuration: Configuration,
        state: State,
        link: any Link<CKRecord, CKRecordZone>,
        conditions: SyncConditions
    ) {
        database = configuration.database
        self.state = state
        driver = SyncDriver(configuration, link: link, state: state, conditions: conditions)
        let driver = driver
        let time = conditions.time
        state.onChange { [weak driver] in
            time.start { [weak driver] in await driver?.stateChanged() }
        }
        time.surroundings?.join(driver)
        time.start { [weak self] in
            guard let self else { return }
            await driver.start(for: self)
        }
    }

    deinit {
        let driver = driver
        driver.conditions.time.start { await driver.stop() }
    }

    /// Fetches the changes of the database now.
    ///
    /// If the scope names a zone in `zoneIDs` that does not exist, the delegate receives `didFetchRecordZoneChanges` with
    /// `zoneNotFound`.
    ///
    /// - Parameter options: The zones to fetch, and which of them first.
    /// - Throws: The error that stopped the fetch, or `partialFailure` if single zones failed, other than by not existing.
    ///   The changes that were fetched before an error are applied. Throws `invalidArguments` inside the delegate, because
    ///   the engine waits for the delegate.
    public func fetchChanges(_ options: FetchChangesOptions = FetchChangesOptions()) async throws {
        try await driver.fetchNow(options, for: self)
    }

    /// Sends the pending changes now: first zones, then records in batches.
    ///
    /// - Parameter options: The changes to send.
    /// - Throws: The error that stopped the send, or `partialFailure` if single items failed. The delegate has received
    ///   each failure before. A change that failed permanently is no longer pending unless the delegate has added it
    ///   again. Throws `invalidArguments` inside the delegate, because the engine waits for the delegate.
    public func sendChanges(_ options: SendChangesOptions = SendChangesOptions()) async throws {
        try await driver.sendNow(options, for: self)
    }

    /// Deletes a zone whose encrypted values can no longer be read because the user's encryption key was lost.
    ///
    /// This method is not part of CloudKit, where the system does this when the user resets the encrypted data. If a
    /// zone's key was encrypted for another key than the user's, the engine reports `zoneNotFound` with
    /// `CKErrorUserDidResetEncryptedDataKey`, in the `didFetchRecordZoneChanges` event and as an error of
    /// `fetchChanges`. The cause can also be that this device has the wrong key, so only the app can decide.
    ///
    /// The relay deletes the zone for all devices. Each device, including this one, receives the deletion with the
    /// reason `encryptedDataReset`, and then creates the zone again and uploads its local records.
    ///
    /// - Parameter zoneID: A zone of the private database.
    /// - Throws: The error of the deletion; the zone is then unchanged. Throws `invalidArguments` inside the delegate,
    ///   because the engine waits for the delegate. Start a task there.
    public func resetEncryptedData(inZoneWith zoneID: CKRecordZone.ID) async throws {
        try await driver.resetEncryptedData(in: zoneID.zone)
    }

    /// Stops the engine permanently.
    ///
    /// No event is delivered after this method returns.
    package func stop() async { await driver.stop() }

    /// Cancels running and waiting fetches and sends.
    ///
    /// They throw `operationCancelled`. Work that they have completed is not undone. Inside the delegate, they end
    /// before their next request. An engine that synchronizes automatically tries again later.
    public func cancelOperations() async { await driver.cancelOperations() }
}

extension CKSyncEngine {
    /// The configuration of a sync engine.
    public struct Configuration: Sendable {
        /// A private or shared database.
        public var database: CKDatabase
        /// The state from the last `stateUpdate` event of the previous run; `nil` at the first start.
        public var stateSerialization: State.Serialization?
        /// The delegate, which receives the events and provides the records.
        ///
        /// The configuration retains it; the engine does not.
        public var delegate: any CKSyncEngineDelegate
        /// Whether the engine fetches and sends automatically.
        ///
        /// If `false`, it does so only when the app calls its methods.
        public var automaticallySync = true
        /// The ID of the subscription for the notices.
        ///
        /// If `nil`, the engine uses its own.
        public var subscriptionID: CKSubscription.ID?

        /// Creates a configuration.
        ///
        /// - Parameters:
        ///   - database: A private or shared database.
        ///   - stateSerialization: The state from the last `stateUpdate` event of the previous run.
        ///   - delegate: The delegate, which receives the events and provides the records.
        public init(
            database: CKDatabase,
            stateSerialization: State.Serialization?,
            delegate: any CKSyncEngineDelegate
        ) {
            self.database = database
            self.stateSerialization = stateSerialization
            self.delegate = delegate
        }
    }

    /// The reason why the engine fetches or sends.
    public enum SyncReason: Sendable, Hashable {
        /// The engine's own schedule.
        case scheduled
        /// A call of the app.
        case manual
    }
}

/// The methods that an app implements for its sync engine.
public protocol CKSyncEngineDelegate: AnyObject, Sendable {
    /// Handles an event.
    ///
    /// The engine delivers the next event after this method returns.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - syncEngine: The engine that delivers the event.
    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async

    /// Returns the next batch of changes to send.
    ///
    /// - Parameters:
    ///   - context: The reason for the send, and the changes that it includes.
    ///   - syncEngine: The engine that sends the batch.
    /// - Returns: The next changes, or `nil` if there are none left.
    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch?

    /// Returns the options for a fetch that is about to start.
    ///
    /// - Parameters:
    ///   - context: The reason for the fetch, and what it fetches by default.
    ///   - syncEngine: The engine that fetches.
    /// - Returns: The options to use.
    func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions
}

extension CKSyncEngineDelegate {
    /// Returns the default options.
    ///
    /// - Parameters:
    ///   - context: The reason for the fetch, and what it fetches by default.
    ///   - syncEngine: The engine that fetches.
    /// - Returns: The options in the context.
    public func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions { context.options }
}

/// The dependencies of an engine besides its link.
package struct SyncConditions: Sendable {
    package var time = Timekeeper.system
    package var chance = Chance.system
    /// The wall clock, for times that must survive a restart.
    package var wallClock: @Sendable () -> Date = { Date() }
    package var schedule = SyncSchedule.Settings.engine
    /// Called at named points in the code, so that a test can simulate a crash there.
    package var crashPoint: @Sendable (_ name: String) throws -> Void = { _ in }

    package init() {}
}
