package import Records

/// A database of a cluster, with the data of some owners.
package struct ShardState: Hashable, Sendable {
    /// Counted from 1, the database with which the cluster began.
    package var number: Int
    /// Where it is, without the password.
    package var place: String
    /// Why it cannot be reached; `nil` if it can.
    package var failure: String?
    /// Whether new owners may come to it.
    package var takesOwners = true
    /// How many bytes it has for data; `nil` if the operator has not set it.
    package var room: Int64?
    /// The bytes of its data, and the number of its owners, as measured last.
    package var bytes: Int64 = 0
    package var owners: Int64 = 0

    package init(number: Int, place: String, failure: String? = nil) {
        self.number = number
        self.place = place
        self.failure = failure
    }
}

/// A move of one owner from one database of the cluster to another.
package struct OwnerMove: Hashable, Sendable {
    package var home: ContainerEnvironment
    package var user: UserID
    package var source: Int
    package var target: Int
    /// The bytes that the owner uses, as far as they are known.
    package var bytes: Int64

    package init(_ user: UserID, in home: ContainerEnvironment, from source: Int, to target: Int, bytes: Int64 = 0) {
        self.home = home
        self.user = user
        self.source = source
        self.target = target
        self.bytes = bytes
    }

    /// The steps, in their order.
    ///
    /// A move that was interrupted in any of them can be run again.
    package enum Step: String, CaseIterable, Sendable {
        /// The rows are copied while the owner's writes go on.
        case copying
        /// The owner's writes are refused from here on.
        case refusing
        /// What has changed since the copy is copied.
        case completing
        /// The target accepts the owner's writes; from here on the move can only be completed.
        case serving
        /// The map says that the owner is on the target.
        case switching
        /// The source forgets the owner's rows.
        case clearing
    }

    package struct Progress: Hashable, Sendable {
        package var step: Step
        /// The number of rows so far.
        package var rows: Int64

        package init(_ step: Step, rows: Int64) {
            self.step = step
            self.rows = rows
        }
    }

    /// What a move has done.
    package struct Summary: Hashable, Sendable {
        package var rows: Int64
        /// How long the owner's writes were refused.
        package var refused: Duration

        package init(rows: Int64, refused: Duration) {
            self.rows = rows
            self.refused = refused
        }
    }
}

/// The databases of a cluster, for commands and the doctor.
package protocol ClusterShards: Sendable {
    /// Returns the databases, with what they contain as of now where they can be reached.
    func all() throws(DirectoryError) -> [ShardState]

    /// Makes an empty database the next shard, or repeats that after an interruption.
    ///
    /// Without a password in `url`, it has the password of the first database. `room` is how many bytes it has for data.
    func add(_ url: String, room: Int64?) throws(DirectoryError) -> ShardState

    /// Changes whether new owners come to a shard, and how many bytes it has for data; `nil` leaves it as it is.
    func set(_ number: Int, takesOwners: Bool?, room: Int64?) throws(DirectoryError)

    /// Changes the address of a shard whose servers have moved; it must lead to the data of that shard.
    ///
    /// Without a password in `url`, it has the password of the first database.
    func set(_ number: Int, url: String) throws(DirectoryError)

    /// Returns the moves that have begun and not ended.
    func unfinishedMoves() throws(DirectoryError) -> [OwnerMove]

    /// Returns moves after which all shards are about equally full.
    func plan(atMost count: Int) throws(DirectoryError) -> [OwnerMove]

    /// Moves an owner to another shard while relays serve it, or completes a move that was interrupted.
    ///
    /// The owner's writes are refused for seconds at the end. Tokens, change tags and shares stay valid. Calls `step` with
    /// each step, and during the copy.
    func move(
        _ user: UserID,
        in home: ContainerEnvironment,
        to target: Int,
        step: (OwnerMove.Progress) -> Void
    ) throws(DirectoryError) -> OwnerMove.Summary
}
