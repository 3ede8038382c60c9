import Records
import RelayCore
import Wire

extension RouteEntry {
    static let subscriptions: [RouteEntry] = [
        .reading(.databaseOrNone("subscriptions/list"), methods: .getOrPost, listSubscriptions),
        .reading(.databaseOrNone("subscriptions/lookup"), lookupSubscriptions),
        .writing(.databaseOrNone("subscriptions/modify"), modifySubscriptions),
    ]
}

/// `subscriptions/list`.
///
/// See Wire.md, "Subscriptions".
private func listSubscriptions(_ context: RequestContext) throws -> EndpointAnswer {
    let found = try subscriptions(context)
    return EndpointAnswer { writer in
        writer.key("subscriptions")
        writer.array(found) { $0.subscription($1) }
    }
}

/// `subscriptions/lookup`.
///
/// See Wire.md, "Subscriptions".
private func lookupSubscriptions(_ context: RequestContext) throws -> EndpointAnswer {
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
private func modifySubscriptions(_ context: RequestContext) throws -> EndpointStep {
    // An unreadable item fails alone; the others are performed.
    let read = try context.items("operations", of: context.body).map { item in
        try SubscriptionOperation(item, context)
    }
    let request = ModifySubscriptions(
        read.compactMap { try? $0.result.get() },
        of: context.database,
        limits: context.limits
    )
    let owner = context.database.caller.user ?? Zone.publicOwner
    return .writing(touching: owner, prefetch: request.prefetch) { writer throws(RelayError) in
        try request.run(in: writer)
    } answer: { outcomes in
        var outcomes = outcomes[...]
        return EndpointAnswer { writer in
            writer.key("subscriptions")
            writer.array(read) { writer, item in
                let outcome = item.result.flatMap { _ in outcomes.popFirst() ?? .failure(.accessDenied) }
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

/// One operation of a `subscriptions/modify` request, or the error in it.
///
/// See Wire.md, "Subscriptions".
struct SubscriptionOperation {
    let id: String
    let result: Result<ModifySubscriptions.Operation, RelayError>

    /// Throws if the whole request is invalid.
    init(_ json: JSONValue, _ context: RequestContext) throws {
        let type = try json.required("operationType").string()
        guard ["create", "update", "delete"].contains(type) else {
            throw RelayError.badRequest("The operationType of a subscription must be create, update or delete.")
        }
        let subscription = try json.required("subscription")
        id = try subscription["subscriptionID"]?.string() ?? ""
        let id = id
        do throws(RelayError) {
            guard !id.isEmpty else { throw .badRequest("subscriptionID is required.") }
            result = .success(try Self.operation(type, subscription, id, context))
        } catch {
            result = .failure(error)
        }
    }

    private static func operation(
        _ type: String,
        _ json: JSONValue,
        _ id: String,
        _ context: RequestContext
    ) throws(RelayError) -> ModifySubscriptions.Operation {
        switch type {
        case "create": .save(try read(json, id, context))
        case "update": .update(try read(json, id, context))
        default: .delete(id: id)
        }
    }

    private static func read(
        _ json: JSONValue,
        _ id: String,
        _ context: RequestContext
    ) throws(RelayError) -> Subscription {
        do {
            guard let word = try json["subscriptionType"]?.string() else {
                throw RelayError.badRequest("subscriptionType is required: query, zone or database.")
            }
            if let info = json["notificationInfo"] { _ = try NotificationInfo(info) }
            let info = json["notificationInfo"].map { Array($0.rawBytes) }
            return Subscription(
                id: id,
                kind: try kind(word, json, context),
                recordType: word == "query" ? nil : try recordType(json),
                notificationInfo: info
            )
        } catch let error as RelayError {
            throw error
        } catch let error as JSONError {
            throw .badRequest(error.description)
        } catch {
            throw .badRequest("The subscription could not be read.")
        }
    }

    /// Reads the record type, which is stored and returned whether or not the type exists.
    private static func recordType(_ json: JSONValue) throws -> String? {
        guard let name = try json["recordType"]?.string() else { return nil }
        guard (1...255).contains(name.utf8.count) else {
            throw RelayError.badRequest("The recordType of a subscription must have 1 to 255 bytes.")
        }
        return name
    }

    private static func kind(
        _ word: String,
        _ json: JSONValue,
        _ context: RequestContext
    ) throws -> Subscription.Kind {
        switch word {
        case "database": return .database
        case "zone": return .zone(try json["zoneID"].map { try ZoneIDCodec.read($0) })
        case "query": return .query(try query(json, context))
        default:
            throw RelayError.badRequest(
                "'\(word.prefix(64))' is not a subscriptionType: use query, zone or database."
            )
        }
    }

    /// Reads a query; if `zoneWide` is missing, it is `true` unless there is a `zoneID`.
    private static func query(_ json: JSONValue, _ context: RequestContext) throws -> SubscribedQuery {
        let query = try json.required("query")
        let zone = try json["zoneID"].map { try ZoneIDCodec.read($0) }
        let isZoneWide = try json["zoneWide"]?.bool() ?? (zone == nil)
        let subscribed = SubscribedQuery(
            recordType: try query.required("recordType").string(),
            json: Array(query.rawBytes),
            zone: isZoneWide ? nil : zone ?? ZoneID(ZoneID.defaultName),
            firesOn: try events(json.required("firesOn")),
            firesOnce: try (json["firesOnce"] ?? json["fireOnce"])?.bool() ?? false
        )
        try check(query, of: subscribed, context)
        return subscribed
    }

    private static func events(_ json: JSONValue) throws -> RecordEvents {
        let events = try json.elements().reduce(into: RecordEvents()) { events, word in
            let text = try word.string()
            guard let event = RecordEvents.words.first(where: { $0.word == text })?.event else {
                throw RelayError.badRequest("firesOn may contain create, update and delete, not '\(text.prefix(64))'.")
            }
            events.insert(event)
        }
        guard !events.isEmpty else {
            throw RelayError.badRequest("firesOn must name one or more of create, update and delete.")
        }
        return events
    }

    /// Throws if the query is invalid for the schema.
    ///
    /// In `development`, a type may be watched before its first record exists.
    private static func check(_ json: JSONValue, of subscribed: SubscribedQuery, _ context: RequestContext) throws {
        guard json.rawBytes.count <= context.limits.subscribedQueryBytes else {
            throw RelayError.badRequest(
                "The query of a subscription may have at most \(context.limits.subscribedQueryBytes) bytes."
            )
        }
        let schema = context.store.currentSchema
        let query = try QueryCodec.read(json, schema: schema)
        guard query.filters.count <= context.limits.queryFilters else {
            throw RelayError.badRequest("A query may have \(context.limits.queryFilters) filters.")
        }
        if let type = schema.types[subscribed.recordType] { return try QueryCheck(query, of: type).checkFilters() }
        guard context.home.environment == .development, NameRules.isIdentifier(subscribed.recordType) else {
            throw RelayError.unknownType(
                subscribed.recordType,
                context,
                else: "Record type '\(subscribed.recordType.prefix(64))' does not exist in this environment."
            )
        }
    }
}
