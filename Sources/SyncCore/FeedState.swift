package import Records

/// A client's progress in one database's change feeds.
///
/// Must be stored in the same transaction as the data: losing it costs a full fetch, and storing it without the data
/// loses changes.
package struct FeedState: Equatable, Sendable {
    package var databaseToken: SyncToken?
    package var zoneTokens: [ZoneID: SyncToken] = [:]
    /// Zones that are known to have changed and are not fully fetched, in the order in which this became known.
    package private(set) var unfetched: [ZoneID] = []
    /// The zones seen so far while the database is listed from the beginning; `nil` at all other times.
    package private(set) var listing: Set<ZoneID>?
    /// Zones that did not exist when they were fetched, and whose deletion the database's feed has not reported yet.
    package private(set) var vanished: Set<ZoneID>
    /// Zones that this client created or wrote to while the database is being listed.
    ///
    /// If the listing omits one of them, it may have been read before the write, or the zone may have been deleted
    /// since.
    package private(set) var written: Set<ZoneID>
    private var mustListAgain = false

    package init(
        databaseToken: SyncToken? = nil,
        zoneTokens: [ZoneID: SyncToken] = [:],
        unfetched: [ZoneID] = [],
        listing: Set<ZoneID>? = nil,
        vanished: Set<ZoneID> = [],
        written: Set<ZoneID> = []
    ) {
        self.vanished = vanished
        self.written = written
        self.listing = listing
        self.databaseToken = databaseToken
        self.zoneTokens = zoneTokens
        self.unfetched = unfetched
    }

    package mutating func changed(_ zone: ZoneID) {
        if !unfetched.contains(zone) { unfetched.append(zone) }
    }

    /// Records that a zone did not exist when it was fetched.
    mutating func zoneFoundMissing(_ zone: ZoneID) {
        lost(zone)
        vanished.insert(zone)
    }

    /// Records that the database's feed reports a zone as deleted.
    mutating func deletionReported(_ zone: ZoneID) {
        lost(zone)
        vanished.remove(zone)
    }

    /// Records that this client created the zone, and therefore knows that it did not exist.
    package mutating func zoneCreated(_ zone: ZoneID) { vanished.remove(zone) }

    /// Records that the relay has accepted a write to a zone, or has created it.
    package mutating func wrote(_ zone: ZoneID) {
        if listing != nil { written.insert(zone) }
    }

    /// Starts listing the database from the beginning.
    mutating func listingBegan() {
        listing = []
        written = []
    }

    /// Ends the listing of the database.
    mutating func listingEnded() {
        listing = nil
        written = []
        // The next listing is read after the writes.
        if mustListAgain { databaseToken = nil }
        mustListAgain = false
    }

    /// Processes a page of the database's feed and returns the zones that are gone without a reported deletion.
    ///
    /// A listing contains no deletions: a zone that was fetched before, or is in `others`, and is not listed no longer
    /// exists. Call it before the page is delivered.
    package mutating func missing(
        after changed: [ZoneID],
        moreComing: Bool,
        besides others: Set<ZoneID> = []
    ) -> [ZoneID] {
        vanished.subtract(changed)
        guard var named = listing else { return [] }
        named.formUnion(changed)
        listing = moreComing ? named : nil
        guard !moreComing else { return [] }
        let missing = Set(zoneTokens.keys).union(vanished).union(others).subtracting(named)
        mustListAgain = !missing.isDisjoint(with: written)
        return missing.subtracting(written)
            .sorted { ($0.owner.recordName, $0.zoneName) < ($1.owner.recordName, $1.zoneName) }
    }

    package mutating func fetched(_ zone: ZoneID) { unfetched.removeAll { $0 == zone } }

    /// Removes the state of a zone that no longer exists.
    package mutating func lost(_ zone: ZoneID) {
        zoneTokens[zone] = nil
        fetched(zone)
    }

    /// Processes a notice; returns whether there is anything to fetch.
    ///
    /// A client that already has the notice's token has nothing to fetch: it made the change itself, or fetched the
    /// change before the notice arrived.
    package mutating func noticed(_ zone: ZoneID, token: SyncToken?) -> Bool {
        if let token, zoneTokens[zone] == token { return false }
        // A zone without a token is fetched through the database's feed, which also reports the end of an earlier zone
        // of its name.
        if zoneTokens[zone] != nil { changed(zone) }
        return true
    }
}

/// The zones of a fetch or a send.
package enum ZoneScope: Hashable, Sendable {
    case all
    case allExcluding(Set<ZoneID>)
    case only(Set<ZoneID>)

    package func contains(_ zone: ZoneID) -> Bool {
        switch self {
        case .all: true
        case .allExcluding(let zones): !zones.contains(zone)
        case .only(let zones): zones.contains(zone)
        }
    }
}
