package import Records

/// The idempotency key of a client's write, which makes a repeated request take effect only once.
///
/// A client must repeat a write whose response was lost. See Wire.md, "Idempotency".
package struct IdempotencyKey: Hashable, Sendable {
    /// The caller; the writes of anonymous callers have no idempotency key.
    package var user: UserID
    /// Chosen by the client: 1 to 255 printable ASCII characters.
    package var id: String
    /// A fingerprint of the whole request; another request with the same key is rejected.
    package var fingerprint: UInt64

    package init(user: UserID, id: String, fingerprint: UInt64) {
        self.user = user
        self.id = id
        self.fingerprint = fingerprint
    }
}

/// The stored outcome of a write with an idempotency key.
package struct IdempotencyRecord: Hashable, Sendable {
    package var fingerprint: UInt64
    /// A bit per operation that has succeeded, the first in the lowest bit of the first byte.
    ///
    /// A repeated request runs the failed operations again.
    package var completedOperations: [UInt8]

    package init(fingerprint: UInt64, completedOperations: [UInt8] = []) {
        self.fingerprint = fingerprint
        self.completedOperations = completedOperations
    }

    package func contains(_ place: Int) -> Bool {
        place / 8 < completedOperations.count && completedOperations[place / 8] & (1 << UInt8(place % 8)) != 0
    }

    package mutating func insert(_ place: Int) {
        while completedOperations.count <= place / 8 { completedOperations.append(0) }
        completedOperations[place / 8] |= 1 << UInt8(place % 8)
    }
}

extension IdempotencyKey {
    /// Returns the outcome of an earlier request with this key; `nil` if there was none.
    func earlier(in writer: any StoreWriter) throws(RelayError) -> IdempotencyRecord? {
        guard Self.isHonored, let done = try writer.idempotencyRecord(id, by: user) else { return nil }
        guard done.fingerprint == fingerprint else {
            throw .badRequest("This operationID was used for a different write. Use a new operationID for each write.")
        }
        return done
    }
}

extension ModifyRecords {
    /// Returns the outcome of an earlier request with the same key; `nil` if there was none or the request has no key.
    func earlier(in writer: any StoreWriter) throws(RelayError) -> IdempotencyRecord? {
        try idempotencyKey?.earlier(in: writer)
    }

    /// Stores, in the same transaction, which operations have succeeded.
    ///
    /// Operations that an earlier request completed stay completed, even if their record is gone and the repeated
    /// request reports that. So do operations that had nothing to do, such as deleting an absent record: a record
    /// created later must not be deleted by the repeated request.
    func keep(_ outcomes: [Outcome], after earlier: IdempotencyRecord?, in writer: any StoreWriter) throws(RelayError) {
        guard let idempotencyKey else { return }
        var done = earlier ?? IdempotencyRecord(fingerprint: idempotencyKey.fingerprint)
        for (place, outcome) in outcomes.enumerated() where !outcome.hasFailed { done.insert(place) }
        guard done.completedOperations != earlier?.completedOperations ?? [] else { return }
        try writer.keep(done, as: idempotencyKey.id, by: idempotencyKey.user)
    }
}
