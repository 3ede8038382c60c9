import Records
import RelayCore
import Wire

extension RouteEntry {
    static let zones: [RouteEntry] = [
        .reading(.database("zones/list"), methods: .getOrPost, by: .operators, listZones),
        .reading(.database("zones/lookup"), lookupZones),
        .writing(.database("zones/modify"), modifyZones),
    ]
}

/// `zones/list`.
///
/// See Wire.md, "Zone operations".
private func listZones(_ context: RequestContext) throws -> EndpointAnswer {
    let zones = try context.store.read { reader throws(RelayError) in
        let live = try reader.liveZones(in: context.database)
        return live.filter { $0.id.isDefault } + live.filter { !$0.id.isDefault }
    }
    return try EndpointAnswer { writer in
        writer.key("zones")
        try writer.array(zones) { $0.zone($1, epoch: try context.store.epoch(of: $1.id.owner)) }
    }
}

/// `zones/lookup`.
///
/// See Wire.md, "Zone operations".
private func lookupZones(_ context: RequestContext) throws -> EndpointAnswer {
    // The array contains zone IDs; some clients wrap them in objects like other operations do.
    let ids = try context.items("zones", of: context.body).map { try ZoneIDCodec.read($0["zoneID"] ?? $0) }
    let found = try context.store.read { reader throws(RelayError) in
        var found: [Result<Zone, RelayError>] = []
        for id in ids {
            do throws(RelayError) {
                guard let zone = try reader.zone(try context.database.zone(id), in: context.database) else {
                    throw .zoneNotFound
                }
                found.append(.success(zone))
            } catch  where error.code == .tryAgainLater || error.code == .internalError {
                throw error
            } catch {
                found.append(.failure(error))
            }
        }
        return found
    }
    return try EndpointAnswer { writer in
        writer.key("zones")
        try writer.array(zip(ids, found)) { writer, item in
            switch item.1 {
            case .success(let zone): writer.zone(zone, epoch: try context.store.epoch(of: zone.id.owner))
            case .failure(let error): writer.failure(of: context.database.full(item.0), error)
            }
        }
    }
}

/// `zones/modify`.
///
/// See Wire.md, "Zone operations".
private func modifyZones(_ context: RequestContext) throws -> EndpointStep {
    let operations = try context.items("operations", of: context.body).map { item in
        let zone = try item.required("zone")
        let id = try ZoneIDCodec.read(zone["zoneID"] ?? zone)
        switch try item.required("operationType").string() {
        case "create": return ModifyZones.Operation.create(id)
        case "delete": return ModifyZones.Operation.delete(id, try zoneLoss(item))
        case "leave": return ModifyZones.Operation.leave(id)
        default: throw RelayError.badRequest("The operationType of a zone must be create, delete or (shared) leave.")
        }
    }
    var request = ModifyZones(operations, of: context.database, limits: context.limits, now: context.now)
    request.isVisit = context.authentication.isVisit
    try request.check()
    request.idempotencyKey = try IdempotencyKey.id(in: context.body).flatMap { IdempotencyKey($0, of: request) }
    let parts = request.parts
    let writes = parts.map { part in
        WritePart(owner: part.owner, prefetch: request.prefetch(of: part)) { [request] writer throws(RelayError) in
            try request.run(part, in: writer)
        }
    }
    return try .writing(writes[...]) { outcomes in
        let ordered = zip(parts, outcomes).flatMap { zip($0.places, $1) }.sorted { $0.0 < $1.0 }
        return try EndpointAnswer { writer in
            writer.key("zones")
            try writer.array(ordered.map(\.1)) { writer, outcome in
                switch outcome {
                case .saved(let zone): writer.zone(zone, epoch: try context.store.epoch(of: zone.id.owner))
                case .failed(let id, let error): writer.failure(of: context.database.full(id), error)
                case .deleted(let id, let reason):
                    writer.object {
                        $0.key("zoneID")
                        ZoneIDCodec.write(id, to: &$0)
                        $0.end(by: reason)
                    }
                }
            }
        }
    }
}

/// Reads the reason for a deletion, a Zonecast extension that is reported to the user's other devices.
private func zoneLoss(_ operation: JSONValue) throws -> ZoneDeletionReason {
    guard let word = try operation["reason"]?.string() else { return .deleted }
    let reason = ZoneDeletionReason(word: word)
    guard reason != .deleted else {
        throw RelayError.badRequest("The reason of a deletion must be purged or encryptedDataReset, or be omitted.")
    }
    return reason
}
