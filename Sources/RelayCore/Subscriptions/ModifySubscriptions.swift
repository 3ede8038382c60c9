package import Records

/// Creates, replaces and deletes a user's subscriptions in one database.
///
/// See Wire.md, "Subscriptions".
package struct ModifySubscriptions: Sendable {
    package enum Operation: Hashable, Sendable {
        /// Creates a subscription, or replaces the one with the same ID.
        case save(Subscription)
        /// Replaces an existing subscription.
        case update(Subscription)
        case delete(id: String)

        package var id: String {
            switch self {
            case .save(let subscription), .update(let subscription): subscription.id
            case .delete(let id): id
            }
        }
    }

    package typealias Outcome = Result<Operation, RelayError>

    package var operations: [Operation]
    package var database: DatabaseAddress
    package var limits: Limits

    package init(_ operations: [Operation], of database: DatabaseAddress, limits: Limits) {
        self.operations = operations
        self.database = database
        self.limits = limits
    }

    /// What the write reads first.
    package var prefetch: Prefetch { Prefetch(subscriptions: database.scope) }

    /// Runs all operations in order; each succeeds or fails on its own.
    ///
    /// Saving an unchanged subscription and deleting an absent one succeed; updating an absent one fails.
    package func run(in writer: any StoreWriter) throws(RelayError) -> [Outcome] {
        guard let user = database.caller.user else { return [] }
        var known: [String: Int] = [:]
        for subscription in try writer.subscriptions(of: user, in: database.scope) {
            known[subscription.id] = subscription.byteCount
        }
        var outcomes: [Outcome] = []
        for operation in operations {
            do throws(RelayError) {
                switch operation {
                case .save(let subscription), .update(let subscription):
                    if case .update = operation, known[subscription.id] == nil { throw .subscriptionNotFound }
                    let checked = try check(subscription)
                    try checkRoom(for: checked, beside: known)
                    known[checked.id] = checked.byteCount
                    try writer.put([checked], of: user, in: database.scope)
                    outcomes.append(.success(.save(checked)))
                case .delete(let id):
                    known[id] = nil
                    try writer.deleteSubscriptions(ids: [id], of: user, in: database.scope)
                    outcomes.append(.success(operation))
                }
            } catch  where error.code == .tryAgainLater || error.code == .internalError {
                throw error
            } catch {
                outcomes.append(.failure(error))
            }
        }
        return outcomes
    }

    private func checkRoom(for new: Subscription, beside known: [String: Int]) throws(RelayError) {
        guard known[new.id] != nil || known.count < limits.subscriptionsPerDatabase else {
            throw RelayError(
                .quotaExceeded,
                "A user may have \(limits.subscriptionsPerDatabase) subscriptions in one database. Delete one first."
            )
        }
        let growth = new.byteCount - (known[new.id] ?? 0)
        guard growth <= 0 || known.values.reduce(growth, +) <= limits.subscriptionBytesPerDatabase else {
            throw RelayError(
                .quotaExceeded,
                "A user's subscriptions in one database may have \(limits.subscriptionBytesPerDatabase) bytes of queries "
                    + "and notification settings together. Delete one first."
            )
        }
    }

    private func check(_ subscription: Subscription) throws(RelayError) -> Subscription {
        guard (1...255).contains(subscription.id.utf8.count) else {
            throw .badRequest("A subscriptionID has 1 to 255 bytes.")
        }
        var checked = subscription
        switch subscription.kind {
        case .query(var query):
            guard database.scope != .shared || query.zone?.isDefault != true else {
                throw .badRequest("The shared database has no default zone. Name one with its owner, or set zoneWide.")
            }
            query.zone = try query.zone.map { zone throws(RelayError) in try database.zone(zone) }
            checked.kind = .query(query)
        case .database, .zone:
            guard database.scope != .public else {
                throw .badRequest("The public database has only query subscriptions.")
            }
            guard case .zone(let zone?) = subscription.kind else { break }
            checked.kind = .zone(try database.zone(zone))
        }
        return checked
    }
}

extension RelayError {
    package static let subscriptionNotFound = RelayError(.notFound, "Subscription not found")
}
