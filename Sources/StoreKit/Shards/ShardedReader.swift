package import Records
package import RelayCore

/// The shards of one container, as one access reads them.
///
/// A shard is a database with the data of some owners. Shard 1 also has the public database, the schema, the
/// subscriptions of all users, and says where every other owner is.
package protocol ShardReaders: AnyObject {
    /// The schema of the container.
    var schema: Schema { get throws(RelayError) }

    /// Returns the numbers of these shards.
    func numbers(of shards: ShardSelection) throws(RelayError) -> [Int]

    /// Returns the reader of a shard, the same one for the whole access; called by several threads at once.
    func reader(ofShard number: Int) throws(RelayError) -> any StoreReader

    /// Returns the reader of the shard that has the owner's data, once that shard has confirmed that it does.
    func reader(of owner: UserID) throws(RelayError) -> any StoreReader

    /// Calls `body` with each number below `count`, at the same time, and returns after all of them.
    func concurrently(_ count: Int, _ body: (Int) -> Void)

    /// Some owners could not be read for this user, whose devices have to ask again; `nil` if it concerns no user.
    func noteMissing(_ shards: [Int], for user: UserID?)
}

package enum ShardSelection: Sendable {
    case all
    /// Those that may have zones shared with this user.
    case visited(by: UserID)
}

