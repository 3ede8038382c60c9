package import Records

/// The stores of a running relay: what it does with them besides answering requests.
package protocol ServedStores: StoreCatalog {
    /// Runs `body` on one committed state of a store, for a few seconds at most; `nil` if the environment is unused.
    func survey<Result>(
        _ home: ContainerEnvironment,
        _ body: (any StoreSurvey) throws(RelayError) -> Result
    ) throws(RelayError) -> Result?

    /// Removes unfinished uploads that an earlier process left in any store.
    ///
    /// Must be called before the first request, by the only process that receives uploads.
    func removeBrokenUploads()

    /// Removes assets that are older than `limit` and that no record uses, in all stores this process has used.
    ///
    /// - Returns: the number of removed assets.
    func removeUnusedAssets(before limit: Timestamp) async throws(RelayError) -> Int

    /// Does the same for one store.
    func removeUnusedAssets(of home: ContainerEnvironment, before limit: Timestamp) async throws(RelayError) -> Int

    /// Removes the tombstones of records deleted before `limit`, in all open stores.
    ///
    /// - Returns: the number of removed tombstones.
    func forgetTombstones(before limit: Timestamp) async throws(RelayError) -> Int

    /// The number of writes that wait for a commit, in all open stores.
    var waitingWrites: Int { get }

    /// The number of open stores, and how many have been closed to make room for others.
    var counts: (open: Int, closed: Int) { get }

    /// The databases over which the owners are spread; empty if there is one place for all.
    ///
    /// Must not block.
    var shards: [ShardState] { get }

    /// The copies of the first database that answer queries of public databases; empty if there are none.
    ///
    /// Must not block.
    var replicas: [ReplicaState] { get }

    /// Closes some idle stores in the background; called when the process has no file descriptor left.
    ///
    /// Does nothing if a store takes none.
    func makeRoom()

    /// Closes a store for a command of another process; all other stores go on.
    ///
    /// From now on, requests for the store are refused with `RelayError.storeIsHeld` and scheduled work skips it.
    /// Returns when the requests in progress are done and the store is closed; `release` opens it again.
    ///
    /// - Parameters:
    ///   - home: the store.
    ///   - patience: how long requests in progress may take.
    ///   - whenRefusing: called when requests are refused.
    /// - Throws: `tryAgainLater` if they take longer; the store is served again then.
    func hold(
        _ home: ContainerEnvironment,
        patience: Duration,
        whenRefusing: () -> Void
    ) async throws(RelayError)

    /// Serves a store again, as it is now: tokens of an epoch that it does not know are refused.
    func release(_ home: ContainerEnvironment)

    /// Finishes the queued writes and closes every store.
    ///
    /// - Parameter patience: how long the store may tidy up. Nothing that was answered is lost if it stops before that.
    func close(patience: Duration)
}

extension ServedStores {
    package var shards: [ShardState] { [] }
    package var replicas: [ReplicaState] { [] }
}

/// A copy of the first database that answers queries of public databases.
package struct ReplicaState: Hashable, Sendable {
    /// Where it is, without the password.
    package var place: String
    /// Whether it is new enough to answer.
    package var isUsable: Bool
    /// The number of queries that it has answered.
    package var answered: Int

    package init(place: String, isUsable: Bool, answered: Int) {
        self.place = place
        self.isUsable = isUsable
        self.answered = answered
    }
}

extension StoreCatalog {
    /// Returns the store of an environment that has been used; creates none.
    package func existingStore(of home: ContainerEnvironment) throws(RelayError) -> (any Store)? {
        isThere(home) ? try store(of: home) : nil
    }
}

extension RelayError {
    /// The refusal of requests for a held store.
    package static let storeIsHeld = RelayError(
        .tryAgainLater,
        "This container is being restored, reset or deleted. Try again in a few seconds.",
        retryAfter: .seconds(2)
    )
}

/// What a running relay wants to know of its stores.
package struct StoreEvents: Sendable {
    /// Called with the changes of each commit and the container and environment they belong to.
    ///
    /// Runs on the commit thread. Must not block.
    package var committed: @Sendable (ContainerEnvironment, Commit) -> Void = { _, _ in }
    /// Called with the number of writes in a commit and its duration.
    package var commitTook: @Sendable (Int, Duration) -> Void = { _, _ in }
    /// Called once for each store whose disk failed to keep a commit.
    package var lostWrite: @Sendable () -> Void = {}
    /// Called for each request that meets damaged data, with its place and the damaged parts if they are known.
    package var foundDamage: @Sendable (ContainerEnvironment, _ place: String, _ parts: [String]) -> Void = { _, _, _ in
    }
    /// Called when a database can be reached again, with the users whose answers lacked its data meanwhile.
    ///
    /// Their devices have to ask again.
    package var returned: @Sendable (ContainerEnvironment, Set<UserID>) -> Void = { _, _ in }
    /// Called each time a store cannot be opened because the process has no file descriptor left.
    package var lacksDescriptors: @Sendable () -> Void = {}

    package init() {}
}
