public import Foundation
import Synchronization

/// The base class of operations, which can be added to a database, a container or an `OperationQueue`.
///
/// An operation calls its blocks one at a time, in the order of the events, on a thread chosen by the library. The
/// result block is the last one; then the operation is finished and `completionBlock` runs. Cancelling the operation
/// cancels the current request; the result is then `operationCancelled`. Configure an operation before you add it, and
/// don't change it afterwards. The operation releases its blocks when it and all operations that were created inside
/// its blocks have finished.
///
/// In Swift 6, a block in code of the main actor is isolated to the main actor, and the program traps if the block is
/// called on another thread, as with CloudKit. Mark such a block `@Sendable`, and switch to the main actor inside it:
///
///     operation.queryResultBlock = { @Sendable result in
///         Task { @MainActor in model.show(result) }
///     }
open class CKOperation: Operation, @unchecked Sendable {
    // Unchecked like `Operation` itself: one thread configures it before it starts, and `executionState` protects the rest.

    /// The type of an operation's ID.
    public typealias ID = String
    /// The type of an operation's configuration.
    public typealias Configuration = CKOperationConfiguration

    private struct ExecutionState {
        var isExecuting = false
        var isFinished = false
        var task: Task<Void, Never>?
        var isCancelled = false
        /// The end of the whole operation's timeout; set when the operation starts to work.
        var deadline: Deadline?
    }

    private let executionState = Mutex(ExecutionState())
    private var settings = CKOperationConfiguration()

    /// The unique ID of the operation.
    public let operationID: CKOperation.ID = UUID().uuidString
    /// The group of the operation.
    open var group: CKOperationGroup?
    /// Never called, because operations do not outlive the process.
    @Block open var longLivedOperationWasPersistedBlock: (() -> Void)?

    private let chain = OperationChain.current ?? OperationChain()
    /// The blocks that were set.
    fileprivate let setBlocks = Mutex<[any ReleasableBlock]>([])

    /// Creates an operation.
    ///
    /// Use one of the subclasses.
    public override init() {
        super.init()
        chain.join(self)
    }

    deinit { if executionState.withLock({ !$0.isFinished }) { chain.leave() } }

    // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
    /// The configuration of the operation.
    ///
    /// It is never `nil`; CloudKit declares the same type. The setter stores a copy. If the copy has no container and
    /// the operation has a database, the setter sets the database's container.
    open var configuration: CKOperation.Configuration! {
        get { settings }
        set {
            settings = newValue?.independentCopy() ?? CKOperationConfiguration()
            if settings.container == nil { settings.container = databaseContainer }
        }
    }

    /// The container of the operation's database, if there is one.
    fileprivate var databaseContainer: CKContainer? { nil }

    /// The same as `configuration.qualityOfService`, or if that is not set, the value of the group's configuration.
    open override var qualityOfService: QualityOfService {
        get { settings.urgency ?? group?.defaultConfiguration?.urgency ?? .default }
        set {
            configuration.qualityOfService = newValue
            super.qualityOfService = newValue
        }
    }

    // MARK: Older configuration properties

    /// The same as `configuration.container`.
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

    // MARK: Execution

    /// Returns `true`: operations do not block the thread that starts them.
    open override var isAsynchronous: Bool { true }
    /// Whether the operation is running.
    open override var isExecuting: Bool { executionState.withLock { $0.isExecuting } }
    /// Whether the operation has finished.
    open override var isFinished: Bool { executionState.withLock { $0.isFinished } }

    /// Starts the operation.
    ///
    /// Called by the queue.
    open override func start() {
        let isFirst = executionState.withLock { !$0.isExecuting && !$0.isFinished }
        guard isFirst else { return }
        willChangeValue(for: \.isExecuting)
        executionState.withLock { $0.isExecuting = true }
        didChangeValue(for: \.isExecuting)
        main()
    }

    /// Starts the work and returns at once; the operation finishes later.
    open override func main() {
        let task = Task(executorPreference: BlockingThreads.executor, priority: priority) {
            await OperationChain.$current.withValue(self.chain) { await self.perform() }
            self.finish()
        }
        let isCancelled = executionState.withLock { executionState in
            executionState.task = task
            return executionState.isCancelled
        }
        if isCancelled { task.cancel() }
    }

