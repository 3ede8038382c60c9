package import Records

/// Where a container keeps its records in one environment: what the relay's decisions need of it, and no more.
///
/// Reads see one committed state each. Writes are carried out one after the other, many to a commit. Calls take
/// batches, so that a store across a network would serve as well.
package protocol Store: Sendable {
    /// One is drawn when the store is made, when it is restored, and for every life of it in which something is written; part
    /// of every token.
    var epochs: Epochs { get }

    /// The schema as of the latest commit, mostly without a look at the disk: for what is prepared ahead of a write, and for
    /// reading requests.
    var currentSchema: Schema { get }

    /// Runs `body` on one committed state, on the caller's thread. Throws what `body` throws, and `RelayError` with
    /// `tryAgainLater` where the store cannot be read.
    func read<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) throws(RelayError) -> Result

    /// Like `read`, for a body that asks for pages of queries: makes the indexes that they lack, which may take seconds the
    /// first time, and runs `body` again.
    func query<Result>(_ body: (any StoreReader) throws(RelayError) -> Result) async throws(RelayError) -> Result

    /// Carries `write` out in the next commit.
    func write(_ write: any StoreWrite)
}

/// Every container's store in each environment, opened when somebody asks for it.
package protocol StoreCatalog: Sendable {
    /// The store, made where there was none; the caller has seen that the container exists.
    func store(of home: ContainerEnvironment) throws(RelayError) -> any Store

    /// Whether somebody has used the environment.
    func isThere(_ home: ContainerEnvironment) -> Bool

    /// The container's assets; likewise.
    func assets(of home: ContainerEnvironment) throws(RelayError) -> any AssetKeep
}

