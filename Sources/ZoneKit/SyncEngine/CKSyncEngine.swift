import Foundation
import Records
package import SyncCore
import Synchronization

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
        self.init(configuration, state: Self.state(for: configuration), conditions: conditions)
    }

    private static func state(for configuration: Configuration) -> State {
        let engineIdentity = State.EngineIdentity(
            delegate: ObjectIdentifier(configuration.delegate),
            session: configuration.database.session.identity,
            scope: configuration.database.databaseScope
        )
        return State(configuration.stateSerialization, for: engineIdentity)
    }

    private init(
        _ configuration: Configuration,
        state: State,
        conditions: SyncConditions
    ) {
        database = configuration.database
        self.state = state
        driver = SyncDriver(configuration, state: state, conditions: conditions)
        let driver = driver
        let time = conditions.time
        state.onChange { [weak driver] in
            time.start { [weak driver] in await driver?.stateChanged() }
        }
        time.testEnvironment?.join(driver)
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
    public func cancelOperations() async { await driver.cancelRounds() }
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

    /// Called when the engine could not fetch or send automatically, for example because no relay is configured, the
    /// relay cannot be reached, or it rejects the user's credentials.
    ///
    /// This method is not part of CloudKit. The engine retries by itself; `error.localizedDescription` and
    /// `error.recoverySuggestion` say what a person can do. A failure that persists is reported once, until something
    /// was fetched or sent. The default implementation does nothing; the SDK also writes one line to its log, with the
    /// label `zonecast.sdk` of swift-log.
    ///
    /// - Parameters:
    ///   - error: The reason.
    ///   - syncEngine: The engine.
    func handleFailure(_ error: CKError, syncEngine: CKSyncEngine) async
}

extension CKSyncEngineDelegate {
    /// Does nothing.
    ///
    /// - Parameters:
    ///   - error: The reason.
    ///   - syncEngine: The engine.
    public func handleFailure(_ error: CKError, syncEngine: CKSyncEngine) async {}

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

/// The dependencies of an engine besides its database.
package struct SyncConditions: Sendable {
    package var time = Scheduler.system
    package var random = RandomGenerator.system
    /// The wall clock, for times that must survive a restart.
    package var wallClock: @Sendable () -> Date = { Date() }
    package var schedule = SyncSchedule.Settings.engine
    /// Writes a line about a failure to the log.
    package var log = FailureLog.standard
    /// Called at named points in the code, so that a test can simulate a crash there.
    package var crashPoint: @Sendable (_ name: String) throws -> Void = { _ in }

    package init() {}
}

extension CKSyncEngine {
    /// The zones that a fetch includes, and the order in which it fetches them.
    public struct FetchChangesOptions: Sendable {
        /// The set of zones to fetch.
        public enum Scope: Sendable, Hashable {
            /// All zones of the database.
            case all
            /// All zones except these.
            case allExcluding([CKRecordZone.ID])
            /// Only these zones.
            case zoneIDs([CKRecordZone.ID])

            /// Returns whether the scope includes a zone.
            public func contains(_ zoneID: CKRecordZone.ID) -> Bool { zones.contains(zoneID.zone) }
        }

        /// The zones to fetch.
        public var scope: Scope
        /// The group that the requests belong to; the relay's log shows it.
        public var operationGroup: CKOperationGroup
        /// The zones that are fetched first, in this order.
        public var prioritizedZoneIDs: [CKRecordZone.ID] = []

        /// Creates options for a fetch.
        ///
        /// - Parameters:
        ///   - scope: The zones to fetch.
        ///   - operationGroup: The group that the requests belong to. The default is a new group.
        public init(scope: Scope = .all, operationGroup: CKOperationGroup? = nil) {
            self.scope = scope
            self.operationGroup = operationGroup ?? CKOperationGroup()
        }
    }

    /// The reason for a fetch, and what it fetches by default.
    public struct FetchChangesContext: Sendable {
        /// The reason for the fetch.
        public let reason: SyncReason
        /// The options that the engine uses unless the delegate returns others.
        public let options: FetchChangesOptions
    }

    /// The changes that a send includes.
    public struct SendChangesOptions: Sendable {
        /// The set of changes to send.
        public enum Scope: Sendable, Hashable {
            /// All pending changes.
            case all
            /// All pending changes except those in these zones.
            case allExcluding([CKRecordZone.ID])
            /// Only the changes in these zones.
            case zoneIDs([CKRecordZone.ID])
            /// Only the changes of these records.
            case recordIDs([CKRecord.ID])

            /// Returns whether the scope includes the changes of a record.
            public func contains(_ recordID: CKRecord.ID) -> Bool {
                if case .recordIDs(let records) = self { return records.contains(recordID) }
                return contains(recordID.zoneID)
            }

