import HTTPTypes
import Records
import RelayCore
import Wire

/// A request that is handled without a task of its own, used for the most frequent operations.
///
/// Reads are answered synchronously. A write is processed synchronously up to its commit and finished on `lane` once
/// the commit is on disk. The object is also the `StoreWrite`, so a write needs only one allocation.
// Unchecked because of `write` and `outcome`: one thread at a time uses the request, first the caller, then the store's
// writer, then `lane`.
final class DirectRequest: StoreWrite, @unchecked Sendable {
    private let relay: Relay
    private let request: APIRequest
    private let route: Route
    private let id: RequestIdentifier
    private let lane: any AnswerLane
    private let then: @Sendable (APIResponse) -> Void
    var user: UserID? { write?.context.authentication.caller.user }
    private var write: RecordsWrite?
    private var outcome: Result<ModifyRecords.Result, RelayError> = .failure(.notCarriedOut)

    init(
        _ relay: Relay,
        _ request: APIRequest,
        _ route: Route,
        lane: any AnswerLane,
        then: @escaping @Sendable (APIResponse) -> Void
    ) {
        self.relay = relay
        self.request = request
        self.route = route
        self.lane = lane
        self.then = then
        id = relay.requestID()
    }

    func begin() {
        var authentication: Authentication?
        do {
            let known = try relay.admit(request, route)
            authentication = known
            let context = try relay.context(request, route, known, id: id)
            guard let user = known.caller.user, try !isWelcomed(user, context) else { return try perform(context) }
            context.store.write(relay.welcomes.write(user, context.home).run) { [self] result in
                lane.run { [self] in
                    do {
                        try result.get()
                        relay.welcomes.did(user, route.home)
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

    private func isWelcomed(_ user: UserID, _ context: RequestContext) throws -> Bool {
        let reading = request.head.reading
        if reading.isWelcomed { return true }
        reading.isWelcomed = try relay.welcomes.isDone(user, route.home, in: context.store)
        return reading.isWelcomed
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
        lane.run { [self] in wrote() }
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
        relay.decorate(&response, request, context.authentication, id: id)
        then(response)
    }

    private func fail(_ error: any Error, _ authentication: Authentication?) {
        var response = relay.failure(error, id: id)
        relay.decorate(&response, request, authentication, id: id)
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

/// The executor that finishes a request after its write is on disk: the event loop of its connection.
package protocol AnswerLane: Sendable {
    /// Runs the job on this executor; runs it synchronously if the caller is already there.
    func run(_ job: @escaping @Sendable () -> Void)
}

/// Runs the job on the thread that reports the outcome of the write.
struct NoLane: AnswerLane {
    func run(_ job: @escaping @Sendable () -> Void) { job() }
}
