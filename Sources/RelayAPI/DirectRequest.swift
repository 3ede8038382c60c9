import HTTPTypes
import Records
import RelayCore
import Wire

/// A request that is handled without a task of its own, used for the most frequent operations.
///
/// Reads are answered synchronously. A write is processed synchronously up to its commit and finished on `executor` once
/// the commit is on disk. The object is also the `StoreWrite`, so a write needs only one allocation.
// Unchecked because of `write` and `outcome`: one thread at a time uses the request, first the caller, then the store's
// writer, then `executor`.
final class DirectRequest: StoreWrite, @unchecked Sendable {
    private let relay: Relay
    private let request: APIRequest
    private let route: Route
    private let id: RequestIdentifier
    private let executor: any ResponseExecutor
    private let then: @Sendable (APIResponse) -> Void
    var user: UserID? { write?.context.authentication.caller.user }
    private var write: RecordsWrite?
    private var outcome: Result<ModifyRecords.Result, RelayError> = .failure(.notCarriedOut)

    init(
        _ relay: Relay,
        _ request: APIRequest,
        _ route: Route,
        executor: any ResponseExecutor,
        then: @escaping @Sendable (APIResponse) -> Void
    ) {
        self.relay = relay
        self.request = request
        self.route = route
        self.executor = executor
        self.then = then
        id = relay.requestID()
    }

    func begin() {
        var authentication: Authentication?
        do {
            let known = try relay.admit(request, route)
            authentication = known
            let context = try relay.context(request, route, known, id: id)
            guard let user = known.caller.user, try !isProvisioned(user, context) else { return try perform(context) }
            context.store.write(relay.provisioning.write(user, context.home).run) { [self] result in
                executor.run { [self] in
                    do {
                        try result.get()
                        relay.provisioning.markDone(user, route.home)
                        try perform(context)
                    } catch {
                        fail(error, known)
                    }
                }
            }
        } catch {
            fail(error, authentication)
        }
    }

    private func isProvisioned(_ user: UserID, _ context: RequestContext) throws -> Bool {
        let parsedHead = request.head.parsedHead
        if parsedHead.isProvisioned { return true }
        parsedHead.isProvisioned = try relay.provisioning.isDone(user, route.home, in: context.store)
        return parsedHead.isProvisioned
    }

    private func perform(_ context: RequestContext) throws {
        guard route.operation == .recordsModify else {
            return end(try route.operation.performAtOnce(context), context)
        }
        write = try RecordsWrite(context)
        context.store.write(self)
    }

    func run(in writer: any StoreWriter) {
        guard let write else { return }
        do throws(RelayError) {
            outcome = .success(try write.run(in: writer))
        } catch {
            outcome = .failure(error)
        }
    }

    func finish(_ failure: RelayError?) {
        if let failure { outcome = .failure(failure) }
        executor.run { [self] in wrote() }
    }

    /// Finishes the request after the write is on disk or has failed.
    private func wrote() {
        guard let write else { return }
        do {
            end(try write.answer(try outcome.get()), write.context)
        } catch {
            fail(error, write.context.authentication)
        }
    }

    private func end(_ answer: EndpointAnswer, _ context: RequestContext) {
        relay.count(answer, of: route)
        var response = APIResponse(answer)
        relay.addCommonFields(&response, request, context.authentication, id: id)
        then(response)
    }

    private func fail(_ error: any Error, _ authentication: Authentication?) {
        var response = relay.failure(error, id: id)
        relay.addCommonFields(&response, request, authentication, id: id)
        then(response)
    }
}

extension Route.Operation {
    /// Whether `DirectRequest` handles this operation.
    var isDirect: Bool {
        switch self {
        case .recordsModify, .recordsLookup, .recordsChanges, .zonesList, .zonesLookup, .changesDatabase, .changesZone,
            .usersCaller, .usersCurrent:
            true
        default: false
        }
    }

    fileprivate func performAtOnce(_ context: RequestContext) throws -> EndpointAnswer {
        switch self {
        case .recordsLookup: try lookupRecords(context)
        case .recordsChanges: try fetchRecordChanges(context)
        case .zonesList: try listZones(context)
        case .zonesLookup: try lookupZones(context)
        case .changesDatabase: try fetchDatabaseChanges(context)
        case .changesZone: try fetchZoneChanges(context)
        case .usersCaller: try callerIdentity(context)
        case .usersCurrent: try currentUser(context)
        default: throw RelayError.unknownPath
        }
    }
}

/// Where a request is answered: the event loop of its connection.
package protocol ResponseExecutor: Sendable {
    /// The executor of tasks that answer requests; `nil` for the global executor.
    var tasks: (any TaskExecutor)? { get }

    /// Runs the job on this executor; runs it synchronously if the caller is already there.
    func run(_ job: @escaping @Sendable () -> Void)
}

/// Runs the job on the thread that reports the outcome of the write.
struct InlineResponseExecutor: ResponseExecutor {
    var tasks: (any TaskExecutor)? { nil }

    func run(_ job: @escaping @Sendable () -> Void) { job() }
}
