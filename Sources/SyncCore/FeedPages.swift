package import Records

/// One page of a database's change feed.
package struct DatabasePage: Sendable {
    package var changed: [ZoneID]
    /// The reasons are explained in Sync.md, "Ends of zones".
    package var deleted: [(zone: ZoneID, reason: ZoneDeletionReason)]
    package var token: SyncToken
    package var moreComing: Bool

    package init(
        changed: [ZoneID],
        deleted: [(zone: ZoneID, reason: ZoneDeletionReason)],
        token: SyncToken,
        moreComing: Bool
    ) {
        self.changed = changed
        self.deleted = deleted
        self.token = token
        self.moreComing = moreComing
    }
}

/// One page of a zone's change feed, to be applied in this order.
package struct ZonePage<Row: Sendable>: Sendable {
    package var changed: [Row]
    /// With the record type if the relay still knows it.
    package var deleted: [(id: RecordID, type: String)]
    package var token: SyncToken
    package var moreComing: Bool
    /// Records that changed but could not be returned.
    package var failures: [(id: RecordID, error: any Error)] = []
    /// Whether this device can decrypt the zone's encrypted values; `nil` if unknown.
    package var isReadable: Bool?

    package init(changed: [Row], deleted: [(id: RecordID, type: String)], token: SyncToken, moreComing: Bool) {
        self.changed = changed
        self.deleted = deleted
        self.token = token
        self.moreComing = moreComing
    }
}

/// A change token as a client sees it: opaque text to store, send back and compare for equality only.
package struct SyncToken: Hashable, Sendable, Codable {
    package let text: String

    package init(_ text: String) { self.text = text }

    package init(from decoder: any Decoder) throws { text = try decoder.singleValueContainer().decode(String.self) }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }
}
