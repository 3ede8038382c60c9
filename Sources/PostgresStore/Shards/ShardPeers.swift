#if Postgres
    import Records
    import RelayCore
    import Synchronization

    /// Where an owner's data is, as the row of the owner on one shard says.
    enum OwnerPlace: Hashable, Sendable {
        case here
        /// Being moved away: read here, written nowhere.
        case moving
        case moved(to: Int)
        /// Being moved here: not complete yet.
        case arriving

        init(state: Int64, movedTo: Int64?) {
            self =
                switch state {
                case 0: .here
                case 1: .moving
                case 2: .moved(to: Int(movedTo ?? 1))
                default: .arriving
                }
        }

        static let columns = "o.state, o.moved_to"
    }

    /// Thrown if a transaction has locked rows of owners whose data is not to be written here.
    struct OwnersElsewhere: Error {
        var places: [UserID: OwnerPlace]

        /// Returns where the owner of a write is; `nil` if the write may run here.
        func place(of write: any StoreWrite) -> OwnerPlace? {
            guard let owner = write.owner, !(write is ControlWrite) else { return nil }
            return places[owner]
        }
    }

    /// A write to what shard 1 has of every user, wherever the user's own data is: subscriptions.
    final class ControlWrite: StoreWrite {
        private let base: any StoreWrite

        init(_ base: any StoreWrite) { self.base = base }

        var user: UserID? { base.user }
        var owner: UserID? { base.owner }
        var prefetch: Prefetch { base.prefetch }

        func run(in writer: any StoreWriter) { base.run(in: writer) }

        func finish(_ failure: RelayError?) { base.finish(failure) }
    }

    /// What a store needs of the other shards of its container.
    struct ShardPeers: Sendable {
        /// The shard that asks.
        let number: Int
        let epochOfNewOwners: UInt64?
        private let container: WeakContainer

        init(_ number: Int, of container: WeakContainer, epochOfNewOwners: UInt64?) {
            self.number = number
            self.container = container
            self.epochOfNewOwners = epochOfNewOwners
        }

        /// A container that may have been closed.
        final class WeakContainer: Sendable {
            private struct Box {
                weak var container: ShardedStore?
            }

            private let box = Mutex(Box())

            func set(_ container: ShardedStore) { box.withLock { $0.container = container } }

            var container: ShardedStore? { box.withLock { $0.container } }
        }

        private func open() throws(PostgresError) -> ShardedStore {
            guard let open = container.container else { throw PostgresError(.busy, "The store is closed.") }
            return open
        }

        /// The version of the schema that shard 1 has, as far as this process knows.
        var newestSchema: Int { number > 1 ? container.container?.control.knownSchema.version ?? 0 : 0 }

        /// Returns the schema from shard 1; `nil` if that is the shard that asks.
        func schema(atLeast version: Int) throws(PostgresError) -> Schema? {
            number > 1 ? try open().schema(atLeast: version) : nil
        }

        /// Returns the schema that a transaction sees: from shard 1, or from the database itself if that is shard 1.
        static func schema(
            of peers: ShardPeers?,
            _ versions: HomeVersions,
            _ transaction: PostgresTransaction
        ) throws(PostgresError) -> Schema {
            if let schema = try peers?.schema(atLeast: versions.schema) { return schema }
            return try PostgresSchemaRows(transaction).read()
        }

        /// Replaces the definitions of types; `nil` if the schema is no longer the one of this version.
        func define(_ types: [String: RecordType], over version: Int) throws(PostgresError) -> Schema? {
            try open().control.define(types, over: version)
        }

        /// Brings the shard up to the schema of shard 1.
        func followSchema() { try? container.container?.follow(number) }

        /// Returns the record types that query subscriptions watch; `nil` if they are in the database that asks.
        func watchedTypes() throws(PostgresError) -> Set<String>? { number > 1 ? try open().watchedTypes() : nil }

        /// Lets the shared databases of users look at this shard from now on.
        func admit(_ users: Set<UserID>) throws(PostgresError) { try open().admit(users, to: number) }

        /// Tells shard 1 whether an owner here has a default zone, which makes the owner a user.
        ///
        /// Before the commit that makes or deletes the zone: if that fails, the count of users is off by one until the next
        /// attempt.
        func note(_ owner: UserID, isUser: Bool) throws(PostgresError) { try open().note(owner, isUser: isUser) }

        /// Returns those of the assets that are stored, and keeps them for as long as a new upload.
        func renewStored(_ hashes: Set<AssetHash>) throws(PostgresError) -> Set<AssetHash> {
            try open().renewStored(hashes)
        }

        /// Query subscriptions have changed: the other shards must match their commits with the new ones.
        func subscriptionsChanged(to version: UInt64) { container.container?.subscriptionsChanged() }

        enum Destination {
            case control
            case owner(OwnerPlace)
        }

        /// Passes on a write that must not run here.
        func handOver(_ write: any StoreWrite, _ destination: Destination) {
            guard let container = container.container else { return write.finish(.notCarriedOut) }
            container.handOver(write, from: number, destination)
        }
    }
#endif
