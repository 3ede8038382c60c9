/// A request for change notices.
///
/// See Wire.md, "Subscriptions".
package struct Subscription: Hashable, Sendable {
    /// The object of the subscription.
    package enum Kind: Hashable, Sendable {
        case database
        /// One zone; `nil` for every zone of the database.
        case zone(ZoneID?)
        case query(SubscribedQuery)
    }

    package var id: String
    package var kind: Kind
    /// For zone and database subscriptions: the record type that the client is interested in.
    ///
    /// An extension of CloudKit, only stored and returned: the notices contain no data and are sent for all types.
    package var recordType: String?
    /// The client's `notificationInfo` object as JSON bytes, returned unchanged.
    package var notificationInfo: [UInt8]?

    package init(id: String, kind: Kind, recordType: String? = nil, notificationInfo: [UInt8]? = nil) {
        self.id = id
        self.kind = kind
        self.recordType = recordType
        self.notificationInfo = notificationInfo
    }

    /// The total bytes of the client's texts.
    package var byteCount: Int {
        id.utf8.count + (recordType?.utf8.count ?? 0) + (notificationInfo?.count ?? 0) + (query?.json.count ?? 0)
    }

    /// The query; `nil` for a zone or database subscription.
    package var query: SubscribedQuery? {
        if case .query(let query) = kind { query } else { nil }
    }
}

/// The records and events of a query subscription.
package struct SubscribedQuery: Hashable, Sendable {
    package var recordType: String
    /// The client's `query` object as JSON bytes, returned unchanged.
    ///
    /// Parsed again when the schema changes, because the meaning of names depends on the type's fields.
    package var json: [UInt8]
    /// `nil` for every zone of the database.
    package var zone: ZoneID?
    package var firesOn: RecordEvents
    /// Whether the subscription ends with its first notice.
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

/// The record events that a subscription can fire on.
///
/// The raw values are CloudKit's option bits. See Errors.md, "Numbers of CloudKit".
package struct RecordEvents: OptionSet, Hashable, Sendable {
    package let rawValue: Int

    package init(rawValue: Int) { self.rawValue = rawValue }

    package static let create = RecordEvents(rawValue: 1)
    package static let update = RecordEvents(rawValue: 2)
    package static let delete = RecordEvents(rawValue: 4)

    /// The words on the wire, in the order of the bits.
    package static let words: [(word: String, event: RecordEvents)] = [
        ("create", .create), ("update", .update), ("delete", .delete),
    ]
}
