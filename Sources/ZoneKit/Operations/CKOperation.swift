public import Foundation
import Synchronization

/// A piece of work for a container, as an `Operation`: made, configured, and added to a database, a container or an
/// `OperationQueue`.
///
/// Its blocks are called one at a time, in the order of events, on a thread of the library's choosing; the last of them is
/// the result block, then the operation is finished and `completionBlock` runs. Cancelling ends the request that is under
/// way; the result is then `operationCancelled`. Set everything before adding it; afterwards it must be left alone. Its blocks
/// go when it is over, and with it all operations that were made inside them.
///
/// In Swift 6 a block written in code of the main actor is taken for the main actor's, and ends the program where it is found
/// on another thread, as with CloudKit. Mark it, and go to the main actor from inside:
///
///     operation.queryResultBlock = { @Sendable result in
///         Task { @MainActor in model.show(result) }
///     }
open class CKOperation: Operation, @unchecked Sendable {
    // Unchecked as `Operation` itself: set up by one thread before it begins, its life behind `life`.

    /// Names an operation.
    public typealias ID = String
    /// How an operation is to be carried out.
    public typealias Configuration = CKOperationConfiguration

    private struct Life {
        var isExecuting = false
        var isFinished = false
        var task: Task<Void, Never>?
        var isCancelled = false
        /// When the time of the whole operation is over, once it is at work.
        var deadline: Deadline?
    }

    private let life = Mutex(Life())
    private var settings = CKOperationConfiguration()

    /// Unlike that of every other operation.
    public let operationID: CKOperation.ID = UUID().uuidString
    /// The group that it belongs to.
    open var group: CKOperationGroup?
    /// Never called: operations here end with the process.
    @Block open var longLivedOperationWasPersistedBlock: (() -> Void)?

    private let family = OperationFamily.atWork ?? OperationFamily()

    /// Makes an operation; use one of the kinds.
    public override init() {
        super.init()
        family.join(self)
    }

    deinit { if life.withLock({ !$0.isFinished }) { family.leave() } }

    // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
    /// How it is to be carried out; CloudKit declares it so, and it is never `nil`.
    ///
    /// A copy goes in. One without a container gets that of the operation's database, if it has one already.
    open var configuration: CKOperation.Configuration! {
        get { settings }
        set {
            settings = newValue?.independentCopy() ?? CKOperationConfiguration()
            if settings.container == nil { settings.container = databaseContainer }
        }
    }

    /// The container of the database that the operation works on, once that is said.
    fileprivate var databaseContainer: CKContainer? { nil }

    /// The same as `configuration.qualityOfService`; where nothing was said there, what the group's configuration says.
    open override var qualityOfService: QualityOfService {
        get { settings.urgency ?? group?.defaultConfiguration?.urgency ?? .default }
        set {
            configuration.qualityOfService = newValue
            super.qualityOfService = newValue
        }
    }

    // MARK: The older way to configure

    /// The container to work in; the same as `configuration.container`.
    open var container: CKContainer? {
        get { settings.container }
        set { configuration.container = newValue }
    }

    /// The same as `configuration.allowsCellularAccess`.
    open var allowsCellularAccess: Bool {
        get { settings.allowsCellularAccess }
        set { configuration.allowsCellularAccess = newValue }
    }

    /// The same as `configuration.isLongLived`.
    open var isLongLived: Bool {
        get { settings.isLongLived }
        set { configuration.isLongLived = newValue }
    }

    /// The same as `configuration.timeoutIntervalForRequest`, in seconds.
    open var timeoutIntervalForRequest: TimeInterval {
        get { settings.timeoutIntervalForRequest }
        set { configuration.timeoutIntervalForRequest = newValue }
    }

    /// The same as `configuration.timeoutIntervalForResource`, in seconds.
    open var timeoutIntervalForResource: TimeInterval {
        get { settings.timeoutIntervalForResource }
        set { configuration.timeoutIntervalForResource = newValue }
    }

    // MARK: Life

