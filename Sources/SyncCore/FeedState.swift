package import Records

/// How far a client has come in one database: what it must keep with the data, since losing it costs a full fetch and
/// keeping it without the data loses changes.
package struct FeedState: Equatable, Sendable {
    package var databaseToken: SyncToken?
    package var zoneTokens: [ZoneID: SyncToken] = [:]
    /// Zones known to have changed and not yet fetched to the end, in the order they became known.
    package private(set) var unfetched: [ZoneID] = []
    /// The zones named so far while the database is listed from its beginning; `nil` at all other times.
    package private(set) var listing: Set<ZoneID>?
    /// Zones that were not there when they were asked for, and of which the database's feed has not told yet.
    package private(set) var vanished: Set<ZoneID>
    /// Zones that were made or written to from here while the database is listed: where the listing leaves one of them out,
    /// it may have been read before, or the zone be gone since.
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

    /// A zone was asked for and is not there.
    mutating func foundGone(_ zone: ZoneID) {
        lost(zone)
        vanished.insert(zone)
    }

    /// The database's feed says that a zone is gone.
    mutating func toldOfLoss(_ zone: ZoneID) {
        lost(zone)
        vanished.remove(zone)
    }

    /// A zone was made from here: whoever did so knows that it was not there.
    package mutating func madeAnew(_ zone: ZoneID) { vanished.remove(zone) }

    /// The relay has taken something that was sent to a zone, or has made it.
    package mutating func wrote(_ zone: ZoneID) {
        if listing != nil { written.insert(zone) }
    }

    /// The database is about to be listed from its beginning.
    mutating func listingBegins() {
        listing = []
        written = []
    }

    /// The database is seen to its end.
    mutating func listingEnds() {
        listing = nil
        written = []
        // The next listing is of a later time than what was written.
        if mustListAgain { databaseToken = nil }
        mustListAgain = false
    }

    /// Takes in a page of the database's feed before it is told: gives the zones that are gone without a word.
    ///
    /// A listing names no deletions: a zone that was fetched before, or is one of `others`, and is not in it is there no more.
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

    /// The zone is gone, and with it what was known of it.
    package mutating func lost(_ zone: ZoneID) {
        zoneTokens[zone] = nil
        fetched(zone)
    }

    /// A notice has come.
    ///
    /// Says whether there is anything to fetch: a client that already holds the notice's token need not, because it
    /// made the change itself or an earlier fetch overtook the notice.
    package mutating func noticed(_ zone: ZoneID, token: SyncToken?) -> Bool {
        if let token, zoneTokens[zone] == token { return false }
        // The database's feed first says that there is such a zone, and what became of another of its name.
        if zoneTokens[zone] != nil { changed(zone) }
        return true
    }
}

/// Which zones a fetch or a send is about.
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