/// One committed state of a store.
package protocol StoreReader {
    /// The schema as of this state.
    var schema: Schema { get throws(RelayError) }

    /// The live zone of this address; the public database's zones have `Zone.publicOwner`.
    func zone(_ id: ZoneID) throws(RelayError) -> Zone?

    /// The owner's zones that have not ended, in the order of their latest changes; costs nothing for those that have.
    func livingZones(of owner: UserID) throws(RelayError) -> [Zone]

    /// Those that have ended after a change, in the order of their ends.
    func endedZones(of owner: UserID, after change: UInt64) throws(RelayError) -> [Zone]

    /// How the zone of this identity ended; `nil` where there was none of this address, or it is there.
    func loss(of id: ZoneID, identity: UInt64) throws(RelayError) -> ZoneLoss?

    /// The change with which the last of them ended; 0 where none has.
    func lastEnd(ofZonesOf owner: UserID) throws(RelayError) -> UInt64

    /// How many zones a user has, without the ended ones; costs nothing for those.
    func zoneCount(of owner: UserID) throws(RelayError) -> Int

    /// The records of these names, tombstones included; absent ones are left out.
    ///
    /// Without fields, they have none but what a share is made of: a megabyte each need not be read.
    func records(named names: [String], in zone: Zone, withFields: Bool) throws(RelayError) -> [String: StoredRecord]

    /// Hands over what binds the record of this name, DELETE_SELF first, until `visit` says false.
    func visitReferences(
        to target: String,
        in zone: Zone,
        _ visit: (StoredReference) -> Bool
    ) throws(RelayError)

    /// How many references with DELETE_SELF lead to the record, counted up to `limit`.
    func countDeleteSelf(to target: String, in zone: Zone, atMost limit: Int) throws(RelayError) -> Int

    /// How many live records have their latest change after `change`; `nil` where only part of the zone may be seen, and
    /// where there are more than `limit`.
    ///
    /// Looks at each of them: for the start of a long walk, not for every page.
    func countLive(in zone: Zone, after change: UInt64, atMost limit: Int) throws(RelayError) -> Int?

    /// The latest change of a tombstone that the zone's feed has forgotten; 0 where it has all of them.
    ///
    /// Of a zone in the view of a participant, that of what the view shows.
    func horizon(of zone: Zone) throws(RelayError) -> UInt64

    /// Hands over each record whose latest change is in `range`, tombstones included, `limit` of them at most, in the
    /// order of the changes or backwards; with its place in the feed, which is the number of that change.
    ///
    /// Where only the living are wanted, tombstones may be left out, and cost nothing then.
    ///
    /// Of a zone in the view of a participant, what the view shows; there a record that has come into sight has a place of
    /// its own, and one that has gone out of it is a tombstone.
    ///
    /// Where `wholeTypes` is given, plain records of all other types come as they lie in their rows, if the store has such.
    /// Once `visit` says false, no more come.
    func visitRecords(
        in zone: Zone,
        changes range: ClosedRange<UInt64>,
        states: FeedStates,
        backwards: Bool,
        limit: Int,
        lendingAllBut wholeTypes: Set<String>?,
        _ visit: (VisitedRecord, _ position: UInt64) -> Bool
    ) throws(RelayError)

    /// The live records of `zones` together that match, in the order of `QueryOrder`, from just after `position` on.
    ///
    /// As many as `limit`, or as fit into `bytes`, and one at least where there is one. Throws `tryAgainLater` where it would
    /// have to look at too much.
    func page(
        of query: Query,
        in zones: [Zone],
        after position: Query.Position?,
        limit: Int,
        bytes: Int
    ) throws(RelayError) -> QueryPage

    func subscriptions(of user: UserID, in scope: DatabaseScope) throws(RelayError) -> [Subscription]

    /// Those in all databases, with the scope of each.
    func subscriptions(of user: UserID) throws(RelayError) -> [(scope: DatabaseScope, subscription: Subscription)]

    /// How many of the zone's records use this asset; more than two count as two.
    func assetUses(_ hash: AssetHash, in zone: Zone) throws(RelayError) -> Int

    /// Bytes in all live zones of this owner.
    func storageUse(of owner: UserID) throws(RelayError) -> StorageUse

    /// How many users have come here themselves; whoever owns the public database is none, nor is who was only named.
    var userCount: Int { get throws(RelayError) }

    /// Bytes that the public database has sent in this month, as far as they were added.
    func transfer(in month: CalendarMonth) throws(RelayError) -> Int64

    /// The zone as this user sees it, something in it being shared with them; `nil` where nothing is.
    func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone?

    /// All that is shared with the user, and as deleted all that was, in the order of their latest changes.
    func zones(sharedWith user: UserID) throws(RelayError) -> [Zone]

    /// Which share covers each of these records, by the store's numbers; those in none are left out.
    func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64]

    /// The share that this link leads to.
    func share(ofLink shortGUID: String) throws(RelayError) -> SharePlace?

    /// The shares to which an invitation waits for one of these addresses.
    func shares(inviting contacts: [Share.Contact]) throws(RelayError) -> [SharePlace]
}

/// Which states of records a feed is to show.
package enum FeedStates: Sendable {
    case all
    /// No tombstones.
    case living
}

extension Store {
    /// The epoch that runs.
    package var epoch: UInt64 { epochs.current }
}

extension StoreReader {
    /// The same, with every record whole.
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
            lendingAllBut: nil
        ) {
            if case .whole(let record) = $0 { visit(record, $1) }
            return true
        }
    }
}

/// Where a share's record is.
package struct SharePlace: Hashable, Sendable {
    /// As its owner sees it.
    package var zone: Zone
    package var record: String

    package init(zone: Zone, record: String) {
        self.zone = zone
        self.record = record
    }
}