    /// Operations work beside the thread that starts them.
    open override var isAsynchronous: Bool { true }
    /// Whether it is at work.
    open override var isExecuting: Bool { life.withLock { $0.isExecuting } }
    /// Whether it is done.
    open override var isFinished: Bool { life.withLock { $0.isFinished } }

    /// Begins; a queue calls this.
    open override func start() {
        let isFirst = life.withLock { !$0.isExecuting && !$0.isFinished }
        guard isFirst else { return }
        willChangeValue(for: \.isExecuting)
        life.withLock { $0.isExecuting = true }
        didChangeValue(for: \.isExecuting)
        main()
    }

    /// Does the work and returns at once; the operation finishes later.
    open override func main() {
        let task = Task(executorPreference: OwnThreads.lane, priority: priority) {
            await OperationFamily.$atWork.withValue(self.family) { await self.perform() }
            self.finish()
        }
        let isCancelled = life.withLock { life in
            life.task = task
            return life.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    /// Ends the request that is under way; the result is `operationCancelled`.
    open override func cancel() {
        super.cancel()
        let task = life.withLock { life in
            life.isCancelled = true
            return life.task
        }
        task?.cancel()
    }

    private func finish() {
        willChangeValue(for: \.isExecuting)
        willChangeValue(for: \.isFinished)
        life.withLock { life in
            life.isExecuting = false
            life.isFinished = true
            life.task = nil
        }
        didChangeValue(for: \.isExecuting)
        didChangeValue(for: \.isFinished)
        family.leave()
    }

    private var priority: TaskPriority {
        switch qualityOfService {
        case .userInteractive, .userInitiated: .high
        case .utility: .utility
        case .background: .background
        default: .medium
        }
    }

    // MARK: For the kinds

    /// What the operation does; calls its blocks itself and leaves no error untold.
    package func perform() async {}

    /// The operation and all that may have its blocks from it are over.
    package func letBlocksGo() {
        _longLivedOperationWasPersistedBlock.letGo()
        #if !canImport(Darwin)
            // Apple's Foundation does this itself.
            completionBlock = nil
        #endif
    }

    package func requireNotCancelled() throws(CKError) {
        guard !isCancelled, !Task.isCancelled else { throw CKError(.operationCancelled) }
    }

    package var resolvedContainer: CKContainer {
        settings.container ?? group?.defaultConfiguration?.container ?? .default()
    }

    /// What the operation's requests to one relay have in common; its time runs from the first call on.
    package func requestSettings(on session: RelaySession) -> RequestSettings {
        var common = RequestSettings(settings, group)
        guard let wholeTime = common.wholeTime else { return common }
        let time = (try? session.connection())?.conditions?.time ?? .system
        common.deadline = life.withLock { life in
            let deadline = life.deadline ?? Deadline(in: wholeTime, by: time)
            life.deadline = deadline
            return deadline
        }
        return common
    }
}

/// An operation on one database.
open class CKDatabaseOperation: CKOperation, @unchecked Sendable {
    /// The database; left out, the container's private one.
    ///
    /// `CKDatabase.add` sets it. The configuration's container is then the database's.
    open var database: CKDatabase? {
        didSet { if let container = databaseContainer { configuration.container = container } }
    }

    fileprivate override var databaseContainer: CKContainer? {
        database.map { CKContainer(sharing: $0.session) }
    }

    package var resolvedDatabase: CKDatabase {
        let database = database ?? resolvedContainer.privateCloudDatabase
        return database.configured(requestSettings(on: database.session))
    }
}

extension CKDatabase {
    /// Begins an operation on this database.
    ///
    /// - Parameter operation: Not yet added anywhere.
    public func add(_ operation: CKDatabaseOperation) {
        operation.database = self
        session.operations.addOperation(operation)
    }
}

extension CKContainer {
    /// Begins an operation in this container; one on a database works on the private one unless it names another.
    ///
    /// - Parameter operation: Not yet added anywhere.
    public func add(_ operation: CKOperation) {
        if operation.container == nil { operation.container = self }
        session.operations.addOperation(operation)
    }
}
