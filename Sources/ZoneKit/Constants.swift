/// Stands for the current user wherever a user's record name or a zone's owner is asked for.
public let CKCurrentUserDefaultName = "__defaultOwner__"

/// The older spelling of `CKCurrentUserDefaultName`.
public let CKOwnerDefaultName = "__defaultOwner__"

/// The record name of the share of a whole zone.
public let CKRecordNameZoneWideShare = "cloudkit.zoneshare"

/// The record type of a share.
public let CKRecordTypeShare = "cloudkit.share"

/// The record type of the users of a container.
public let CKRecordTypeUserRecord = "Users"
