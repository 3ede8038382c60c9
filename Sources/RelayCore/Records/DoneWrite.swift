package import Records

/// The idempotency key of a client's write, which makes a repeated request take effect only once.
///
/// A client must repeat a write whose response was lost. See Wire.md, "Idempotency".
package struct WriteMark: Hashable, Sendable {
    /// The caller; the writes of anonymous callers have no idempotency key.
    package var user: UserID
    /// Chosen by the client: 1 to 255 printable ASCII characters.
    package var id: String
    /// A fingerprint of the whole request; another request with the same key is rejected.
    package var print: UInt64

    package init(user: UserID, id: String, print: UInt64) {
        self.user = user
        self.id = id
        self.print = print
    }
}

/// The stored outcome of a write with an idempotency key.
package struct DoneWrite: Hashable, Sendable {
    package var print: UInt64
    /// A bit per operation that has succeeded, the first in the lowest bit of the first byte.
    ///
    /// A repeated request runs the failed operations again.
    package var places: [UInt8]

    package init(print: UInt64, places: [UInt8] = []) {
        self.print = print
        self.places = places
    }

    package func contains(_ place: Int) -> Bool {
        place / 8 < places.count && places[place / 8] & (1 << UInt8(place % 8)) != 0
    }

    package mutating func insert(_ place: Int) {
        while places.count <= place / 8 { places.append(0) }
        places[place / 8] |= 1 << UInt8(place % 8)
    }
}

extension WriteMark {
    /// Returns the outcome of an earlier request with this key; `nil` if there was none.
    func earlier(in writer: any StoreWriter) throws(RelayError) -> DoneWrite? {
        guard Self.isHeeded, let done = try writer.doneWrite(id, by: user) else { return nil }
        guard done.print == print else {
            throw .badRequest("This operationID was used for a different write. Use a new operationID for each write.")
        }
        return done
    }
}

extension ModifyRecords {
    /// Returns the outcome of an earlier request with the same key; `nil` if there was none or the request has no key.
    func earlier(in writer: any StoreWriter) throws(RelayError) -> DoneWrite? { try mark?.earlier(in: writer) }

    /// Stores, in the same transaction, which operations have succeeded.
    ///
    /// Operations that an earlier request completed stay completed, even if their record is gone and the repeated
    /// request reports that. So do operations that had nothing to do, such as deleting an absent record: a record
    /// created later must not be deleted by the repeated request.
    func keep(_ outcomes: [Outcome], after earlier: DoneWrite?, in writer: any StoreWriter) throws(RelayError) {
        guard let mark else { return }
        var done = earlier ?? DoneWrite(print: mark.print)
        for (place, outcome) in outcomes.enumerated() where !outcome.hasFailed { done.insert(place) }
        guard done.places != earlier?.places ?? [] else { return }
        try writer.keep(done, as: mark.id, by: mark.user)
    }
}

extension ModifyRecords.Decision {
    /// Appends the outcome of an operation that an earlier request has completed: the current state of its record.
    mutating func repeated(_ operation: ModifyRecords.Operation, _ current: StoredRecord?) {
        seen.insert(operation.name)
        if operation.kind.isDelete {
            outcomes.append(.deleted(name: operation.name, type: nil))
        } else if let current {
            outcomes.append(.saved(current))
        } else {
            let gone = RelayError(.notFound, "The record was saved by this operation and has been deleted since.")
            outcomes.append(.failed(name: operation.name, gone, server: nil))
        }
    }
}
