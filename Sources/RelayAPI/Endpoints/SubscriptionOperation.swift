import Records
import RelayCore
import Wire

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
