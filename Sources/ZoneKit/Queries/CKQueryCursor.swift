public import Foundation

/// The position at which a page of a query's results ended; also available as `CKQueryOperation.Cursor`.
///
/// A cursor supports secure coding. It remains valid while records are added and removed, because it stores the last
/// record and not a count.
public final class CKQueryCursor: NSObject, NSSecureCoding, NSCopying, Sendable {
    /// The relay's continuation marker.
    package let marker: String
    /// The query as it was sent.
    package let query: [UInt8]
    /// The zone to search; `nil` for all zones.
    package let zoneID: CKRecordZone.ID?

    package init(marker: String, query: [UInt8], zoneID: CKRecordZone.ID?) {
        self.marker = marker
        self.query = query
        self.zoneID = zoneID
    }

    /// Creates a cursor from the output of `encode(with:)`.
    public init?(coder: NSCoder) {
        guard let marker = coder.text("Marker"),
            let query = coder.bytes("Query")
        else { return nil }
        self.marker = marker
        self.query = query
        zoneID = coder.object(CKRecordZone.ID.self, "ZoneID")
    }

    /// Whether the class supports secure coding: always `true`.
    public static var supportsSecureCoding: Bool { true }

    /// Encodes the marker, the query and the zone.
    public func encode(with coder: NSCoder) {
        coder.encode(marker as NSString, forKey: "Marker")
        coder.encode(Data(query) as NSData, forKey: "Query")
        if let zoneID { coder.encode(zoneID, forKey: "ZoneID") }
    }

    /// Returns the same object, because it is immutable.
    public func copy(with zone: NSZone? = nil) -> Any { self }
}
