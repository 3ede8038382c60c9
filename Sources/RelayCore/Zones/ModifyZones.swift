package import Records

/// Creates and deletes zones of a private database, and leaves zones of the shared database.
///
/// See Wire.md, "Zone operations", and Errors.md, "Database scopes".
package struct ModifyZones: Sendable {
    package enum Operation: Hashable, Sendable {
        case create(ZoneID)
        case delete(ZoneID, ZoneDeletionReason = .deleted)
        /// An extension of CloudKit's operations: gives up everything that is shared with the caller in a zone.
        case leave(ZoneID)

        package var zone: ZoneID {
            switch self {
            case .create(let zone), .delete(let zone, _), .leave(let zone): zone
            }
        }

        fileprivate var isLeaving: Bool {
            if case .leave = self { true } else { false }
        }
    }

    package enum Outcome: Hashable, Sendable {
        case saved(Zone)
        case deleted(ZoneID, ZoneDeletionReason)
        case failed(ZoneID, RelayError)

        fileprivate var hasFailed: Bool {
            if case .failed = self { true } else { false }
        }
    }

    package var operations: [Operation]
    package var database: DatabaseAddress
    package var limits: Limits
    package var now: Timestamp
    /// The request's idempotency key; `nil`: a repeated request is judged by the current state.
    package var idempotencyKey: IdempotencyKey?
    /// Whether an operator acts in the user's name to delete the user, which permits deleting the default zone.
    package var isVisit = false

    package init(_ operations: [Operation], of database: DatabaseAddress, limits: Limits, now: Timestamp) {
        self.operations = operations
        self.database = database
        self.limits = limits
        self.now = now
    }

    /// Throws if zones cannot be changed in this database; zones of the shared database can only be left.
    package func check() throws(RelayError) {
        switch database.scope {
        case .public: throw .badRequest("zones cannot be modified in the public database")
        case .shared:
            guard database.caller.user != nil, operations.allSatisfy(\.isLeaving) else { throw .accessDenied }
        case .private:
            guard !operations.contains(where: \.isLeaving) else {
                throw .badRequest("Delete a zone of the private database; only zones of other users can be left.")
            }
        }
    }

    /// The operations on one owner's zones, which are a write of their own.
    package struct Part: Hashable, Sendable {
        package var owner: UserID
        /// The indices of the operations, in their order.
        package var places: [Int]
    }

    /// The operations by owner: only those that leave zones of the shared database can have several.
    package var parts: [Part] {
        if let owner = database.owner { return [Part(owner: owner, places: Array(operations.indices))] }
        var parts: [Part] = []
        for (place, operation) in operations.enumerated() {
            if let index = parts.firstIndex(where: { $0.owner == operation.zone.owner }) {
                parts[index].places.append(place)
            } else {
                parts.append(Part(owner: operation.zone.owner, places: [place]))
            }
        }
        return parts
    }

    /// What the write of a part reads first.
    package func prefetch(of part: Part) -> Prefetch {
        let zones = part.places.map { (ZoneID(operations[$0].zone.zoneName, owner: part.owner), [String]()) }
        return Prefetch(Dictionary(zones) { known, _ in known }, idempotencyKey: idempotencyKey)
    }

    /// Runs the part's operations in order; each succeeds or fails on its own.
    ///
    /// Operations that an earlier request with the same idempotency key has completed are not repeated, so a zone that
    /// was created again after that request deleted it stays. A failure of the store fails the whole commit, which
    /// can be retried.
    package func run(_ part: Part, in writer: any StoreWriter) throws(RelayError) -> [Outcome] {
        try check()
        let earlier = try idempotencyKey?.earlier(in: writer)
        var outcomes: [Outcome] = []
        var seen: Set<ZoneID> = []
        for place in part.places {
            let operation = operations[place]
            do throws(RelayError) {
                guard seen.insert(try database.zone(operation.zone)).inserted else {
                    throw .badRequest("A request may contain only one operation for each zone.")
                }
                let isRepeated = earlier?.contains(place) ?? false
                outcomes.append(try isRepeated ? repeated(operation, in: writer) : run(operation, in: writer))
            } catch  where error.code == .tryAgainLater || error.code == .internalError {
                throw error  // An error of the store itself fails the whole commit, which may be tried again.
            } catch {
                outcomes.append(.failed(operation.zone, error))
            }
        }
        if let idempotencyKey, outcomes.contains(where: { !$0.hasFailed }) {
            var done = earlier ?? IdempotencyRecord(fingerprint: idempotencyKey.fingerprint)
            for (place, outcome) in zip(part.places, outcomes) where !outcome.hasFailed { done.insert(place) }
            try writer.keep(done, as: idempotencyKey.id, by: idempotencyKey.user)
        }
        return outcomes
    }

    /// Returns the outcome of an operation that an earlier request has completed.
    private func repeated(_ operation: Operation, in writer: any StoreWriter) throws(RelayError) -> Outcome {
        let id = try database.zone(operation.zone)
        switch operation {
        case .create:
            guard let zone = try writer.zone(id) else { throw .zoneNotFound }
            return .saved(zone)
        case .delete(_, let reason): return .deleted(id, reason)
        case .leave: return .deleted(id, .deleted)
        }
    }

    private func run(_ operation: Operation, in writer: any StoreWriter) throws(RelayError) -> Outcome {
        let id = try database.zone(operation.zone)
        switch operation {
        case .create:
            if let existing = try writer.zone(id) { return .saved(existing) }
            let count = try writer.zoneCount(of: id.owner)
            guard count <= limits.zonesPerUser else {
                throw RelayError(.quotaExceeded, "A user may have \(limits.zonesPerUser) zones. Delete one first.")
            }
            return .saved(try writer.makeZone(id, by: database.caller.deviceID))
        case .delete(_, let reason):
            guard !id.isDefault || isVisit else { throw .badRequest("The default zone cannot be deleted.") }
            guard var existing = try writer.zone(id) else { throw .zoneNotFound }
            existing.deletionReason = reason
            try writer.deleteZone(existing, by: database.caller.deviceID)
            return .deleted(id, reason)
        case .leave:
            try LeaveZone(zone: id, caller: database.caller, now: now).run(in: writer)
            return .deleted(id, .deleted)
        }
    }
}

/// Removes a participant from all shares in a zone.
///
/// This is the meaning of deleting a zone of the shared database; CloudKit's wire format has no operation for it. See
/// Wire.md, "Zone operations".
struct LeaveZone {
    let zone: ZoneID
    let caller: Caller
    let now: Timestamp

    /// Throws `zoneNotFound` if nothing in the zone is shared with the caller.
    func run(in writer: any StoreWriter) throws(RelayError) {
        guard let user = caller.user, let view = try writer.zone(zone, sharedWith: user)?.view else {
            throw .zoneNotFound
        }
        for access in view.shares {
            // Each save changes the zone, so it is read again.
            guard let whole = try writer.zone(zone), let name = try shareName(of: access, in: whole, writer),
                let record = try writer.records(named: [name], in: whole)[name], var share = record.sharing
            else { continue }
            share.participants.removeAll { $0.user == user }
            _ = try writer.save(share, in: record, of: whole, by: caller, now: now)
        }
    }

    private func shareName(
        of access: ZoneView.Access,
        in zone: Zone,
        _ writer: any StoreWriter
    ) throws(RelayError) -> String? {
        guard let root = access.root else { return Share.zoneWideName }
        return try writer.records(named: [root], in: zone)[root]?.shareReference?.record
    }
}
