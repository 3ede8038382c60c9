import Foundation
package import Records
package import RelayCore
import RelaySystem

/// A kind of store that tests can run on; `ZONECAST_TEST_STORE` chooses it for the whole process.
///
/// Another store needs a case, its line in `makeHome`, and a `TestHome` in a file of its own.
package enum TestStore: String, CaseIterable, Sendable {
    case sqlite
    #if Postgres
        case postgres
        /// The same spread over three databases.
        case postgresShards = "postgres-shards"
    #endif

    /// The store that the environment variable names; SQLite if it is not set.
    package static let current: TestStore = {
        let variable = "ZONECAST_TEST_STORE"
        guard let name = ProcessInfo.processInfo.environment[variable] else { return .sqlite }
        guard let store = TestStore(rawValue: name) else {
            preconditionFailure("\(variable)=\(name) is none of \(allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return store
    }()

    /// Whether the store keeps its data in files of its own, and backs them up; another leaves that to its database.
    package var keepsFiles: Bool { self == .sqlite }

    /// Whether the data of owners is in several databases.
    package var spreadsOwners: Bool { rawValue == "postgres-shards" }

    /// How long the data of a `TestHome` lasts.
    package enum Lifetime: Sendable {
        /// Until the object that was opened is closed. Accounts and stores are opened once; a store may use memory.
        case whileOpen
        /// Until the home, and everything opened in it, is deinitialized. Other objects, and commands, may open it too.
        case lasting
    }

    /// Makes a fresh place for one test's data; a store that keeps files makes a folder for them in `parent`.
    package func makeHome(
        _ lifetime: Lifetime = .whileOpen,
        in parent: String = NSTemporaryDirectory()
    ) -> any TestHome {
        switch self {
        case .sqlite: SQLiteTestHome(lifetime, in: parent)
        #if Postgres
            case .postgres: PostgresTestHome(lifetime, in: parent)
            case .postgresShards: PostgresTestHome(lifetime, in: parent, shards: 3)
        #endif
        }
    }

    /// Returns a place that cannot be opened or made.
    package func unusableHome() -> any RelayHome {
        switch self {
        case .sqlite: SQLiteTestHome.unusable
        #if Postgres
            case .postgres, .postgresShards: PostgresTestHome.unusable
        #endif
        }
    }
}

/// A fresh place for one test's data, in the store that the tests run on.
///
/// The data is removed when this object, and everything that was opened in it, is deinitialized.
package protocol TestHome: RelayHome, AnyObject {
    /// A folder that is removed with the data. A store that keeps files has them here, in the layout of a data folder.
    var folder: String { get }

    /// Opens the accounts; hashes passwords at a low cost.
    func accounts(
        time: TimeSource,
        random: RandomSource,
        onLostWrite: (@Sendable () -> Void)?
    ) throws(DirectoryError) -> any AccountDirectory

    /// Returns the stores of all containers; opens none.
    func stores(_ options: TestStoreOptions) -> any ServedStores

    /// Expires every change token of stores that were opened here.
    func renewEpochs(of stores: any ServedStores) throws

    /// Closes stores that were opened here as the end of their process would.
    func abandon(_ stores: any ServedStores)

    /// Opens one store, in no catalog; for tests of options that a relay does not have.
    func store(_ options: TestStoreOptions) throws -> any Store
}

extension TestHome {
    package func accounts(onLostWrite: (@Sendable () -> Void)?) throws(DirectoryError) -> any AccountDirectory {
        try accounts(time: .system, random: .system, onLostWrite: onLostWrite)
    }

    package func stores(_ options: StoreOptions) -> any ServedStores { stores(TestStoreOptions(options)) }

    /// Opens the accounts with this clock.
    package func accounts(time: TimeSource) throws(DirectoryError) -> any AccountDirectory {
        try accounts(time: time, random: .system, onLostWrite: nil)
    }

    /// Returns the stores of all containers, with the usual options; opens none.
    package func stores() -> any ServedStores { stores(TestStoreOptions()) }

    /// Opens one store with the usual options.
    package func store() throws -> any Store { try store(TestStoreOptions()) }
}

/// How a test opens its stores.
package struct TestStoreOptions: Sendable {
    /// Runs commits in place of the store's own thread, when the test says.
    package typealias Scheduler = @Sendable (@escaping @Sendable () -> Void) -> Void

    package var options: StoreOptions
    /// `nil` for the store's own thread.
    package var scheduler: Scheduler?
    /// The least number of idempotency records that one store keeps.
    package var idempotencyRecordLimit = 65_536
    /// Called if a write touches an owner that it does not name; only for `TestHome.store`.
    package var foundForeignOwner: @Sendable (String) -> Void = { assertionFailure($0) }

    package init(_ options: StoreOptions, scheduler: Scheduler? = nil) {
        self.options = options
        self.scheduler = scheduler
    }

    /// - Parameters:
    ///   - draw: Returns 64 random bits.
    ///   - committed: Called with each commit's changes.
    ///   - scheduler: Runs commits in place of the store's own thread.
    package init(
        draw: @escaping @Sendable () -> UInt64 = { UInt64.random(in: 1 ... .max) },
        committed: @escaping @Sendable (ContainerEnvironment, Commit) -> Void = { _, _ in },
        scheduler: Scheduler? = nil
    ) {
        options = StoreOptions(draw: draw)
        options.events.committed = committed
        self.scheduler = scheduler
    }
}

extension ServedStores {
    /// Finishes the queued writes and closes every store, for as long as a stopping relay would take.
    package func close() { close(patience: .seconds(1)) }

    /// Closes a store for a command of another process.
    package func hold(_ home: ContainerEnvironment, patience: Duration = .seconds(30)) async throws(RelayError) {
        try await hold(home, patience: patience, whenRefusing: {})
    }
}
