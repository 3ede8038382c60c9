package import Records

/// What a write reads first.
///
/// A store on another machine locks the write's owner and reads all of this in one round trip; a store that reads in
/// microseconds ignores it. A hint: the write may read more than this, and less.
package struct Prefetch: Hashable, Sendable {
    /// The zones, and the names of records in each.
    package var records: [ZoneID: [String]]
    /// The database whose subscriptions of the owner are read.
    package var subscriptions: DatabaseScope?
    package var idempotencyKey: IdempotencyKey?

    package init(
        _ records: [ZoneID: [String]] = [:],
        subscriptions: DatabaseScope? = nil,
        idempotencyKey: IdempotencyKey? = nil
    ) {
        self.records = records
        self.subscriptions = subscriptions
        self.idempotencyKey = idempotencyKey
    }
}