            /// Returns whether the scope includes a pending change.
            public func contains(_ pendingRecordZoneChange: PendingRecordZoneChange) -> Bool {
                contains(pendingRecordZoneChange.recordID)
            }

            /// Returns the scope without the changes in some zones.
            func leavingOut(_ zones: Set<ZoneID>) -> Scope {
                guard !zones.isEmpty else { return self }
                let left = zones.map { CKRecordZone.ID($0) }.sorted { $0.zoneName < $1.zoneName }
                switch self {
                case .all: return .allExcluding(left)
                case .allExcluding(let others): return .allExcluding(others + left)
                case .zoneIDs(let wanted): return .zoneIDs(wanted.filter { !zones.contains($0.zone) })
                case .recordIDs(let wanted): return .recordIDs(wanted.filter { !zones.contains($0.zoneID.zone) })
                }
            }

            /// Returns whether the scope includes the changes of a zone itself.
            func contains(_ zoneID: CKRecordZone.ID) -> Bool {
                switch self {
                case .all: true
                case .allExcluding(let zones): !zones.contains(zoneID)
                case .zoneIDs(let zones): zones.contains(zoneID)
                case .recordIDs(let records): records.contains { $0.zoneID == zoneID }
                }
            }
        }

        /// The changes to send.
        public var scope: Scope
        /// The group that the requests belong to; the relay's log shows it.
        public var operationGroup: CKOperationGroup

        /// Creates options for a send.
        ///
        /// - Parameters:
        ///   - scope: The changes to send.
        ///   - operationGroup: The group that the requests belong to. The default is a new group.
        public init(scope: Scope = .all, operationGroup: CKOperationGroup? = nil) {
            self.scope = scope
            self.operationGroup = operationGroup ?? CKOperationGroup()
        }
    }

    /// The reason for a send, and what it sends.
    public struct SendChangesContext: Sendable {
        /// The reason for the send.
        public let reason: SyncReason
        /// The changes to send.
        public let options: SendChangesOptions

        /// Returns the context without the changes in some zones.
        func leavingOut(_ zones: Set<ZoneID>) -> SendChangesContext {
            var options = options
            options.scope = options.scope.leavingOut(zones)
            return SendChangesContext(reason: reason, options: options)
        }
    }
}

extension CKSyncEngine.FetchChangesOptions.Scope {
    var zones: ZoneScope {
        switch self {
        case .all: .all
        case .allExcluding(let ids): .allExcluding(Set(ids.map(\.zone)))
        case .zoneIDs(let ids): .only(Set(ids.map(\.zone)))
        }
    }
}

extension CKSyncEngine {
    /// A batch of record changes to send.
    public struct RecordZoneChangeBatch: Sendable {
        /// The records to save.
        public var recordsToSave: [CKRecord]
        /// The IDs of the records to delete.
        public var recordIDsToDelete: [CKRecord.ID]
        /// Whether the changes in each zone succeed or fail together, as far as they fit into one request.
        ///
        /// A batch made from pending changes fits, and so do 400 changes in one zone. If the relay finds a request too
        /// large, the engine splits it, and each part is atomic by itself.
        public var atomicByZone: Bool

        /// Creates a batch of any size.
        ///
        /// - Parameters:
        ///   - recordsToSave: The records to save.
        ///   - recordIDsToDelete: The IDs of the records to delete.
        ///   - atomicByZone: Whether the changes in each zone succeed or fail together.
        public init(
            recordsToSave: [CKRecord] = [],
            recordIDsToDelete: [CKRecord.ID] = [],
            atomicByZone: Bool = false
        ) {
            self.recordsToSave = recordsToSave
            self.recordIDsToDelete = recordIDsToDelete
            self.atomicByZone = atomicByZone
        }