    /// Cancels the current request; the result is `operationCancelled`.
    open override func cancel() {
        super.cancel()
        let task = executionState.withLock { executionState in
            executionState.isCancelled = true
            return executionState.task
        }
        task?.cancel()
    }

    private func finish() {
        willChangeValue(for: \.isExecuting)
        willChangeValue(for: \.isFinished)
        executionState.withLock { executionState in
            executionState.isExecuting = false
            executionState.isFinished = true
            executionState.task = nil
        }
        didChangeValue(for: \.isExecuting)
        didChangeValue(for: \.isFinished)
        chain.leave()
    }

    private var priority: TaskPriority {
        switch qualityOfService {
        case .userInteractive, .userInitiated: .high
        case .utility: .utility
        case .background: .background
        default: .medium
        }
    }

    // MARK: For subclasses

    /// Performs the operation.
    ///
    /// Must call the operation's blocks and report every error to them.
    package func perform() async {}

    /// Releases the blocks, when the operation and all operations of its family have finished.
    fileprivate func releaseBlocks() {
        for block in setBlocks.withLock({ $0 }) { block.release() }
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

    /// Returns the settings of the operation's requests to one relay.
    ///
    /// The operation's timeout starts with the first call.
    package func requestSettings(on session: RelaySession) -> RequestSettings {
        var common = RequestSettings(settings, group)
        guard let operationTimeout = common.operationTimeout else { return common }
        let time = (try? session.connection())?.conditions?.time ?? .system
        common.deadline = executionState.withLock { executionState in
            let deadline = executionState.deadline ?? Deadline(in: operationTimeout, by: time)
            executionState.deadline = deadline
            return deadline
        }
        return common
    }
}

/// The base class of operations on a database.
open class CKDatabaseOperation: CKOperation, @unchecked Sendable {
    /// The database; `nil` for the private database of the container.
    ///
    /// `CKDatabase.add` sets it, and sets the configuration's container to the database's container.
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
    /// Starts an operation on this database.
    ///
    /// - Parameter operation: An operation that has not been added to a queue.
    public func add(_ operation: CKDatabaseOperation) {
        operation.database = self
        session.operations.addOperation(operation)
    }
}

extension CKContainer {
    /// Starts an operation in this container.
    ///
    /// A database operation without a database uses the private database.
    ///
    /// - Parameter operation: An operation that has not been added to a queue.
    public func add(_ operation: CKOperation) {
        if operation.container == nil { operation.container = self }
        session.operations.addOperation(operation)
    }
}

extension CKOperation {
    /// Stores an operation's block until the operation has finished.
    ///
    /// An app often refers to the operation inside its blocks; without a release, the retain cycle would keep the
    /// operation and all records it has collected. A lock protects the block, because the app may read it while it is
    /// being released.
    @propertyWrapper
    public struct Block<Value: ExpressibleByNilLiteral> {
        /// Carries a block across the lock.
        ///
        /// Any thread may call the block.
        private struct Box: @unchecked Sendable {
            var value: Value
        }

        private final class Storage: ReleasableBlock {
            private let box = Mutex(Box(value: nil))

            var value: Value {
                get { box.withLock { $0 }.value }
                set {
                    let new = Box(value: newValue)
                    // The previous block is released outside the lock, since that may release many other objects.
                    _ = box.withLock { box in
                        let before = box
                        box = new
                        return before
                    }
                }
            }

            func release() { value = nil }
        }

        private let storage = Storage()

        /// Creates a storage without a block.
        public init() {}

        /// Not available: the block is read and set through its operation, which releases it.
        @available(*, unavailable, message: "Only an operation can have a Block.")
        public var wrappedValue: Value {
            get { storage.value }
            nonmutating set { storage.value = newValue }
        }

