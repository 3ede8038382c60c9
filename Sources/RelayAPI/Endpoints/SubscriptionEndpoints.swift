import Records
import RelayCore
import Wire

/// `subscriptions/list`.
///
/// See Wire.md, "Subscriptions".
func listSubscriptions(_ context: RequestContext) throws -> EndpointAnswer {
    let found = try subscriptions(context)
    return EndpointAnswer { writer in
        writer.key("subscriptions")
        writer.array(found) { $0.subscription($1) }
    }
}

/// `subscriptions/lookup`.
///
/// See Wire.md, "Subscriptions".
func lookupSubscriptions(_ context: RequestContext) throws -> EndpointAnswer {
    let ids = try context.items("subscriptions", of: context.body).map { try $0.required("subscriptionID").string() }
    let found = try subscriptions(context)
    return EndpointAnswer { writer in
        writer.key("subscriptions")
        writer.array(ids) { writer, id in
            if let subscription = found.first(where: { $0.id == id }) { return writer.subscription(subscription) }
            writer.failure(ofSubscription: id, .subscriptionNotFound)
        }
    }
}

private func subscriptions(_ context: RequestContext) throws -> [Subscription] {
    guard let user = context.database.caller.user else { return [] }
    return try context.store.read { reader throws(RelayError) in
        try reader.subscriptions(of: user, in: context.database.scope)
    }
}

/// `subscriptions/modify`.
///
/// See Wire.md, "Subscriptions".
func modifySubscriptions(_ context: RequestContext) async throws -> EndpointAnswer {
    // An unreadable item fails alone; the others are performed.
    let read = try context.items("operations", of: context.body).map { item in
        try SubscriptionOperation(item, context)
    }
    let request = ModifySubscriptions(
        read.compactMap { try? $0.result.get() },
        of: context.database,
        limits: context.limits
    )
    var carriedOut = try await context.store.write { writer throws(RelayError) in try request.run(in: writer) }[...]
    return EndpointAnswer { writer in
        writer.key("subscriptions")
        writer.array(read) { writer, item in
            let outcome = item.result.flatMap { _ in carriedOut.popFirst() ?? .failure(.accessDenied) }
            switch outcome {
            case .success(.save(let subscription)), .success(.update(let subscription)):
                writer.subscription(subscription)
            case .success(.delete(let id)):
                writer.object {
                    $0.member("subscriptionID", id)
                    $0.member("deleted", true)
                }
            case .failure(let error): writer.failure(ofSubscription: item.id, error)
            }
        }
    }
}

extension JSONWriter {
    fileprivate mutating func subscription(_ subscription: Subscription) {
        object {
            $0.member("subscriptionID", subscription.id)
            switch subscription.kind {
            case .database: $0.member("subscriptionType", "database")
            case .zone(let zone):
                $0.member("subscriptionType", "zone")
                if let zone {
                    $0.key("zoneID")
                    ZoneIDCodec.write(zone, to: &$0)
                }
            case .query(let query): $0.members(of: query)
            }
            if let type = subscription.recordType { $0.member("recordType", type) }
            if let info = subscription.notificationInfo {
                $0.key("notificationInfo")
                $0.raw(info)
            }
        }
    }

    private mutating func members(of query: SubscribedQuery) {
        member("subscriptionType", "query")
        member("zoneWide", query.zone == nil)
        if let zone = query.zone {
            key("zoneID")
            ZoneIDCodec.write(zone, to: &self)
        }
        key("query")
        raw(query.json)
        key("firesOn")
        array(RecordEvents.words.filter { query.firesOn.contains($0.event) }) { $0.string($1.word) }
        member("firesOnce", query.firesOnce)
    }

    fileprivate mutating func failure(ofSubscription id: String, _ error: RelayError) {
        object {
            $0.member("subscriptionID", id)
            $0.members(of: error)
        }
    }
}
