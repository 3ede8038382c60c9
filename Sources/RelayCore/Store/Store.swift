package import Records

/// Persistent storage for one container in one environment.
///
/// Each read sees one committed state. Writes run one at a time, and several share a commit. Calls take batches so that
/// a store on another machine needs few round trips.
package protocol Store: Sendable {
    /// Returns the epochs of an owner's data, past and current.
    ///
    /// A new epoch begins when the store is created, and when a restore or the loss of a server may have taken its latest
    /// commits; a store of one process also begins one at the first write after the process starts. Every change token
    /// contains the epoch in which it was issued. Usually answered from memory.
    ///
    /// Throws `tryAgainLater` if the store cannot be read.
    func epochs(of owner: UserID) throws(RelayError) -> Epochs

    /// The schema as of the latest commit, usually answered from memory.
    ///
    /// For preparing writes and for decoding requests.
    var currentSchema: Schema { get }

    /// Runs `body` on one committed state, on the caller's thread.
    ///
    /// Throws what `body` throws, and `RelayError` with `tryAgainLater` if the store cannot be read.
    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result

    /// Runs a body that pages through query results.
    ///
    /// Builds the indexes that the query needs if they are missing, then runs `body` again. The first call for a large
    /// record type can take seconds.
    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result

    /// Does the same for a body that reads the public database alone.
    ///
    /// May answer from a copy of the store that is a few seconds old. A page that continues an earlier one may come from an
    /// older copy than that one: it starts at a position, so records that do not change meanwhile are returned once.
    func publicQuery<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result

    /// Runs `write` as part of the next commit.
    func write(_ write: any StoreWrite)
}

extension Store {
    /// Reads the store itself, as a store without copies does.
    package func publicQuery<Result>(
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) async throws(RelayError) -> Result {
        try await query(body)
    }
}

/// The stores of all containers and environments, opened on demand.
package protocol StoreCatalog: Sendable {
    /// Where requests have to run if reads may block for long, as over a network; `nil` if they take microseconds, so
    /// that they may run on an event loop.
    ///
    /// Holds for all stores, for opening them, and for the directory beside them.
    var executor: (any TaskExecutor)? { get }

    /// Returns the store, creating it if necessary; the caller has checked that the container exists.
    func store(of home: ContainerEnvironment) throws(RelayError) -> any Store

    /// Returns whether the environment has a store, that is, has been used.
    func isThere(_ home: ContainerEnvironment) -> Bool

    /// Returns the container's assets, creating the folder if necessary; the caller has checked that the container
    /// exists.
    func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetStore
}

