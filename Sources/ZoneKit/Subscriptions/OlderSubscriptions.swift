public import Foundation

/// What the oldest programs make as a plain `CKSubscription`.
///
/// An initializer of a class cannot give an object of a subclass, but one that comes from a protocol can: so
/// `CKSubscription(recordType:predicate:options:)` gives a `CKQuerySubscription`.
public protocol OlderSubscriptionMaking {}

extension CKSubscription: OlderSubscriptionMaking {}

extension OlderSubscriptionMaking where Self == CKSubscription {
    /// Watches records of a type; what is made is a `CKQuerySubscription`.
    ///
    /// - Parameters:
    ///   - recordType: The kind of records.
    ///   - predicate: Which of them; whether it can be sent is said when the subscription is saved.
    ///   - subscriptionID: Names the subscription among the user's of one database; left out, a new UUID.
    ///   - subscriptionOptions: What is to be told of; one that is told of nothing cannot be saved.
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

    /// Watches a zone; what is made is a `CKRecordZoneSubscription`.
    ///
    /// - Parameters:
    ///   - zoneID: The zone.
    ///   - subscriptionID: Names the subscription among the user's of one database; left out, a new UUID.
    ///   - subscriptionOptions: Without a meaning for zones, as ever.
    @available(*, deprecated, message: "Use CKRecordZoneSubscription instead")
    public init(
        zoneID: CKRecordZone.ID,
        subscriptionID: CKSubscription.ID = UUID().uuidString,
        options subscriptionOptions: CKQuerySubscription.Options = []
    ) {
        self = CKRecordZoneSubscription(zoneID: zoneID, subscriptionID: subscriptionID)
    }
}

/// The name that these options had when a `CKSubscription` took them.
@available(*, deprecated, renamed: "CKQuerySubscription.Options")
public typealias CKSubscriptionOptions = CKQuerySubscription.Options
