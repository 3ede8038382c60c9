/// A standing request for notices.
///
/// Wire reference 12.
package struct Subscription: Hashable, Sendable {
    /// What it watches.
    package enum Kind: Hashable, Sendable {
        case database
        /// `nil`: every zone of the database.
        case zone(ZoneID?)
    }

    package var id: String
    package var kind: Kind
    /// The client's `notificationInfo` object as JSON bytes, given back as it came.
    package var notificationInfo: [UInt8]?

    package init(id: String, kind: Kind, notificationInfo: [UInt8]? = nil) {
        self.id = id
        self.kind = kind
        self.notificationInfo = notificationInfo
    }
}
