package import Records
package import RelayCore

/// The rows of sharing in one state of a store, read in sets.
///
/// Every call takes a list and is one round trip for a store on another machine. What the rows mean is decided by
/// StoreKit alone: a store only finds and writes them. Zones and shares are named by the store's numbers.
package protocol SharingReads {
    /// Returns the share that covers each of these records, which is the one with an entry that is not gone.
    func covers(of names: [String], in zone: Int64) throws -> [String: Int64]

    /// Returns the user's accepted shares in these zones, in the order of their numbers; all zones for `nil`.
    func memberships(of users: [UserID], in zone: Int64?) throws -> [ShareMembership]

    /// Returns the aliases of these shares.
    func aliases(of shares: [Int64], in zone: Int64) throws -> [ShareAlias]
}

/// The rows of sharing, references and asset uses that a write changes.
package protocol SharingRows: SharingReads {
    // MARK: Records

    /// Returns those of the records that are live.
    func outlines(of names: [String], in zone: Int64) throws -> [RecordOutline]

    /// Returns the live records that have one of these as their parent.
    func children(of parents: [String], in zone: Int64) throws -> [RecordOutline]

    /// Returns the names of the same records.
    func childNames(of parents: [String], in zone: Int64) throws -> [ParentLink]

    /// Returns the parents of these records, of those parents, and so on.
    func ancestors(of names: [String], in zone: Int64) throws -> [ParentLink]

    // MARK: Hierarchies

    /// Writes entries in place of those of the same share and name.
    func write(_ entries: [HierarchyEntry], in zone: Int64) throws

    /// Sets the last changes of shares, unless they are greater.
    func advance(_ lastChanges: [Int64: UInt64]) throws

    // MARK: Shares

    /// Returns the shares with these links.
    func shares(withLinks shortGUIDs: [String]) throws -> [String: ShareKey]

    /// Returns the shares of a zone.
    func shares(of zone: Int64) throws -> [ShareKey]

    /// Inserts shares without participants, and returns their numbers.
    func insert(_ shares: [NewShare], in zone: Int64) throws -> [Int64]

    /// Deletes shares with their participants, requests, aliases and entries.
    func delete(shares: [Int64]) throws

    func write(_ settings: [ShareSettings]) throws

    /// Replaces all participants of these shares.
    func write(participants: [Int64: [Share.Participant]]) throws

    /// Replaces all requests for access to these shares, and all users who are blocked.
    func write(requests: [Int64: ShareRequests]) throws

    /// Stores how much of the zone is shared.
    func writeSharing(of zone: Zone) throws

    // MARK: Access

    /// Returns the users who have access to these zones, in an order that does not change.
    func access(to zones: [Int64]) throws -> [ZoneAccess]

    /// Writes the access of users to zones in place of what they had.
    func write(_ access: [ZoneAccess]) throws

    /// Returns, for every user who has joined one of these shares, all shares of the zone that the user has joined.
    ///
    /// All shares are of one zone. May return a membership twice.
    func memberships(ofUsersIn shares: [Int64], in zone: Int64) throws -> [ShareMembership]

    // MARK: Aliases

    /// Returns the aliases in this zone that show a record under one of these names.
    func aliases(showing names: [String], in zone: Int64) throws -> [ShareAlias]

    /// Returns the aliases in this zone of records that are stored under one of these names.
    func aliases(keeping names: [String], in zone: Int64) throws -> [ShareAlias]

    /// Writes aliases in place of those of the same share and shown name.
    func write(_ aliases: [ShareAlias]) throws

    // MARK: References and assets

    func insert(_ references: [StoredReference], in zone: Int64) throws
    func delete(_ references: [StoredReference], in zone: Int64) throws

    /// Returns those of the assets that records of the zone use.
    func used(among hashes: [AssetHash], in zone: Int64) throws -> Set<AssetHash>

    func insert(_ uses: [AssetUse], in zone: Int64) throws
    func delete(_ uses: [AssetUse], in zone: Int64) throws
}

/// What hierarchies need to know of a record.
package struct RecordOutline: Hashable, Sendable {
    package var name: String
    package var type: String
    package var parent: String?
    /// The number of the record's latest change.
    package var change: UInt64
    /// The record's `share`, in the form that `ShareReference` writes.
    package var share: String?
    /// The share that covers the record, by its entry.
    package var cover: Int64?

    package init(name: String, type: String, parent: String?, change: UInt64, share: String?, cover: Int64?) {
        self.name = name
        self.type = type
        self.parent = parent
        self.change = change
        self.share = share
        self.cover = cover
    }

    /// Whether the record is the root of a share.
    var isRoot: Bool { ShareReference(share)?.record != nil }
}