        /// Creates a batch of the first pending changes, as many as fit into one request.
        ///
        /// Returns `nil` if there are no changes.
        ///
        /// - Parameters:
        ///   - pendingChanges: The pending changes, in order.
        ///   - recordProvider: Returns the record with an ID in the version to save, or `nil` to skip it.
        public init?(
            pendingChanges: [PendingRecordZoneChange],
            recordProvider: @Sendable (CKRecord.ID) async -> CKRecord?
        ) async {
            let limits = BatchLimits()
            var saves: [CKRecord] = []
            var deletes: [CKRecord.ID] = []
            var bytes = 0
            for change in pendingChanges where saves.count + deletes.count < limits.operations {
                switch change {
                case .deleteRecord(let id): deletes.append(id)
                case .saveRecord(let id):
                    guard let record = await recordProvider(id) else { continue }
                    let size = record.sizeToSend
                    // The first record is always included; only the relay can refuse it for its size.
                    guard bytes == 0 || bytes + size <= limits.bytes else {
                        self.init(recordsToSave: saves, recordIDsToDelete: deletes)
                        return
                    }
                    bytes += size
                    saves.append(record)
                }
            }
            guard !saves.isEmpty || !deletes.isEmpty else { return nil }
            self.init(recordsToSave: saves, recordIDsToDelete: deletes)
        }
    }
}

extension CKRecord {
    /// An upper estimate of the record's size in a save request, in bytes.
    var sizeToSend: Int {
        state.withLock { state in
            let secret = (state.secrets?.edits ?? [:]).values.reduce(0) { size, edit in
                // The value is sealed and base64-encoded, with its JSON inside.
                size + 200 + (edit.value?.encodedSize ?? 0) * 4 / 3
            }
            return secret
                + state.edits.keys.reduce(200 + state.id.recordName.utf8.count) { size, name in
                    size + name.utf8.count + 40 + (state.fields[name]?.encodedSize ?? 0)
                }
        }
    }
}

extension FieldValue {
    fileprivate var encodedSize: Int {
        switch self {
        // An escaped character can take six bytes, but almost no text consists of such characters.
        case .string(let text): text.utf8.count + text.utf8.count / 8
        case .bytes(let bytes): bytes.count / 3 * 4 + 4
        case .int64, .double, .timestamp: 24
        case .reference(let reference): reference.recordName.utf8.count + 120
        case .location: 240
        case .asset: 400
        case .list(_, let elements): elements.reduce(0) { $0 + $1.encodedSize + 1 }
        }
    }
}

// Descriptions for logs. They contain kinds, counts and IDs, but no field values.

extension CKSyncEngine: CustomStringConvertible {
    /// The database and the number of pending changes.
    public var description: String {
        let (records, zones) = state.read { ($0.outbox.pending.count, $0.zones.pending.count) }
        return "<CKSyncEngine: \(database), \(records) records and \(zones) zones pending>"
    }
}

extension CKSyncEngine.Configuration: CustomStringConvertible {
    /// The database, and whether the engine synchronizes automatically.
    public var description: String {
        "<Configuration: \(database), \(automaticallySync ? "automatic" : "manual"), "
            + "\(stateSerialization == nil ? "no state" : "state of an earlier run")>"
    }
}

extension CKSyncEngine.SyncReason: CustomStringConvertible {
    /// The reason's name.
    public var description: String {
        switch self {
        case .scheduled: "scheduled"
        case .manual: "manual"
        }
    }
}

extension CKSyncEngine.FetchChangesOptions: CustomStringConvertible {
    /// The scope and the prioritized zones.
    public var description: String { "<FetchChangesOptions: \(scope), first \(prioritizedZoneIDs)>" }
}

extension CKSyncEngine.FetchChangesOptions.Scope: CustomStringConvertible {
    /// The zones in the scope.
    public var description: String {
        switch self {
        case .all: "all"
        case .allExcluding(let zones): "all but \(zones)"
        case .zoneIDs(let zones): "zones \(zones)"
        }
    }
}

extension CKSyncEngine.FetchChangesContext: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "<FetchChangesContext: \(reason), \(options)>" }
}

extension CKSyncEngine.SendChangesOptions: CustomStringConvertible {
    /// The scope.
    public var description: String { "<SendChangesOptions: \(scope)>" }
}

extension CKSyncEngine.SendChangesOptions.Scope: CustomStringConvertible {
    /// The changes in the scope.
    public var description: String {
        switch self {
        case .all: "all"
        case .allExcluding(let zones): "all but \(zones)"
        case .zoneIDs(let zones): "zones \(zones)"
        case .recordIDs(let records): "records \(records)"
        }
    }
}

extension CKSyncEngine.SendChangesContext: CustomStringConvertible {
    /// The reason and the options.
    public var description: String { "<SendChangesContext: \(reason), \(options)>" }
}

extension CKSyncEngine.PendingRecordZoneChange: CustomStringConvertible {
    /// The kind of change and the record.
    public var description: String {
        switch self {
        case .saveRecord(let id): "saveRecord(\(id))"
        case .deleteRecord(let id): "deleteRecord(\(id))"
        }
    }
}

extension CKSyncEngine.PendingDatabaseChange: CustomStringConvertible {
    /// The kind of change and the zone.
    public var description: String {
        switch self {
        case .saveZone(let zone): "saveZone(\(zone.zoneID))"
        case .deleteZone(let id): "deleteZone(\(id))"
        }
    }
}

extension CKSyncEngine.RecordZoneChangeBatch: CustomStringConvertible {
    /// The records to save and to delete.
    public var description: String {
        "<RecordZoneChangeBatch: save \(recordsToSave.map(\.recordID)), delete \(recordIDsToDelete)>"
    }
}