/// The state that the next commit will make, while it is being made.
package protocol StoreWriter: StoreReader {
    /// Whether an asset of this content is there to be used.
    func hasAsset(_ hash: AssetHash) -> Bool

    /// Adds to what `transfer` tells.
    func addTransfer(_ bytes: Int64, in month: CalendarMonth) throws(RelayError)

    /// What this user's write of that name has done; `nil` for one that was never kept, or is forgotten.
    func doneWrite(_ id: String, by user: UserID) throws(RelayError) -> DoneWrite?

    /// Keeps what a write has done, in place of what was kept under that name; the oldest are forgotten for it in time.
    func keep(_ done: DoneWrite, as id: String, by user: UserID) throws(RelayError)

    /// Keeps the signature for as long as it is good; `false` where a write of it has been kept before.
    func keep(_ signature: SignatureMark) throws(RelayError) -> Bool

    /// The next change number: greater than all before it, and never given twice.
    func takeChangeNumber() -> UInt64

    /// Adds a zone under a new change number. The caller has seen that there is none of that name.
    func makeZone(_ id: ZoneID, by device: String) throws(RelayError) -> Zone

    /// Ends a zone under a new change number: its records are gone, its own tombstone stays, with the zone's `loss`.
    func deleteZone(_ zone: Zone, by device: String) throws(RelayError)

    /// Puts records in place of those of the same names, and stamps the zone with the greatest of their numbers.
    ///
    /// `replaced` are those it read before, `device` the one that needs no notice on it, being of the user who is the last
    /// record's modifier. What share records say of access holds from then on.
    func put(_ records: [StoredRecord], replacing replaced: [String: StoredRecord], in zone: Zone, by device: String)
        throws(RelayError)

    /// Replaces the definitions of these types and makes this the schema's next version.
    func define(_ types: [String: RecordType]) throws(RelayError)

    /// Whether some record below this one, through `parent`, is the root of a share.
    func hasShareRoot(below name: String, in zone: Zone) throws(RelayError) -> Bool

    /// From now on shows all who see this share the record kept as `kept` under the name `shown`, and whatever is kept
    /// as `shown` under the name `kept`.
    func show(_ kept: String, as shown: String, in share: Int64, of zone: Zone) throws(RelayError)

    /// Makes a user the one meant by invitations to these addresses that are nobody's yet, but for those to the user's own
    /// zones; nobody is told of it.
    func giveInvitations(to contacts: [Share.Contact], to user: UserID) throws(RelayError)

    func put(_ subscriptions: [Subscription], of user: UserID, in scope: DatabaseScope) throws(RelayError)
    func deleteSubscriptions(ids: [String], of user: UserID, in scope: DatabaseScope) throws(RelayError)
}

/// A zone and how far its change log has come.
package struct Zone: Hashable, Sendable {
    /// The store's own number for it; never used again.
    package var number: Int64
    package var id: ZoneID
    /// Drawn when the zone was made: part of its tokens, so that a later zone of the same name refuses them.
    package var identity: UInt64
    /// The number of its latest change.
    package var lastChange: UInt64
    package var isDeleted: Bool
    /// The latest time that a record of the public database's zone was stamped with, deleted ones included; of other zones it
    /// is not kept.
    package var lastModified = Timestamp(milliseconds: 0)
    /// Why it is gone, or is about to go.
    package var loss = ZoneLoss.deleted
    /// What its records and their assets take.
    package var use = StorageUse()
    package var sharing: Sharing
    /// What a participant sees of it; `nil`: all, being its owner's.
    package var view: ZoneView?

    /// What of a zone is shared; the raw values are those of its row.
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

    /// Owns the public database's one zone.
    ///
    /// No user can have this name.
    package static let publicOwner = UserID("_defaultOwner")

    /// Whether it keeps a change log that clients may follow.
    ///
    /// See Errors.md, "Database scopes".
    package var tracksChanges: Bool { !id.isDefault }

    package var isPublic: Bool { id.owner == Self.publicOwner }

    /// When a change that is made now is to have been made.
    ///
    /// The public database is followed by times of modification and nothing else: there none is before an earlier one's, also
    /// where the clock was ahead and has been set right. Each is then a millisecond after the last, until the clock is there.
    package func stamp(at now: Timestamp) -> Timestamp {
        guard isPublic, now < lastModified else { return now }
        return Timestamp(milliseconds: lastModified.milliseconds + 1)
    }
}

/// Some of a query's results.
package struct QueryPage: Sendable {
    /// Each with the zone it is from.
    package var records: [(zone: ZoneID, record: StoredRecord)]
    /// Where the next page starts; `nil` when this was the last.
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
