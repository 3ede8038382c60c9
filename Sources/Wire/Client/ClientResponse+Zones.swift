package import Records

extension ClientResponse {
    /// A zone in a response.
    ///
    /// See Wire.md, "Zones".
    package struct Zone: Hashable, Sendable {
        package var id: ZoneID
        /// `nil` for zones without a change feed.
        package var syncToken: String?
        package var isAtomic: Bool
        package var isEligibleForZoneShare: Bool
        package var isEligibleForHierarchicalShare: Bool
        /// The record name of the zone-wide share, if there is one and the relay reports it.
        package var share: String?
    }

    /// An entry of a `zones` array.
    package enum ZoneEntry: Hashable, Sendable {
        case zone(Zone)
        case deleted(ZoneID, ZoneLoss)
        case failed(ZoneID?, Failure)
    }

    /// Decodes the `zones` array of a response.
    package static func zones(_ json: JSONValue) throws(JSONError) -> [ZoneEntry] {
        guard let list = json["zones"] else { return [] }
        var result: [ZoneEntry] = []
        for entry in try list.elements() {
            let id = try zone(of: entry)
            if let failure = try failure(entry, zone: id) {
                result.append(.failed(id, failure))
            } else if try entry["deleted"]?.bool() == true {
                let loss = ZoneLoss(word: try entry["reason"]?.string())
                result.append(.deleted(try ZoneIDCodec.read(entry.required("zoneID")), loss))
            } else {
                result.append(.zone(try zone(entry)))
            }
        }
        return result
    }

    private static func zone(_ json: JSONValue) throws(JSONError) -> Zone {
        Zone(
            id: try ZoneIDCodec.read(json.required("zoneID")),
            syncToken: try json["syncToken"]?.string(),
            isAtomic: try json["atomic"]?.bool() ?? false,
            isEligibleForZoneShare: try json["isEligibleForZoneShare"]?.bool() ?? false,
            isEligibleForHierarchicalShare: try json["isEligibleForHierarchicalShare"]?.bool() ?? false,
            share: try json["share"]?["recordName"]?.string()
        )
    }

    /// The position and continuation of a page of a change feed.
    ///
    /// See Wire.md, "Change feeds".
    package struct PageEnd: Hashable, Sendable {
        package var syncToken: String
        package var moreComing: Bool
        /// The number of remaining records, if requested and known.
        package var remaining: Int?
    }

    package static func pageEnd(_ json: JSONValue) throws(JSONError) -> PageEnd {
        PageEnd(
            syncToken: try json.required("syncToken").string(),
            moreComing: try json["moreComing"]?.bool() ?? false,
            remaining: try (json["remaining"]?.int64()).map { Int($0) }
        )
    }

    /// An entry of a `subscriptions` array.
    ///
    /// See Wire.md, "Subscriptions".
    package enum SubscriptionEntry: Hashable, Sendable {
        case subscription(Subscription)
        case deleted(String)
        case failed(String?, Failure)
    }

    /// Decodes the `subscriptions` array; unknown kinds are left out.
    package static func subscriptions(_ json: JSONValue) throws(JSONError) -> [SubscriptionEntry] {
        guard let list = json["subscriptions"] else { return [] }
        var result: [SubscriptionEntry] = []
        for entry in try list.elements() {
            if let failure = try failure(entry, zone: nil) {
                result.append(.failed(try entry["subscriptionID"]?.string(), failure))
                continue
            }
            let id = try entry.required("subscriptionID").string()
            let info = entry["notificationInfo"].map { Array($0.rawBytes) }
            let kind: Subscription.Kind
            switch try entry["subscriptionType"]?.string() {
            case nil:
                result.append(.deleted(id))
                continue
            case "database": kind = .database
            case "zone": kind = .zone(try zone(of: entry))
            case "query": kind = .query(try query(entry))
            default: continue
            }
            let type = try entry["recordType"]?.string()
            let found = Subscription(id: id, kind: kind, recordType: type, notificationInfo: info)
            result.append(.subscription(found))
        }
        return result
    }

    private static func query(_ entry: JSONValue) throws(JSONError) -> SubscribedQuery {
        let query = try entry.required("query")
        var events = RecordEvents()
        for word in try entry["firesOn"]?.elements() ?? [] {
            let text = try word.string()
            if let event = RecordEvents.words.first(where: { $0.word == text })?.event { events.insert(event) }
        }
        return SubscribedQuery(
            recordType: try query.required("recordType").string(),
            json: Array(query.rawBytes),
            zone: try zone(of: entry),
            firesOn: events,
            firesOnce: try entry["firesOnce"]?.bool() ?? false
        )
    }
}