/// Reads a store whose owners are spread over several shards.
///
/// What concerns one owner is read from the owner's shard. Lists that go over all owners are read from all shards at once
/// and merged; a shard that cannot be reached is left out, and `lacksOwners` says so.
package final class ShardedReader: StoreReader {
    /// The shard with what belongs to no single owner.
    package static let control = 1

    private let shards: any ShardReaders
    package private(set) var lacksOwners = false

    package init(_ shards: any ShardReaders) { self.shards = shards }

    private var control: any StoreReader {
        get throws(RelayError) { try shards.reader(ofShard: Self.control) }
    }

    private func reader(of zone: Zone) throws(RelayError) -> any StoreReader {
        try shards.reader(of: zone.id.owner)
    }

    /// Returns what `body` returns for each of these shards, without those that cannot be reached.
    private func each<Result>(
        _ selection: ShardSelection,
        for user: UserID? = nil,
        _ body: (any StoreReader) throws(RelayError) -> Result
    ) throws(RelayError) -> [Result] {
        let numbers = try shards.numbers(of: selection)
        let outcomes = outcomes(numbers.count) { place throws(RelayError) in
            try body(try self.shards.reader(ofShard: numbers[place]))
        }
        var (found, missing): ([Result], [Int]) = ([], [])
        for (number, outcome) in zip(numbers, outcomes) {
            switch outcome {
            case .success(let result): found.append(result)
            // Without the control database nothing works.
            case .failure(let error) where number == Self.control || error.code != .tryAgainLater: throw error
            case .failure: missing.append(number)
            }
        }
        if !missing.isEmpty {
            lacksOwners = true
            shards.noteMissing(missing, for: user)
        }
        return found
    }

    /// Runs `body` for each place below `count` at the same time.
    private func outcomes<Result>(
        _ count: Int,
        _ body: (Int) throws(RelayError) -> Result
    ) -> [Swift.Result<Result, RelayError>] {
        func outcome(_ place: Int) -> Swift.Result<Result, RelayError> {
            do throws(RelayError) { return .success(try body(place)) } catch { return .failure(error) }
        }
        guard count > 1 else { return (0..<count).map(outcome) }
        var outcomes = [Swift.Result<Result, RelayError>?](repeating: nil, count: count)
        outcomes.withUnsafeMutableBufferPointer { places in
            shards.concurrently(count) { places[$0] = outcome($0) }
        }
        return outcomes.map { $0 ?? .failure(.notCarriedOut) }
    }

    // MARK: The container

    package var schema: Schema { get throws(RelayError) { try shards.schema } }

    package var subscriptionsVersion: UInt64 { get throws(RelayError) { try control.subscriptionsVersion } }

    package func subscriptions(of user: UserID, in scope: DatabaseScope) throws(RelayError) -> [Subscription] {
        try control.subscriptions(of: user, in: scope)
    }

    package func subscriptions(
        of user: UserID
    ) throws(RelayError) -> [(scope: DatabaseScope, subscription: Subscription)] {
        try control.subscriptions(of: user)
    }

    package func querySubscriptions() throws(RelayError) -> [CommittedSubscription] {
        try control.querySubscriptions()
    }

    package func transfer(in month: CalendarMonth) throws(RelayError) -> Int64 { try control.transfer(in: month) }

    package var userCount: Int {
        get throws(RelayError) { try control.userCount }
    }

    // MARK: One owner

    package func zone(_ id: ZoneID) throws(RelayError) -> Zone? { try shards.reader(of: id.owner).zone(id) }

    package func liveZones(of owner: UserID) throws(RelayError) -> [Zone] {
        try shards.reader(of: owner).liveZones(of: owner)
    }

    package func endedZones(of owner: UserID, after change: UInt64) throws(RelayError) -> [Zone] {
        try shards.reader(of: owner).endedZones(of: owner, after: change)
    }

    package func deletionReason(of id: ZoneID, identity: UInt64) throws(RelayError) -> ZoneDeletionReason? {
        try shards.reader(of: id.owner).deletionReason(of: id, identity: identity)
    }

    package func lastDeletion(ofZonesOf owner: UserID) throws(RelayError) -> UInt64 {
        try shards.reader(of: owner).lastDeletion(ofZonesOf: owner)
    }

    package func zoneCount(of owner: UserID) throws(RelayError) -> Int {
        try shards.reader(of: owner).zoneCount(of: owner)
    }

    package func storageUse(of owner: UserID) throws(RelayError) -> StorageUse {
        try shards.reader(of: owner).storageUse(of: owner)
    }

    package func zone(_ id: ZoneID, sharedWith user: UserID) throws(RelayError) -> Zone? {
        try shards.reader(of: id.owner).zone(id, sharedWith: user)
    }

    package func zones(in view: OwnerView, after change: UInt64) throws(RelayError) -> [Zone] {
        try shards.reader(of: view.owner).zones(in: view, after: change)
    }

    // MARK: One zone

    package func records(
        named names: [String],
        in zone: Zone,
        withFields: Bool
    ) throws(RelayError) -> [String: StoredRecord] {
        try reader(of: zone).records(named: names, in: zone, withFields: withFields)
    }

    package func visitReferences(
        to targets: [String],
        in zone: Zone,
        _ visit: (StoredReference) -> ReferenceVisit
    ) throws(RelayError) {
        try reader(of: zone).visitReferences(to: targets, in: zone, visit)
    }

    package func countDeleteSelf(
        to targets: [String],
        in zone: Zone,
        atMost limit: Int
    ) throws(RelayError) -> [String: Int] {
        try reader(of: zone).countDeleteSelf(to: targets, in: zone, atMost: limit)
    }

    package func countLive(in zone: Zone, after change: UInt64, atMost limit: Int) throws(RelayError) -> Int? {
        try reader(of: zone).countLive(in: zone, after: change, atMost: limit)
    }

    package func horizon(of zone: Zone) throws(RelayError) -> UInt64 { try reader(of: zone).horizon(of: zone) }

    package func visitRecords(
        in zone: Zone,
        changes range: ClosedRange<UInt64>,
        states: FeedFilter,
        backwards: Bool,
        limit: Int,
        rowsExceptFor wholeTypes: Set<String>?,
        _ visit: (VisitedRecord, UInt64) -> Bool
    ) throws(RelayError) {
        try reader(of: zone).visitRecords(
            in: zone,
            changes: range,
            states: states,
            backwards: backwards,
            limit: limit,
            rowsExceptFor: wholeTypes,
            visit
        )
    }

    package func assetUses(of hashes: Set<AssetHash>, in zone: Zone) throws(RelayError) -> [AssetHash: Int] {
        try reader(of: zone).assetUses(of: hashes, in: zone)
    }

    package func shares(covering names: [String], in zone: Zone) throws(RelayError) -> [String: Int64] {
        try reader(of: zone).shares(covering: names, in: zone)
    }

    // MARK: All owners

    package func zones(sharedWith user: UserID) throws(RelayError) -> [Zone] {
        let found = try each(.visited(by: user), for: user) { reader throws(RelayError) in
            try reader.zones(sharedWith: user)
        }
        var lists: [UserID: [Zone]] = [:]
        for zones in found {
            for (owner, zones) in Dictionary(grouping: zones, by: \.id.owner) {
                // An owner who is just being moved is on two shards for a moment: one of them has all changes.
                let known = lists[owner]?.last?.lastChange ?? 0
                if lists[owner] == nil || zones.last?.lastChange ?? 0 > known { lists[owner] = zones }
            }
        }
        return lists.values.flatMap(\.self).sorted { $0.lastChange < $1.lastChange }
    }

    package func share(ofLink shortGUID: String) throws(RelayError) -> ShareLocation? {
        let found = try each(.all) { reader throws(RelayError) in try reader.share(ofLink: shortGUID) }
        if let place = found.compactMap(\.self).max(by: { $0.zone.lastChange < $1.zone.lastChange }) { return place }
        // The link may belong to a share that cannot be reached.
        guard !lacksOwners else { throw .ownersAreMissing }
        return nil
    }

    package func shares(inviting contacts: [Share.Contact]) throws(RelayError) -> [ShareLocation] {
        try each(.all) { reader throws(RelayError) in try reader.shares(inviting: contacts) }.flatMap(\.self)
    }

    package func lastChanges(seenBy users: [UserID]) throws(RelayError) -> [OwnerView: UInt64] {
        let found = try each(.all) { reader throws(RelayError) in try reader.lastChanges(seenBy: users) }
        // A shard without an owner's data says 0; numbers only grow when an owner moves.
        return found.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: max) }
    }

    // MARK: Queries

    package func page(
        of query: Query,
        in zones: [Zone],
        after position: Query.Position?,
        limit: Int,
        bytes: Int
    ) throws(RelayError) -> QueryPage {
        var groups: [(reader: any StoreReader, zones: [Zone])] = []
        for zone in zones {
            let reader = try reader(of: zone)
            if let place = groups.firstIndex(where: { $0.reader === reader }) {
                groups[place].zones.append(zone)
            } else {
                groups.append((reader, [zone]))
            }
        }
        let pages = outcomes(groups.count) { place throws(RelayError) in
            try groups[place].reader.page(
                of: query,
                in: groups[place].zones,
                after: position,
                limit: limit,
                bytes: bytes
            )
        }
        var parts: [QueryPage] = []
        for page in pages { parts.append(try page.get()) }
        return try MergedPage(of: query, limit: limit, bytes: bytes).merge(parts)
    }
}
