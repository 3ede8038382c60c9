public import Foundation

/// Adds the oldest initializers to `CKSubscription`.
///
/// An initializer of a class cannot return a subclass, but a protocol's initializer can.
/// `CKSubscription(recordType:predicate:options:)` therefore returns a `CKQuerySubscription`.
public protocol OlderSubscriptionMaking {}

extension CKSubscription: OlderSubscriptionMaking {}

extension OlderSubscriptionMaking where Self == CKSubscription {
    /// Creates a subscription to records of a type, as a `CKQuerySubscription`.
    ///
    /// - Parameters:
    ///   - recordType: The record type.
    ///   - predicate: The condition for the records. Unsupported predicates are reported when the subscription is
    ///     saved.
    ///   - subscriptionID: The ID, unique among the user's subscriptions in one database. The default is a new UUID.
    ///   - subscriptionOptions: The events that trigger a notification. A subscription without events cannot be saved.
    @available(*, deprecated, message: "Use CKQuerySubscription instead")
    public init(
        recordType: CKRecord.RecordType,
        predicate: NSPredicate,
        subscriptionID: CKSubscription.ID = UUID().uuidString,
        options subscriptionOptions: CKQuerySubscription.Options = []
    ) {
        self = CKQuerySubscription(
            recordType: recordType,
            predicate: predicate,
            subscriptionID: subscriptionID,
            options: subscriptionOptions
        )
    }

    /// Creates a subscription to a zone, as a `CKRecordZoneSubscription`.
    ///
    /// - Parameters:
    ///   - zoneID: The zone to watch.
    ///   - subscriptionID: The ID, unique among the user's subscriptions in one database. The default is a new UUID.
    ///   - subscriptionOptions: Has no effect for zones, as in CloudKit.
    @available(*, deprecated, message: "Use CKRecordZoneSubscription instead")
    public init(
        zoneID: CKRecordZone.ID,
        subscriptionID: CKSubscription.ID = UUID().uuidString,
        options subscriptionOptions: CKQuerySubscription.Options = []
    ) {
        self = CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: subscriptionID)
    }
}

/// The older name of `CKQuerySubscription.Options`.
@available(*, deprecated, renamed: "CKQuerySubscription.Options")
public typealias CKSubscriptionOptions = CKQuerySubscription.Options