        /// The block; `nil` after the operation has finished.
        public static subscript<Owner: CKOperation>(
            _enclosingInstance operation: Owner,
            wrapped wrapped: ReferenceWritableKeyPath<Owner, Value>,
            storage path: ReferenceWritableKeyPath<Owner, Block>
        ) -> Value {
            get { operation[keyPath: path].storage.value }
            set {
                let storage = operation[keyPath: path].storage
                storage.value = newValue
                operation.setBlocks.withLock { $0.append(storage) }
            }
        }
    }
}

fileprivate protocol ReleasableBlock: AnyObject, Sendable {
    func release()
}

/// The operations that were created inside each other's blocks.
///
/// An app that fetches page after page may assign an operation's blocks to the next operation. All operations of the
/// family therefore keep their blocks until all of them have finished.
final class OperationChain: Sendable {
    private struct Member: @unchecked Sendable {
        // Unchecked for the same reason as the operation itself.
        weak var operation: CKOperation?
    }

    private struct Members {
        var unfinished = 0
        var all: [Member] = []
    }

    /// The family of the operation whose block is being called.
    @TaskLocal static var current: OperationChain?

    private let members = Mutex(Members())

    func join(_ operation: CKOperation) {
        let member = Member(operation: operation)
        members.withLock { members in
            members.unfinished += 1
            members.all.removeAll { $0.operation == nil }
            members.all.append(member)
        }
    }

    /// Called when an operation has finished or will never start.
    func leave() {
        let over = members.withLock { members -> [Member] in
            members.unfinished -= 1
            guard members.unfinished == 0 else { return [] }
            defer { members.all = [] }
            return members.all
        }
        for member in over { member.operation?.releaseBlocks() }
    }
}

/// The results of an operation that saves and deletes.
struct OperationTally<Item, ID: Hashable> {
    private(set) var saved: [Item] = []
    private(set) var deleted: [ID] = []
    private var errors: [AnyHashable: any Error] = [:]

    mutating func saved(_ id: ID, _ result: Result<Item, any Error>) {
        switch result {
        case .success(let item): saved.append(item)
        case .failure(let error): errors[id] = error
        }
    }

    mutating func deleted(_ id: ID, _ result: Result<Void, any Error>) {
        switch result {
        case .success: deleted.append(id)
        case .failure(let error): errors[id] = error
        }
    }

    /// The result for the operation's result block.
    var result: Result<Void, any Error> {
        CKError.operationResult(of: errors, anySucceeded: !saved.isEmpty || !deleted.isEmpty)
    }

    /// A `partialFailure` with the error of each failed item, or `nil` if nothing failed.
    var failure: CKError? { errors.isEmpty ? nil : CKError.partialFailure(errors) }
}

extension CKError {
    /// Returns the result for an operation's result block if the request itself succeeded.
    ///
    /// Item errors are reported one by one, so the operation succeeds, unless every item failed because its zone does not
    /// exist: programs that create a missing zone expect `partialFailure` here, as from CloudKit.
    static func operationResult(of errors: [AnyHashable: any Error], anySucceeded: Bool) -> Result<Void, any Error> {
        guard !errors.isEmpty, !anySucceeded, errors.values.allSatisfy(isMissingZone) else { return .success(()) }
        return .failure(partialFailure(errors))
    }

    private static func isMissingZone(_ error: any Error) -> Bool {
        let code = (error as? CKError)?.code
        return code == .zoneNotFound || code == .userDeletedZone
    }
}

/// Long-lived operations, which this SDK does not support: an app that looks for them finds none and starts again.
extension CKContainer {
    /// Returns the IDs of operations from an earlier run: always an empty array.
    public func allLongLivedOperationIDs() async throws -> [CKOperation.ID] { [] }

    /// Returns an operation from an earlier run: always `nil`.
    public func longLivedOperation(for operationID: CKOperation.ID) async throws -> CKOperation? { nil }

    /// Fetches the IDs of operations from an earlier run: always an empty array.
    @preconcurrency
    public func fetchAllLongLivedOperationIDs(
        completionHandler: @escaping @Sendable ([CKOperation.ID]?, (any Error)?) -> Void
    ) {
        Task(executorPreference: BlockingThreads.executor) { completionHandler([], nil) }
    }

    /// Fetches an operation from an earlier run: always `nil`.
    @preconcurrency
    public func fetchLongLivedOperation(
        withID operationID: CKOperation.ID,
        completionHandler: @escaping @Sendable (CKOperation?, (any Error)?) -> Void
    ) {
        Task(executorPreference: BlockingThreads.executor) { completionHandler(nil, nil) }
    }
}
