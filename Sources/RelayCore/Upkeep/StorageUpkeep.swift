package import Records

/// Inspection and upkeep of what a relay has stored, by commands beside a running relay and by the relay itself.
///
/// Calls block their thread, some of them for as long as it takes to read everything. A store without files has
/// nothing to name in the calls about files: each says what it answers then.
package protocol StorageUpkeep: Sendable {
    /// The database, such as `SQLite`, and its version.
    var engine: (name: String, version: String) { get }

    // MARK: Layout

    /// Whether there are stores, but the accounts are lost.
    var lacksAccounts: Bool { get }

    /// Whether another program has written what should be the accounts.
    var isForeign: Bool { get }

    /// Inspects the layout of the accounts, and how commits to them are made durable, in the database's own word.
    func accountsLayout() throws(DirectoryError) -> (file: LayoutStatus, journal: String)

    /// Returns the names of the files whose layouts can differ; a store without files has none.
    func storeFiles() throws(BackupFailure) -> [String]

    /// Inspects the layout of one of these files.
    func layout(of file: String) throws(DirectoryError) -> LayoutStatus

    // MARK: Damage

    /// Reads everything and returns the parts that are damaged; calls `step` before it reads each part.
    ///
    /// A store whose database checks its own pages has no faults.
    func faults(step: (String) -> Void) throws -> [StorageFault]

    /// What the operator can do, as a sentence to follow the description of a fault.
    var remedy: String { get }

    /// Checks what the store needs of other programs, for the doctor; a store of files needs nothing.
    func checks() -> [StoreFinding]

    // MARK: Figures

    /// Inspects the files of one environment; `nil` if it is unused.
    ///
    /// A store without files reports sizes, and the assets with their hashes.
    func files(of home: ContainerEnvironment) throws -> StoreFiles?

    /// Reads an asset and returns whether its content matches its hash.
    func isWhole(_ asset: StoreFiles.Asset, of home: ContainerEnvironment) -> Bool

    /// Returns the path of an asset; `nil` if assets are no files.
    func path(ofAsset hash: String, in home: ContainerEnvironment) -> String?

    /// Returns the storage use of one environment, which is empty if it is unused.
    ///
    /// `month` is that of the report's `sent`, and `count` the maximum number of its `owners`.
    func report(on home: ContainerEnvironment, month: CalendarMonth, naming count: Int) throws -> StorageReport

    /// Returns the size of one user's private database and the number of its zones; 0 if the environment is unused.
    func use(of user: UserID, in home: ContainerEnvironment) throws -> (bytes: Int64, zones: Int)

    /// Returns the names of the live records in a user's default zone, which has no feed to list them by.
    func defaultZoneNames(of user: UserID, in home: ContainerEnvironment) throws -> [String]

    /// Returns the names of a user's live records in the public database, including that of type `Users`.
    func publicNames(madeBy user: UserID, in home: ContainerEnvironment) throws -> [String]

    // MARK: Space

    /// Returns the free space in every file; empty if the database returns such space by itself.
    func rooms() throws -> [CompactionRoom]

    /// Rewrites a whole file, in a form that allows `compactStepwise` from then on.
    ///
    /// Other writers wait meanwhile. If it is interrupted, the file is unchanged.
    func compact(_ file: String) throws

    /// Releases a file's free pages a few at a time; others may write between two steps.
    ///
    /// `step` is called after each step with the number of released pages and of all pages to release, and may block.
    func compactStepwise(_ file: String, _ step: (_ done: Int64, _ all: Int64) -> Void) throws

    // MARK: Whole containers, whole stores

    /// Deletes a container with its records and accounts' entries; after it returns, no power cut restores it.
    ///
    /// No relay may use the container.
    ///
    /// - Throws: `DirectoryError` or `BackupFailure`; the container is then as before, once `finishRemoval` was called.
    func remove(_ container: ContainerID, from accounts: any AccountDirectory) throws

    /// Completes or undoes what an interrupted `remove` has begun.
    ///
    /// - Throws: `DirectoryError` if the directory cannot be read, `BackupFailure` if the files cannot be put back.
    func finishRemoval(with accounts: any AccountDirectory) throws

    /// Copies everything but backups to another place, and compares each row and asset of the copy with its source.
    ///
    /// - Throws: `BackupFailure`, `elsewhere` from a store that is not a folder; nothing is left at `target` then.
    func copy(to target: String, step: (String) -> Void) throws(BackupFailure) -> CopySummary
}

extension StorageUpkeep {
    package func checks() -> [StoreFinding] { [] }
}

/// The damage to one file.
package struct StorageFault: Hashable, Sendable, CustomStringConvertible {
    /// The path in the data folder.
    package var file: String
    /// The result of the check, in a few words.
    package var what: String

    package init(file: String, what: String) {
        self.file = file
        self.what = what
    }

    package var description: String { "\(file) is damaged: \(what)" }
}

/// The free space in a file.
package struct CompactionRoom: Hashable, Sendable {
    /// The path in the data folder.
    package var file: String
    /// The size of the file in bytes, without the log.
    package var bytes: Int64
    /// The size of the free pages, in bytes.
    package var freeBytes: Int64
    /// Whether they can be released a few at a time.
    package var isStepwise: Bool

    package init(file: String, bytes: Int64, freeBytes: Int64, isStepwise: Bool) {
        self.file = file
        self.bytes = bytes
        self.freeBytes = freeBytes
        self.isStepwise = isStepwise
    }
}

/// What was copied and verified.
package struct CopySummary: Hashable, Sendable {
    package var files = 0
    package var rows = 0
    package var zones = 0
    package var records = 0
    package var assets = 0
    package var bytes: Int64 = 0

    package init() {}
}
