/// The placeholder for the current user's record name, and for the owner of the user's zones.
public let CKCurrentUserDefaultName = "__defaultOwner__"

/// The older spelling of `CKCurrentUserDefaultName`.
public let CKOwnerDefaultName = "__defaultOwner__"

/// The name of the default zone, which every private and public database has.
public let CKRecordZoneDefaultName = "_defaultZone"

/// The name of the parent record in queries.
public let CKRecordParentKey = "parent"

/// The name in queries of the share of which a record is the root.
public let CKRecordShareKey = "share"

/// The field of a share with its title.
public let CKShareTitleKey = "cloudkit.title"

/// The field of a share with the data of a small image.
public let CKShareThumbnailImageDataKey = "cloudkit.thumbnailImageData"

/// The field of a share with the kind of the shared item.
public let CKShareTypeKey = "cloudkit.type"

/// The record name of the share of a whole zone.
public let CKRecordNameZoneWideShare = "cloudkit.zoneshare"

/// The record type of a share.
public let CKRecordTypeShare = "cloudkit.share"

/// The record type of users.
public let CKRecordTypeUserRecord = "Users"

#if !canImport(Darwin)
    // Constants of Apple's C library, with which apps compute delays before a retry.

    /// Nanoseconds in a second.
    public let NSEC_PER_SEC: UInt64 = 1_000_000_000
    /// Nanoseconds in a millisecond.
    public let NSEC_PER_MSEC: UInt64 = 1_000_000
    /// Nanoseconds in a microsecond.
    public let NSEC_PER_USEC: UInt64 = 1_000
    /// Microseconds in a second.
    public let USEC_PER_SEC: UInt64 = 1_000_000
#endif