package struct ParentLink: Hashable, Sendable {
    package var name: String
    package var parent: String

    package init(name: String, parent: String) {
        self.name = name
        self.parent = parent
    }
}

/// A record's place in the feed of a shared hierarchy.
package struct HierarchyEntry: Hashable, Sendable {
    /// The raw values are stored in the database.
    package enum State: Int64, Sendable {
        case present = 0
        case deleted = 1
        /// The record still exists, outside of this hierarchy.
        case outOfSight = 2
    }

    package var share: Int64
    package var name: String
    /// The position in the feed.
    package var change: UInt64
    package var state: State
    /// The record's own change number; `nil` if that is `change`, or if the record is gone.
    package var record: UInt64?
    /// The type with which a record that is gone was seen last.
    package var type: String?

    package init(
        share: Int64,
        name: String,
        change: UInt64,
        state: State,
        record: UInt64? = nil,
        type: String? = nil
    ) {
        self.share = share
        self.name = name
        self.change = change
        self.state = state
        self.record = record
        self.type = type
    }
}

package struct ShareKey: Hashable, Sendable {
    package var number: Int64
    /// `nil`: the whole zone.
    package var root: String?

    package init(number: Int64, root: String?) {
        self.number = number
        self.root = root
    }
}

package struct NewShare: Hashable, Sendable {
    /// The name of the share's record.
    package var name: String
    package var root: String?
    package var shortGUID: String
    package var settings: ShareSettings

    package init(name: String, root: String?, shortGUID: String, settings: ShareSettings) {
        self.name = name
        self.root = root
        self.shortGUID = shortGUID
        self.settings = settings
    }
}

package struct ShareSettings: Hashable, Sendable {
    /// The share's number; 0 for a share that is inserted.
    package var share: Int64
    package var publicPermission: Share.Permission
    package var allowsAccessRequests: Bool

    package init(share: Int64, publicPermission: Share.Permission, allowsAccessRequests: Bool) {
        self.share = share
        self.publicPermission = publicPermission
        self.allowsAccessRequests = allowsAccessRequests
    }
}

package struct ShareRequests: Hashable, Sendable {
    package var requesters: [UserID]
    package var blocked: [UserID]

    package init(requesters: [UserID], blocked: [UserID]) {
        self.requesters = requesters
        self.blocked = blocked
    }
}

/// A user's access to a zone: an entry in the log of the user's shared database.
package struct ZoneAccess: Hashable, Sendable {
    package var user: UserID
    package var zone: Int64
    /// The identity of the zone in the user's view.
    package var identity: UInt64
    /// The change with which the user got access, or lost it.
    package var change: UInt64
    package var hasEnded: Bool

    package init(user: UserID, zone: Int64, identity: UInt64, change: UInt64, hasEnded: Bool = false) {
        self.user = user
        self.zone = zone
        self.identity = identity
        self.change = change
        self.hasEnded = hasEnded
    }
}

/// A share that a user has joined with the permission to read at least.
package struct ShareMembership: Hashable, Sendable {
    package var user: UserID
    package var zone: Int64
    package var share: Int64
    /// The root of the shared hierarchy; `nil` for the whole zone.
    package var root: String?
    package var permission: Share.Permission
    /// Of a hierarchy: the greatest change number among its entries.
    package var lastChange: UInt64
    package var hasAliases: Bool

    package init(
        user: UserID,
        zone: Int64,
        share: Int64,
        root: String?,
        permission: Share.Permission,
        lastChange: UInt64,
        hasAliases: Bool
    ) {
        self.user = user
        self.zone = zone
        self.share = share
        self.root = root
        self.permission = permission
        self.lastChange = lastChange
        self.hasAliases = hasAliases
    }
}

/// A name under which a share shows a record that is stored under another one.
package struct ShareAlias: Hashable, Sendable {
    package var share: Int64
    package var shown: String
    package var kept: String
    /// The share that covers the record with the shown name; ignored where an alias is written.
    package var shownCover: Int64?

    package init(share: Int64, shown: String, kept: String, shownCover: Int64? = nil) {
        self.share = share
        self.shown = shown
        self.kept = kept
        self.shownCover = shownCover
    }
}

/// A record's use of an asset.
package struct AssetUse: Hashable, Sendable {
    package var hash: AssetHash
    /// The record's name.
    package var name: String
    package var size: Int64

    package init(hash: AssetHash, name: String, size: Int64) {
        self.hash = hash
        self.name = name
        self.size = size
    }
}
