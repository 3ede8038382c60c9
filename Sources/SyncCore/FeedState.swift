package import Records

/// How far a client has come in one database: what it must keep with the data, since losing it costs a full fetch and
/// keeping it without the data loses changes.
package struct FeedState: Equatable, Sendable {
    package var databaseToken: SyncToken?
    package var zoneTokens: [ZoneID: SyncToken] = [:]
    /// Zones known to have changed and not yet fetched to the end, in the order they became known.
    package private(set) var unfetched: [ZoneID] = []

    package init(
        databaseToken: SyncToken? = nil,
        zoneTokens: [ZoneID: SyncToken] = [:],
        unfetched: [ZoneID] = []
    ) {
        self.databaseToken = databaseToken
        self.zoneTokens = zoneTokens
        self.unfetched = unfetched
    }

    package mutating func changed(_ zone: ZoneID) {
        if !unfetched.contains(zone) { unfetched.append(zone) }
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
        changed(zone)
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
