package import Records

/// What a client calls one of its writes, so that a repeat of it takes effect once.
///
/// The answer to a write may be lost, and then the client has to send it again. See Wire.md, "Idempotency".
package struct WriteMark: Hashable, Sendable {
    /// The caller's own; `nil` never stands for one, since an anonymous caller's writes have none.
    package var user: UserID
    /// 1 to 255 printable ASCII characters, the caller's own choice.
    package var id: String
    /// Of all that the write asks for: another write under the same name is refused.
    package var print: UInt64

    package init(user: UserID, id: String, print: UInt64) {
        self.user = user
        self.id = id
        self.print = print
    }
}

/// What is kept of a write that had a mark.
package struct DoneWrite: Hashable, Sendable {
    package var print: UInt64
    /// Which of its operations took effect, a bit each, the first in the lowest bit of the first byte.
    ///
    /// Those that failed are tried anew by a repeat.
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
    /// What an earlier request of this mark has done; `nil` where there was none.
    func earlier(in writer: any StoreWriter) throws(RelayError) -> DoneWrite? {
        guard Self.isHeeded, let done = try writer.doneWrite(id, by: user) else { return nil }
        guard done.print == print else {
            throw .badRequest("This operationID belongs to another write. Give each write one of its own.")
        }
        return done
    }
}

extension ModifyRecords {
    /// What an earlier request of this mark has done; `nil` where there was none, or this one has no mark.
    func earlier(in writer: any StoreWriter) throws(RelayError) -> DoneWrite? { try mark?.earlier(in: writer) }

    /// Remembers, in the same transaction, which operations have taken effect.
    ///
    /// What an earlier request has done stays done, also where its record is gone since and the repeat is told so; and so
    /// does what found nothing to do, such as a deletion: what comes afterwards is not its.
    func keep(_ outcomes: [Outcome], after earlier: DoneWrite?, in writer: any StoreWriter) throws(RelayError) {
        guard let mark else { return }
        var done = earlier ?? DoneWrite(print: mark.print)
        for (place, outcome) in outcomes.enumerated() where !outcome.hasFailed { done.insert(place) }
        guard done.places != earlier?.places ?? [] else { return }
        try writer.keep(done, as: mark.id, by: mark.user)
    }
}

extension ModifyRecords.Decision {
    /// The outcome of an operation that took effect when it came first: what has become of its record since then.
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