/// One committed state of a store.
package protocol StoreReader: AnyObject {
    /// The schema as of this state.
    var schema: Schema { get throws(RelayError) }

    /// Returns the live zone with this ID; zones of the public database have the owner `Zone.publicOwner`.
    func zone(_ id: ZoneID) throws(RelayError) -> Zone?

    /// Returns the owner's live zones in the order of their latest changes; O(live zones), deleted zones are not
    /// scanned.
    func liveZones(of owner: UserID) throws(RelayError) -> [Zone]

    /// Returns the zones that were deleted after a change, in the order of their deletion.
    func endedZones(of owner: UserID, after change: UInt64) throws(RelayError) -> [Zone]

    /// Returns how a zone was deleted; `nil` if no zone had this ID and identity, or if it still exists.
    func deletionReason(of id: ZoneID, identity: UInt64) throws(RelayError) -> ZoneDeletionReason?

    /// Returns the change number of the owner's latest zone deletion; 0 if there was none.
    func lastDeletion(ofZonesOf owner: UserID) throws(RelayError) -> UInt64

    /// Returns the number of a user's live zones; deleted zones are not scanned.
    func zoneCount(of owner: UserID) throws(RelayError) -> Int

    /// Returns the records with these names, tombstones included; records that do not exist are left out.
    ///
    /// Without `withFields`, the result has only the fields that a share needs, so that large field values are not
    /// read.
    func records(named names: [String], in zone: Zone, withFields: Bool) throws(RelayError) -> [String: StoredRecord]

    /// Visits the references that point to these records, target by target in the order of `targets`.
    ///
    /// Visits each target's `DELETE_SELF` references first.
    func visitReferences(
        to targets: [String],
        in zone: Zone,
        _ visit: (StoredReference) -> ReferenceVisit
    ) throws(RelayError)

    /// Counts the references with `DELETE_SELF` that point to each of these records, up to `limit` each.
    func countDeleteSelf(
        to targets: [String],
        in zone: Zone,
        atMost limit: Int
    ) throws(RelayError) -> [String: Int]

    /// Counts the live records whose latest change is after `change`.
    ///
    /// Returns `nil` if the caller sees only part of the zone, and if the count exceeds `limit`. O(counted records):
    /// call it at the start of a long series of pages, not for every page.
    func countLive(in zone: Zone, after change: UInt64, atMost limit: Int) throws(RelayError) -> Int?

    /// Returns the change number of the newest tombstone removed from the zone's feed; 0 if the feed is complete.
    ///
    /// For a participant's view of a zone, only tombstones of records in the view count.
    func horizon(of zone: Zone) throws(RelayError) -> UInt64

    /// Visits the records whose latest change is in `range`, tombstones included, `limit` of them at most.
    ///
    /// Visits them in the order of their changes, or backwards. The position passed to `visit` is the number of that
    /// change. With `FeedFilter.living`, tombstones may be left out; they then cost nothing.
    ///
    /// For a participant's view of a zone, visits what the view shows. A record that became visible has a position of
    /// its own, and one that became invisible is visited as a tombstone.
    ///
    /// If `wholeTypes` is given, plain records of all other types are passed as rows (`VisitedRecord.lent`), if the
    /// store supports that. Stops when `visit` returns `false`.
    func visitRecords(
        in zone: Zone,
        changes range: ClosedRange<UInt64>,
        states: FeedFilter,
        backwards: Bool,
        limit: Int,
        rowsExceptFor wholeTypes: Set<String>?,
        _ visit: (VisitedRecord, _ position: UInt64) -> Bool
    ) throws(RelayError)

    /// Returns the live records of all `zones` that match, in the order of `QueryOrder`, starting after `position`.
    ///
    /// Returns at most `limit` records and stops after about `bytes`, but returns at least one record if any matches.
    /// Throws `tryAgainLater` if the query would have to read too much.
    func page(
        of query: Query,
        in zones: [Zone],
        after position: Query.Position?,
        limit: Int,
        bytes: Int
    ) throws(RelayError) -> QueryPage

    func subscriptions(of user: UserID, in scope: DatabaseScope) throws(RelayError) -> [Subscription]

    /// Returns the user's subscriptions in all databases, with the scope of each.
    func subscriptions(of user: UserID) throws(RelayError) -> [(scope: DatabaseScope, subscription: Subscription)]

    /// Returns how many of the zone's records use each of these assets, counting up to 2.
    func assetUses(of hashes: Set<AssetHash>, in zone: Zone) throws(RelayError) -> [AssetHash: Int]

    /// Returns the bytes stored in all live zones of this owner.
    func storageUse(of owner: UserID) throws(RelayError) -> StorageUse

    /// The number of users who have sent a request to this container.
    ///
    /// Neither the public database's owner nor a user who was only mentioned, for example invited, counts.
    var userCount: Int { get throws(RelayError) }

    /// Returns the bytes that the public database has sent in this month, as far as `addTransfer` has recorded them.
    func transfer(in month: CalendarMonth) throws(RelayError) -> Int64

    /// Returns the zone as this user sees it; `nil` if nothing in it is shared with them.
    func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone?

    /// Returns the zones with data shared with the user, those of each owner in the order of their latest changes.
    ///
    /// Zones that are no longer shared are included, marked as deleted.
    func zones(sharedWith user: UserID) throws(RelayError) -> [Zone]

    /// Returns the store's number of the share that covers each of these records; records outside shares are left out.
    func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64]

    /// Returns the share with this link.
    func share(ofLink shortGUID: String) throws(RelayError) -> ShareLocation?

    /// Returns the shares that have a pending invitation for one of these addresses.
    func shares(inviting contacts: [Share.Contact]) throws(RelayError) -> [ShareLocation]

    /// A number that grows with each commit that changes subscriptions of any user.
    var subscriptionsVersion: UInt64 { get throws(RelayError) }

    /// Returns the query subscriptions of all users, as if they had just been created.
    func querySubscriptions() throws(RelayError) -> [CommittedSubscription]

    /// Returns the last change of every owner whose zones these users see; 0 if there was none.
    func lastChanges(seenBy users: [UserID]) throws(RelayError) -> [OwnerView: UInt64]

    /// Returns the zones of a view that have changed after `change`, ended ones included.
    func zones(in view: OwnerView, after change: UInt64) throws(RelayError) -> [Zone]

    /// Whether something that was read from the data of several owners lacks some of them, since the database that has
    /// them cannot be reached now.
    ///
    /// Concerns the zones, changes, shares and counts of users without a named owner. Data of a named owner that cannot be
    /// reached is an error instead.
    var lacksOwners: Bool { get }
}

