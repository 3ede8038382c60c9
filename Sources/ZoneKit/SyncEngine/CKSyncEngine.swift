import Foundation
package import SyncCore

/// Keeps an application's own storage in step with one private or shared database.
///
/// The application says what it has changed (`state.add`), hands over records when asked, and applies what it is told;
/// the engine decides when to send and to fetch, in what order, what to try again, and keeps the tokens. It works by
/// itself unless `Configuration.automaticallySync` is off: sends at once after a change, fetches on the relay's notices,
/// catches up after every reconnection, and polls while there is no notice connection.
///
/// Events come one at a time: the next one only after the delegate has returned from the one before. Do not wait for
/// `fetchChanges` or `sendChanges` from inside the delegate; start a task for that.
///
/// The public database has no change feed; `PublicDatabasePoller` follows it.
public final class CKSyncEngine: Sendable {
    /// The database that is kept in step.
    public let database: CKDatabase
    /// What is pending, and what else the application can see of the engine's state.
    public let state: State

    let driver: SyncDriver

    /// Starts to keep a database in step.
    ///
    /// - Parameter configuration: The database, the state of the last run, and who is told of everything.
    public convenience init(_ configuration: Configuration) {
        let connection = try? configuration.database.session.connection()
        self.init(configuration, conditions: connection?.conditions ?? SyncConditions())
    }

    /// An engine with its time and chance from outside.
    package convenience init(_ configuration: Configuration, conditions: SyncConditions) {
        let state = Self.state(for: configuration)
        let link = DatabaseLink(database: configuration.database) { zone in
            state.read { $0.unreadable.contains(zone) }
        }
        self.init(configuration, state: state, link: link, conditions: conditions)
    }

    /// An engine over any link, with its time and chance from outside.
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

    /// Fetches what has changed, now.
    ///
    /// - Parameter options: Which zones, and which of them first.
    /// - Throws: What stopped the fetch; `partialFailure` when single zones failed. What was fetched before is applied.
    ///   `invalidArguments` inside the delegate, which the engine waits for.
    public func fetchChanges(_ options: FetchChangesOptions = FetchChangesOptions()) async throws {
        try await driver.fetchNow(options, for: self)
    }

    /// Sends what is pending, now: zones first, then records in batches.
    ///
    /// - Parameter options: Which changes.
    /// - Throws: What stopped the sending; `partialFailure` when single items failed. Each failure has been told to the
    ///   delegate before. What fails for good is no longer pending unless the delegate has added it again.
    ///   `invalidArguments` inside the delegate, which the engine waits for.
    public func sendChanges(_ options: SendChangesOptions = SendChangesOptions()) async throws {
        try await driver.sendNow(options, for: self)
    }

    /// Makes way for a zone whose encrypted values nobody can read any more, after the user's key was lost.
    ///
    /// Ours: in CloudKit the system does it when the user resets their encrypted data. An engine that finds a zone's key to
    /// be for another key than the user's says so, in `didFetchRecordZoneChanges` and by what `fetchChanges` throws:
    /// `zoneNotFound` with `CKErrorUserDidResetEncryptedDataKey`. It may as well be that the key of this device is not
    /// the right one, so only the program can decide. The zone is deleted for all devices; each, this one too, is told of the
    /// deletion with `encryptedDataReset`, for which it creates the zone again and uploads what it holds.
    ///
    /// - Parameter zoneID: A zone of the private database.
    /// - Throws: What the deletion throws; nothing has happened then. `invalidArguments` inside the delegate, which the engine
    ///   waits for: start a task for it there.
    public func resetEncryptedData(inZoneWith zoneID: CKRecordZone.ID) async throws {
        try await driver.resetEncryptedData(in: zoneID.zone)
    }

    /// Ends the engine for good: no event comes after this returns.
    package func stop() async { await driver.stop() }

    /// Ends the fetches and sends that are under way, and those that wait their turn: they throw `operationCancelled`.
    ///
    /// What they had done stays done. May be called inside the delegate, where they end before their next request. An engine that
    /// works by itself tries again later.
    public func cancelOperations() async { await driver.cancelOperations() }
}

extension CKSyncEngine {
    /// What an engine needs to know to start.
    public struct Configuration: Sendable {
        /// A private or a shared database.
        public var database: CKDatabase
        /// What the last `stateUpdate` event of the run before gave; `nil` at the first start.
        public var stateSerialization: State.Serialization?
        /// Who is told of everything, and asked for records; kept alive by the configuration, not by the engine.
        public var delegate: any CKSyncEngineDelegate
        /// The engine fetches and sends by itself; switched off, only when it is told to.
        public var automaticallySync = true
        /// The identifier of the subscription that brings the notices; left out, one of the engine's own.
        public var subscriptionID: CKSubscription.ID?

        /// Puts together what an engine needs to know.
        ///
        /// - Parameters:
        ///   - database: A private or a shared database.
        ///   - stateSerialization: What the last `stateUpdate` event of the run before gave.
        ///   - delegate: Who is told of everything.
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

    /// Why the engine fetches or sends.
    public enum SyncReason: Sendable, Hashable {
        /// By its own schedule.
        case scheduled
        /// The application asked for it.
        case manual
    }
}

/// What an application does for its sync engine.
public protocol CKSyncEngineDelegate: AnyObject, Sendable {
    /// Something has happened.
    ///
    /// The next event comes only after this returns.
    ///
    /// - Parameters:
    ///   - event: What has happened.
    ///   - syncEngine: Whose event it is.
    func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async

    /// The engine is ready to send the next batch of changes.
    ///
    /// - Parameters:
    ///   - context: Why, and which changes are wanted.
    ///   - syncEngine: Who asks.
    /// - Returns: The next changes; `nil` when there are none (left).
    func nextRecordZoneChangeBatch(
        _ context: CKSyncEngine.SendChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.RecordZoneChangeBatch?

    /// The engine is about to fetch.
    ///
    /// - Parameters:
    ///   - context: Why, and what the engine would fetch.
    ///   - syncEngine: Who asks.
    /// - Returns: What it is to fetch.
    func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions
}

extension CKSyncEngineDelegate {
    /// Fetches what the engine would fetch.
    ///
    /// - Parameters:
    ///   - context: Why, and what the engine would fetch.
    ///   - syncEngine: Who asks.
    /// - Returns: The options in the context.
    public func nextFetchChangesOptions(
        _ context: CKSyncEngine.FetchChangesContext,
        syncEngine: CKSyncEngine
    ) async -> CKSyncEngine.FetchChangesOptions { context.options }
}

/// What an engine takes from the world around it, besides its link.
package struct SyncConditions: Sendable {
    package var time = Timekeeper.system
    package var chance = Chance.system
    /// The wall clock, for what must hold across a restart.
    package var wallClock: @Sendable () -> Date = { Date() }
    package var schedule = SyncSchedule.Settings.engine
    /// Called at named places, so that a test can end a device there.
    package var crashPoint: @Sendable (_ name: String) throws -> Void = { _ in }

    package init() {}
}
