import Records
import RelayCore
import Wire

extension RouteEntry {
    static let limits: [RouteEntry] = [
        .reading(.database("limits"), methods: .getOrPost, by: .anonymous, describeLimits)
    ]
}

/// `limits`, a Zonecast extension: returns the caller's limits and storage use in this database.
///
/// In the public database, also returns the rights of the caller's roles for each record type. For display only: each
/// write is checked when it arrives. See Wire.md, "Extensions".
private func describeLimits(_ context: RequestContext) throws -> EndpointAnswer {
    let (limits, database) = (context.limits, context.database)
    let schema = context.store.currentSchema
    var use: StorageUse?
    if database.scope == .private, let owner = database.owner {
        use = try context.store.read { reader throws(RelayError) in try reader.storageUse(of: owner) }
    }
    let room = database.owner.flatMap { limits.quota.userPrivateBytes[$0] } ?? limits.quota.privateBytes
    return EndpointAnswer { writer in
        writer.key("limits")
        writer.object { $0.bounds(limits, assetBytes: context.assets.settings.largest) }
        if let use {
            writer.key("storage")
            writer.object {
                $0.member("used", use.total)
                if let room, room < .max { $0.member("limit", room) }
            }
        }
        if database.scope == .public {
            writer.key("rights")
            writer.object { writer in
                for (name, type) in schema.types.sorted(by: { $0.key < $1.key }) {
                    writer.key(name)
                    let rights = database.rights(toType: type, in: schema)
                    writer.array(rights.keywords) { $0.string($1) }
                }
            }
        }
        writer.member("schemaVersion", schema.version)
    }
}

extension JSONWriter {
    fileprivate mutating func bounds(_ limits: Limits, assetBytes: Int64) {
        member("recordBytes", limits.recordBytes)
        member("fieldBytes", limits.fieldBytes)
        member("assetBytes", assetBytes)
        member("requestItems", limits.itemsPerRequest)
        member("zones", limits.zonesPerUser)
        member("subscriptions", limits.subscriptionsPerDatabase)
        member("participants", limits.participants)
    }
}
