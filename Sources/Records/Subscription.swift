/// A standing request for notices.
///
/// See Wire.md, "Subscriptions".
package struct Subscription: Hashable, Sendable {
    /// What it watches.
    package enum Kind: Hashable, Sendable {
        case database
        /// `nil`: every zone of the database.
        case zone(ZoneID?)
        case query(SubscribedQuery)
    }

    package var id: String
    package var kind: Kind
    /// Of one that watches zones: the kind of records that its client cares for.
    ///
    /// An extension of ours, kept and given back: such notices hold no data and tell of every kind.
    package var recordType: String?
    /// The client's `notificationInfo` object as JSON bytes, given back as it came.
    package var notificationInfo: [UInt8]?

    package init(id: String, kind: Kind, recordType: String? = nil, notificationInfo: [UInt8]? = nil) {
        self.id = id
        self.kind = kind
        self.recordType = recordType
        self.notificationInfo = notificationInfo
    }

    /// Bytes of its texts, as its client sent them.
    package var byteCount: Int {
        id.utf8.count + (recordType?.utf8.count ?? 0) + (notificationInfo?.count ?? 0) + (query?.json.count ?? 0)
    }

    /// The query that it watches; `nil` for one that watches zones.
    package var query: SubscribedQuery? {
        if case .query(let query) = kind { query } else { nil }
    }
}

/// Which records a query subscription watches, and for what.
package struct SubscribedQuery: Hashable, Sendable {
    package var recordType: String
    /// The client's `query` object as JSON bytes, given back as it came and read anew when the schema changes: what its
    /// names mean depends on the type's fields.
    package var json: [UInt8]
    /// `nil`: every zone of the database.
    package var zone: ZoneID?
    package var firesOn: RecordEvents
    /// Ends with its first notice.
    package var firesOnce: Bool

    package init(
        recordType: String,
        json: [UInt8],
        zone: ZoneID? = nil,
        firesOn: RecordEvents,
        firesOnce: Bool = false
    ) {
        self.recordType = recordType
        self.json = json
        self.zone = zone
        self.firesOn = firesOn
        self.firesOnce = firesOnce
    }
}

/// What can happen to a record, as subscriptions name it.
///
/// The raw values are CloudKit's option bits. See Errors.md, "Numbers of CloudKit".
package struct RecordEvents: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let create = RecordEvents(rawValue: 1)
    package static let update = RecordEvents(rawValue: 2)
    package static let delete = RecordEvents(rawValue: 4)

    /// The wire's words, in the order of the bits.
    package static let words: [(word: String, event: RecordEvents)] = [
        ("create", .create), ("update", .update), ("delete", .delete),
    ]
}
