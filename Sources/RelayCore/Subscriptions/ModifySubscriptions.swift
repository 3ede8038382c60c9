package import Records

/// Makes, replaces and ends a user's subscriptions in one database.
///
/// Wire reference 12.
package struct ModifySubscriptions: Sendable {
    package enum Operation: Hashable, Sendable {
        case save(Subscription)
        case delete(id: String)

        package var id: String {
            switch self {
            case .save(let subscription): subscription.id
            case .delete(let id): id
            }
        }
    }

    package typealias Outcome = Result<Operation, RelayError>

    package var operations: [Operation]
    package var database: DatabaseAddress

    package init(_ operations: [Operation], of database: DatabaseAddress) {
        self.operations = operations
        self.database = database
    }

    /// Attempts all, in order; each stands for itself.
    ///
    /// Saving one again and deleting one that is gone are successes.
    package func run(in writer: any StoreWriter) throws(RelayError) -> [Outcome] {
        guard let user = database.caller.user else { return [] }
        var outcomes: [Outcome] = []
        for operation in operations {
            do throws(RelayError) {
                switch operation {
                case .save(let subscription):
                    let checked = try check(subscription)
                    try writer.put([checked], of: user, in: database.scope)
                    outcomes.append(.success(.save(checked)))
                case .delete(let id):
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

    private func check(_ subscription: Subscription) throws(RelayError) -> Subscription {
        guard database.scope != .public else {
            throw .badRequest("The public database has no zone and database subscriptions; poll it by query.")
        }
        guard (1...255).contains(subscription.id.utf8.count) else {
            throw .badRequest("A subscriptionID has 1 to 255 bytes.")
        }
        guard case .zone(let zone?) = subscription.kind else { return subscription }
        var checked = subscription
        checked.kind = .zone(try database.zone(zone))
        return checked
    }
}
