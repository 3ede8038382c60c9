package import Records

/// An overview of a store: names of zones and users, counts, and shares, but no contents of records.
///
/// Reads one committed state. Every call is limited in rows, and the whole survey in time.
package protocol StoreSurvey {
    func totals() throws(RelayError) -> StoreTotals

    /// Returns live zones, most recently changed first, at most `limit`.
    ///
    /// Only zones whose name or owner's name contains `words`; for the next page, only those changed before `change`.
    func zones(with words: String, before change: UInt64, limit: Int) throws(RelayError) -> [SurveyedZone]

    /// Returns the live zone with this ID.
    func zone(_ id: ZoneID) throws(RelayError) -> Zone?

    /// Returns the newest entries of a zone's log, including tombstones.
    func tail(of zone: Zone, limit: Int) throws(RelayError) -> [StoredRecord]

    /// Returns the number of live records of each type in the public database, counted up to `bound`.
    func publicCounts(upTo bound: Int) throws(RelayError) -> [String: Int]

    /// Returns shares, newest first; only the one with `id` if it is given.
    func shares(limit: Int, id: Int64?) throws(RelayError) -> [SurveyedShare]

    /// Returns subscriptions, ordered by user.
    func subscriptions(limit: Int) throws(RelayError) -> [SurveyedSubscription]

    /// Returns the indexes that queries have created.
    func indexes(upTo bound: Int) throws(RelayError) -> [SurveyedIndex]
}

package struct StoreTotals: Sendable {
    package var users = 0
    package var zones = 0
    package var use = StorageUse()
    package var publicUse = StorageUse()
    package var shares = 0
    package var subscriptions = 0

    package init() {}
}

package struct SurveyedZone: Sendable {
    /// The bound for counting records, where many counts are requested.
    package static let countBound = 1_000

    package var id: ZoneID
    package var lastChange: UInt64
    package var modified: Timestamp?
    package var use: StorageUse
    package var sharing: Zone.Sharing
    /// The number of live records, counted up to `countBound`.
    package var records = 0

    package init(id: ZoneID, lastChange: UInt64, use: StorageUse, sharing: Zone.Sharing) {
        self.id = id
        self.lastChange = lastChange
        self.use = use
        self.sharing = sharing
    }
}

package struct SurveyedShare: Sendable {
    /// The store's number of the share, which is valid for the life of the store.
    package var id: Int64
    package var zone: ZoneID
    /// The share record's name; for a share of a hierarchy the owner's app chose it, and it is not shown to operators.
    package var recordName: String
    package var isZoneWide: Bool
    package var publicPermission: Share.Permission
    package var participants: [Share.Participant] = []

    package init(
        id: Int64,
        zone: ZoneID,
        recordName: String,
        isZoneWide: Bool,
        publicPermission: Share.Permission
    ) {
        self.id = id
        self.zone = zone
        self.recordName = recordName
        self.isZoneWide = isZoneWide
        self.publicPermission = publicPermission
    }
}

package struct SurveyedSubscription: Sendable {
    package var user: UserID
    package var scope: DatabaseScope
    package var subscription: Subscription

    package init(user: UserID, scope: DatabaseScope, subscription: Subscription) {
        self.user = user
        self.scope = scope
        self.subscription = subscription
    }
}

package struct SurveyedIndex: Sendable {
    package var recordType: String
    /// The name of the field, or the index's other target.
    package var target: String
    package var isComplete: Bool
    /// The number of entries, counted up to a bound.
    package var entries = 0

    package init(recordType: String, target: String, isComplete: Bool) {
        self.recordType = recordType
        self.target = target
        self.isComplete = isComplete
    }
}