/// What follows a visited reference.
package enum ReferenceVisit: Sendable {
    case next
    /// Skips the other references to the same target.
    case nextTarget
    case stop
}

/// The record states that a feed shows.
package enum FeedFilter: Sendable {
    case all
    /// No tombstones.
    case living
}

extension StoreReader {
    // A store in one place has everything or nothing.
    package var lacksOwners: Bool { false }
}

extension Store {
    /// Returns the current epoch of an owner's data.
    package func epoch(of owner: UserID) throws(RelayError) -> UInt64 { try epochs(of: owner).current }
}

extension StoreReader {
    /// Visits records as the requirement of this name does, with every record as a `StoredRecord`.
    package func visitRecords(
        in zone: Zone,
        changes range: ClosedRange<UInt64>,
        backwards: Bool,
        limit: Int,
        _ visit: (StoredRecord, _ position: UInt64) -> Void
    ) throws(RelayError) {
        try visitRecords(
            in: zone,
            changes: range,
            states: .all,
            backwards: backwards,
            limit: limit,
            rowsExceptFor: nil
        ) {
            if case .whole(let record) = $0 { visit(record, $1) }
            return true
        }
    }
}

/// The location of a share's record.
package struct ShareLocation: Hashable, Sendable {
    /// The zone as its owner sees it.
    package var zone: Zone
    package var record: String

    package init(zone: Zone, record: String) {
        self.zone = zone
        self.record = record
    }
}

/// The state that the next commit will have, while it is being written.
package protocol StoreWriter: StoreReader {
    /// Returns those of the assets that are stored.
    func storedAssets(among hashes: Set<AssetHash>) -> Set<AssetHash>

    /// Adds to the bytes that `transfer(in:)` returns.
    func addTransfer(_ bytes: Int64, in month: CalendarMonth) throws(RelayError)

    /// Returns the outcome of the user's write with this idempotency key; `nil` if none was kept or it was evicted.
    func idempotencyRecord(_ id: String, by user: UserID) throws(RelayError) -> IdempotencyRecord?

    /// Stores the outcome of a write under its idempotency key, replacing an earlier outcome.
    ///
    /// The oldest outcomes are evicted.
    func keep(_ done: IdempotencyRecord, as id: String, by user: UserID) throws(RelayError)

    /// Stores a request signature for as long as it is valid; returns `false` if it was stored before.
    func keep(_ signature: UsedSignature) throws(RelayError) -> Bool

    /// Returns the next change number of the write's owner, greater than all earlier ones of that owner and never reused.
    ///
    /// Numbers of different owners cannot be compared.
    func takeChangeNumber() -> UInt64

    /// Creates a zone under a new change number; the caller has checked that no zone has this name.
    func makeZone(_ id: ZoneID, by device: String) throws(RelayError) -> Zone

    /// Deletes a zone and its records under a new change number, leaving a tombstone with the zone's `deletionReason`.
    func deleteZone(_ zone: Zone, by device: String) throws(RelayError)

    /// Writes records in place of those with the same names, and sets the zone's latest change to their greatest
    /// number.
    ///
    /// `replaced` are the current states, as the caller has read them. `device` needs no notice of this change; it belongs to
    /// the last record's modifier. Changes to share records take effect at once.
    func put(_ records: [StoredRecord], replacing replaced: [String: StoredRecord], in zone: Zone, by device: String)
        throws(RelayError)

    /// Replaces the definitions of these types and increments the schema's version.
    func define(_ types: [String: RecordType]) throws(RelayError)

    /// Returns those of the records that have the root of a share among their descendants, through `parent`.
    func recordsAboveShareRoots(among names: [String], in zone: Zone) throws(RelayError) -> Set<String>

    /// Swaps record names for everyone who sees the shares of the aliases.
    ///
    /// They see the record stored as `kept` under the name `shown`, and a record stored as `shown` under the name
    /// `kept`.
    func show(_ aliases: [NewRecordAlias], of zone: Zone) throws(RelayError)

    /// Assigns the pending invitations to these addresses in one owner's zones to a user.
    ///
    /// Creates no notices.
    func assignInvitations(to contacts: [Share.Contact], inZonesOf owner: UserID, to user: UserID) throws(RelayError)

    func put(_ subscriptions: [Subscription], of user: UserID, in scope: DatabaseScope) throws(RelayError)
    func deleteSubscriptions(ids: [String], of user: UserID, in scope: DatabaseScope) throws(RelayError)
}

