/// Stands for the current user wherever a user's record name or a zone's owner is asked for.
public let CKCurrentUserDefaultName = "__defaultOwner__"

/// The older spelling of `CKCurrentUserDefaultName`.
public let CKOwnerDefaultName = "__defaultOwner__"

/// The name of the zone that every private and public database has.
public let CKRecordZoneDefaultName = "_defaultZone"

/// The name under which queries know the record above a record.
public let CKRecordParentKey = "parent"

/// The name under which queries know the share that a record is the root of.
public let CKRecordShareKey = "share"

/// The field of a share that holds its title.
public let CKShareTitleKey = "cloudkit.title"

/// The field of a share that holds a small picture.
public let CKShareThumbnailImageDataKey = "cloudkit.thumbnailImageData"

/// The field of a share that says what kind of thing it is.
public let CKShareTypeKey = "cloudkit.type"

/// The record name of the share of a whole zone.
public let CKRecordNameZoneWideShare = "cloudkit.zoneshare"

/// The record type of a share.
public let CKRecordTypeShare = "cloudkit.share"

/// The record type of the users of a container.
public let CKRecordTypeUserRecord = "Users"

#if !canImport(Darwin)
    // Of Apple's C library, in which programs count how long they wait before they try again.

    /// Nanoseconds in a second.
    public let NSEC_PER_SEC: UInt64 = 1_000_000_000
    /// Nanoseconds in a millisecond.
    public let NSEC_PER_MSEC: UInt64 = 1_000_000
    /// Nanoseconds in a microsecond.
    public let NSEC_PER_USEC: UInt64 = 1_000
    /// Microseconds in a second.
    public let USEC_PER_SEC: UInt64 = 1_000_000
#endif
