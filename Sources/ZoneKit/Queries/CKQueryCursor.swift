public import Foundation

/// Where a query's page ended, to go on from there; known to programs as `CKQueryOperation.Cursor`.
///
/// Archives with secure coding. It stays good while records come and go: it remembers the last record, not a count.
public final class CKQueryCursor: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The relay's own mark.
    package let marker: String
    /// The query as it was sent.
    package let query: [UInt8]
    /// Where it looks; `nil`: in all zones.
    package let zoneID: CKRecordZone.ID?

    package init(marker: String, query: [UInt8], zoneID: CKRecordZone.ID?) {
        self.marker = marker
        self.query = query
        self.zoneID = zoneID
    }

    /// Reads what `encode(with:)` wrote.
    public init?(coder: NSCoder) {
        guard let marker = coder.text("Marker"),
            let query = coder.bytes("Query")
        else { return nil }
        self.marker = marker
        self.query = query
        zoneID = coder.object(CKRecordZone.ID.self, "ZoneID")
    }

    /// Secure coding is supported.
    public static var supportsSecureCoding: Bool { true }

    /// Writes mark, query and zone.
    public func encode(with coder: NSCoder) {
        coder.encode(marker as NSString, forKey: "Marker")
        coder.encode(Data(query) as NSData, forKey: "Query")
        if let zoneID { coder.encode(zoneID, forKey: "ZoneID") }
    }

    /// The same object: it cannot change.
    public func copy(with zone: NSZone? = nil) -> Any { self }
}