/// A name under which a share is to show a record that is stored under another one.
package struct NewRecordAlias: Hashable, Sendable {
    package var kept: String
    package var shown: String
    package var share: Int64

    package init(_ kept: String, shownAs shown: String, in share: Int64) {
        self.kept = kept
        self.shown = shown
        self.share = share
    }
}

/// A zone and the position of its change log.
package struct Zone: Hashable, Sendable {
    /// The store's internal number for the zone; never reused.
    package var number: Int64
    package var id: ZoneID
    /// Random, drawn at creation; part of the zone's tokens, so that a later zone of the same name rejects them.
    package var identity: UInt64
    /// The number of the zone's latest change.
    package var lastChange: UInt64
    package var isDeleted: Bool
    /// The latest modification time of any record in the public database's zone, deleted ones included.
    ///
    /// Not maintained for other zones.
    package var lastModified = Timestamp(milliseconds: 0)
    /// Why the zone was deleted, or is about to be.
    package var deletionReason = ZoneDeletionReason.deleted
    /// The storage that its records and their assets use.
    package var use = StorageUse()
    package var sharing: Sharing
    /// The part of the zone that a participant sees; `nil` in the owner's view, which shows everything.
    package var view: ZoneView?

    /// How much of a zone is shared; the raw values are stored in the database.
    package enum Sharing: Int64, Hashable, Sendable {
        case nothing = 0
        case everything = 1
        case hierarchies = 2
    }

    package init(
        number: Int64,
        id: ZoneID,
        identity: UInt64,
        lastChange: UInt64,
        isDeleted: Bool = false,
        sharing: Sharing = .nothing,
        view: ZoneView? = nil
    ) {
        self.sharing = sharing
        self.view = view
        self.number = number
        self.id = id
        self.identity = identity
        self.lastChange = lastChange
        self.isDeleted = isDeleted
    }

    /// The owner of the public database's only zone.
    ///
    /// No user can have this name.
    package static let publicOwner = UserID("_defaultOwner")

    /// Whether the zone keeps a change log that clients can follow.
    ///
    /// See Errors.md, "Database scopes".
    package var tracksChanges: Bool { !id.isDefault }

    package var isPublic: Bool { id.owner == Self.publicOwner }

    /// Returns the modification time for a change made at `now`.
    ///
    /// Clients can follow the public database by modification time only, so its times never decrease, even if the clock
    /// was ahead and has been corrected. Until the clock has caught up, each time is 1 ms after the last.
    package func stamp(at now: Timestamp) -> Timestamp {
        guard isPublic, now < lastModified else { return now }
        return Timestamp(milliseconds: lastModified.milliseconds + 1)
    }
}

/// One page of a query's results.
package struct QueryPage: Sendable {
    /// The records, each with its zone.
    package var records: [(zone: ZoneID, record: StoredRecord)]
    /// The position after which the next page starts; `nil` on the last page.
    package var next: Query.Position?

    package init(records: [(zone: ZoneID, record: StoredRecord)], next: Query.Position?) {
        self.records = records
        self.next = next
    }
}

