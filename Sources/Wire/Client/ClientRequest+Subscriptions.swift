package import Records

extension ClientRequest {
    /// `subscriptions/lookup`.
    package static func lookup(subscriptions ids: [String]) -> [UInt8] {
        body { object in
            object.key("subscriptions")
            object.array(ids) { list, id in list.object { $0.member("subscriptionID", id) } }
        }
    }

    /// `subscriptions/modify`: creations first, then deletions.
    package static func modify(creating: [Subscription], deleting: [String]) -> [UInt8] {
        body { object in
            object.key("operations")
            object.open(UInt8(ascii: "["))
            for subscription in creating {
                operation("create", &object) { write(subscription, to: &$0) }
            }
            for id in deleting {
                operation("delete", &object) { $0.object { $0.member("subscriptionID", id) } }
            }
            object.close(UInt8(ascii: "]"))
        }
    }

    private static func operation(
        _ type: String,
        _ writer: inout JSONWriter,
        _ subscription: (inout JSONWriter) -> Void
    ) {
        writer.object {
            $0.member("operationType", type)
            $0.key("subscription")
            subscription(&$0)
        }
    }

    private static func write(_ subscription: Subscription, to writer: inout JSONWriter) {
        writer.object { object in
            object.member("subscriptionID", subscription.id)
            switch subscription.kind {
            case .database: object.member("subscriptionType", "database")
            case .zone(let zone):
                object.member("subscriptionType", "zone")
                if let zone { zoneID(zone, &object) }
            case .query(let query): write(query, to: &object)
            }
            if let type = subscription.recordType { object.member("recordType", type) }
            if let info = subscription.notificationInfo {
                object.key("notificationInfo")
                object.raw(info)
            }
        }
    }

    private static func write(_ query: SubscribedQuery, to object: inout JSONWriter) {
        object.member("subscriptionType", "query")
        object.member("zoneWide", query.zone == nil)
        if let zone = query.zone { zoneID(zone, &object) }
        object.key("query")
        object.raw(query.json)
        object.key("firesOn")
        object.array(RecordEvents.words.filter { query.firesOn.contains($0.event) }) { $0.string($1.word) }
        object.member("firesOnce", query.firesOnce)
    }
}
