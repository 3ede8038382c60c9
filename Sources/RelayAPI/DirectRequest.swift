import HTTPTypes
import Records
import RelayCore
import Wire

/// A request of the kinds that devices send all the time, on its way without a task of its own.
///
/// Reads are answered at once. Of a write everything up to the commit is done at once, and what remains on the lane when
/// it is on disk. It is the write, too: one object on its way to the disk and back.
// Unchecked for the two that change: one thread at a time has the request in hand, first its caller, then whoever carries out
// the store's writes, and then the lane that this hands it to.
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

    /// Goes on where the write is on disk, or has failed.
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
    /// Whether `DirectRequest` knows it.
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