extension StoreReader {
    package func records(named names: [String], in zone: Zone) throws(RelayError) -> [String: StoredRecord] {
        try records(named: names, in: zone, withFields: true)
    }
}

/// A write and its completion, in one object that travels from the request to the store and back.
///
/// A store accesses it from one thread at a time.
package protocol StoreWrite: AnyObject, Sendable {
    /// The user who makes the request; `nil` for the relay itself.
    ///
    /// Stores use it for fairness: a user's large writes yield to those of other users.
    var user: UserID? { get }

    /// The owner whose data the write changes; it must change no other owner's data.
    ///
    /// An owner's data are their zones with everything in them, shares and access to them included, and their
    /// subscriptions. The public database is the data of `Zone.publicOwner`. The schema belongs to no owner. A stored
    /// outcome or signature belongs to the owner of the write. `nil` only for a store's own upkeep.
    var owner: UserID? { get }

    /// What the write reads first.
    var prefetch: Prefetch { get }

    /// Decides and writes, and keeps the outcome until it is durable.
    ///
    /// Must decide before it writes anything: a refused write must leave no trace. May run again if the shared commit
    /// failed because of another write.
    func run(in writer: any StoreWriter)

    /// Delivers the outcome once it is durable, or `failure` if the commit failed.
    ///
    /// Must not block the calling thread.
    func finish(_ failure: RelayError?)
}

extension Store {
    /// Runs `body` in the next commit and passes its outcome to `then` once it is durable; see `StoreWrite` for the
    /// rules.
    package func write<Value: Sendable>(
        touching owner: UserID,
        prefetch: Prefetch = Prefetch(),
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        write(ClosureWrite(touching: owner, prefetch, body, then))
    }

    /// Runs `body` in the next commit and returns once that is durable; see `StoreWrite` for the rules.
    package func write<Value: Sendable>(
        touching owner: UserID,
        prefetch: Prefetch = Prefetch(),
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value
    ) async throws(RelayError) -> Value {
        let outcome = await withUnsafeContinuation { continuation in
            write(ClosureWrite(touching: owner, prefetch, body) { continuation.resume(returning: $0) })
        }
        return try outcome.get()
    }
}

extension Store {
    /// Runs a store's upkeep of its own files in the next commit; it may touch the data of all owners.
    package func maintain<Value: Sendable>(
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value
    ) async throws(RelayError) -> Value {
        let outcome = await withUnsafeContinuation { continuation in
            write(ClosureWrite(touching: nil, Prefetch(), body) { continuation.resume(returning: $0) })
        }
        return try outcome.get()
    }
}

/// A `StoreWrite` made of two closures.
// Unchecked because of `outcome`: once enqueued, only the store touches it, from one thread at a time.
private final class ClosureWrite<Value: Sendable>: StoreWrite, @unchecked Sendable {
    var user: UserID? { nil }
    let owner: UserID?
    let prefetch: Prefetch
    private var outcome: Result<Value, RelayError>?
    private let body: @Sendable (any StoreWriter) throws(RelayError) -> Value
    private let then: @Sendable (Result<Value, RelayError>) -> Void

    init(
        touching owner: UserID?,
        _ prefetch: Prefetch,
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Value,
        _ then: @escaping @Sendable (Result<Value, RelayError>) -> Void
    ) {
        self.owner = owner
        self.prefetch = prefetch
        self.body = body
        self.then = then
    }

    func run(in writer: any StoreWriter) {
        do throws(RelayError) {
            outcome = .success(try body(writer))
        } catch {
            outcome = .failure(error)
        }
    }

    func finish(_ failure: RelayError?) {
        then(failure.map { .failure($0) } ?? outcome ?? .failure(.notCarriedOut))
    }
}

extension RelayError {
    /// The error of a write that was never run, for an unknown reason.
    package static let notCarriedOut = RelayError(
        .tryAgainLater,
        "The store cannot write now.",
        retryAfter: .seconds(5)
    )
}
