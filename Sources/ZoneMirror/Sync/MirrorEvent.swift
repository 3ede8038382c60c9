public import Foundation
public import ZoneKit

/// What became of a share.
public enum ShareChange: Hashable, Sendable, Codable {
    /// Why objects of a share are here no more.
    public enum Loss: String, Hashable, Sendable, Codable {
        /// The owner ended the share.
        case stopped
        /// The owner took this user out of it.
        case removed
        /// This user left it.
        case left
        /// The relay did not say.
        case unknown
    }

    /// The current user began it.
    case created
    /// Its title, its public permission or its link are others.
    case updated
    /// People came, went, or may do something else.
    case participantsChanged
    /// The current user has joined it.
    case accepted
    /// The current user is in it no more, and its objects are gone from the store.
    case accessLost(Loss)
    /// The current user has ended it.
    case ended
}

/// Something that a mirrored container did, or is doing.
public struct MirrorEvent: Hashable, Sendable, Identifiable {
    /// The kinds of work.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A store began to sync.
        case setup
        /// From a private or shared database to the store.
        case `import`
        /// From the store to its database.
        case export
        /// From a public database to the store.
        case poll
        /// Something about shares.
        case share
        /// Something about the account.
        case account
        /// Something that the application should know of, such as a refused change.
        case notice
    }

    /// Something in an event that a program may act on.
    public enum Detail: Hashable, Sendable, Codable {
        /// These changes were refused for good; see `rejectedWrites`.
        case refused([String])
        /// A zone was listed from its beginning.
        case zoneResynced(zone: String, reason: String)
        /// A zone is gone, and its objects with it.
        case zoneLost(zone: String, reason: String)
        /// The public database lacks an index; this type is skipped until it has one.
        case indexMissing(recordType: String, field: String)
        /// There is no space left for saves: how many bytes are used, may be, and wait to be sent, where that is known; of
        /// others' databases it is not.
        case quotaExceeded(used: Int64? = nil, limit: Int64? = nil, needed: Int64? = nil)
        /// There is space again.
        case quotaRecovered
        /// Many changes wait to be sent.
        case outboxIsLarge(Int)
        /// The store has no file any more, and why: the current user's could not be opened. Loading the stores anew tries again.
        case storeClosed(String)
        /// Changes that were not sent and never will be.
        case droppedChanges([String])
        /// Another user than before, or none.
        case account(previous: String?, current: String?)
        /// How many objects are here from before a user signed in, or before the store was mirrored.
        ///
        /// In an event of the kind `account` they belong to nobody: `adoptLocalData` takes them over. In one of the kind `setup`
        /// the store held them when it got its cloud options, and they are being sent.
        case localData(Int)
        /// So many objects of a share that ended were copied to another store before they went.
        case keptCopy(Int)
        /// A share began, changed or ended.
        case share(ShareChange, zone: String)
        /// Encrypted values of this zone cannot be read here: the user's key is another one, or was not given yet.
        case keyMissing(zone: String)
        /// New objects of a shared store that are linked to no share, as plain SQL can make them: they wait until they are.
        case shareMissing([String])
        /// These objects have a value that the property's type cannot read: written by another version of the app, or by another
        /// program. They show the property's default and keep the value; at most 100 objects are listed.
        case unreadable(entity: String, property: String, objects: [String])
        /// A pinned view grew too old or too large, and was brought up to date.
        case pinAdvanced
    }

    /// Grows with each event of a store.
    public var id: Int64
    /// The store it is about.
    public var store: StoreID
    /// What was done.
    public var kind: Kind
    /// When it began.
    public var began: Date
    /// When it ended; `nil` while it goes on.
    public var ended: Date?
    /// Whether all went well.
    public var succeeded: Bool
    /// CloudKit's number of what went wrong.
    public var errorCode: CKError.Code?
    /// What went wrong, in one sentence.
    public var message: String?
    /// How many records so far.
    public var done: Int
    /// How many in all, where that is known.
    public var total: Int?
    /// How many bytes of records went over the wire for it, files beside records left out.
    public var bytes = 0
    /// What a program may act on.
    public var details: [Detail]
}
