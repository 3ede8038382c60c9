package import Records
import RelayCore

/// A subscription as the columns of a row.
package struct SubscriptionColumns: Hashable, Sendable {
    /// The values of the column `kind`; they must never change.
    package enum Kind {
        package static let database: Int64 = 1
        package static let everyZone: Int64 = 2
        package static let oneZone: Int64 = 3
        package static let query: Int64 = 4
    }

    /// A bit of the column `fires` beside those of `RecordEvents`.
    private static let firesOnce: Int64 = 8

    package var id: String
    package var kind: Int64
    package var zoneOwner: String?
    package var zoneName: String?
    package var notificationInfo: [UInt8]?
    package var recordType: String?
    /// The query as the client wrote it.
    package var query: [UInt8]?
    /// The bits of the events that the query fires on, and `firesOnce`.
    package var fires: Int64

    package init(
        id: String,
        kind: Int64,
        zoneOwner: String?,
        zoneName: String?,
        notificationInfo: [UInt8]?,
        recordType: String?,
        query: [UInt8]?,
        fires: Int64
    ) {
        self.id = id
        self.kind = kind
        self.zoneOwner = zoneOwner
        self.zoneName = zoneName
        self.notificationInfo = notificationInfo
        self.recordType = recordType
        self.query = query
        self.fires = fires
    }

    package init(_ subscription: Subscription) {
        let (kind, zone): (Int64, ZoneID?) =
            switch subscription.kind {
            case .database: (Kind.database, nil)
            case .zone(nil): (Kind.everyZone, nil)
            case .zone(let zone?): (Kind.oneZone, zone)
            case .query(let query): (Kind.query, query.zone)
            }
        let query = subscription.query
        self.init(
            id: subscription.id,
            kind: kind,
            zoneOwner: zone?.owner.recordName,
            zoneName: zone?.zoneName,
            notificationInfo: subscription.notificationInfo,
            recordType: query?.recordType ?? subscription.recordType,
            query: query?.json,
            fires: query.map { Int64($0.firesOn.rawValue) | ($0.firesOnce ? Self.firesOnce : 0) } ?? 0
        )
    }

    package var subscription: Subscription {
        let zone = zoneName.map { ZoneID($0, owner: UserID(zoneOwner ?? UserID.caller.recordName)) }
        let kind: Subscription.Kind =
            switch kind {
            case Kind.database: .database
            case Kind.query:
                .query(
                    SubscribedQuery(
                        recordType: recordType ?? "",
                        json: query ?? [],
                        zone: zone,
                        firesOn: RecordEvents(rawValue: Int(fires & ~Self.firesOnce)),
                        firesOnce: fires & Self.firesOnce != 0
                    )
                )
            default: .zone(zone)
            }
        var subscription = Subscription(id: id, kind: kind, notificationInfo: notificationInfo)
        if subscription.query == nil { subscription.recordType = recordType }
        return subscription
    }
}
