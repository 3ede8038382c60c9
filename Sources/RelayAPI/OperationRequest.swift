import HTTPTypes
import Records
import RelayCore
import Wire

/// What an endpoint does next.
enum EndpointStep: Sendable {
    case answer(EndpointAnswer)
    /// A write, whose answer follows when it is on disk.
    case write(any EndpointWrite)

    /// A write made of two closures.
    ///
    /// `body` decides and writes as `StoreWrite.run` does; `answer` runs once that is on disk.
    static func writing<Outcome: Sendable>(
        for user: UserID? = nil,
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Outcome,
        answer: @escaping @Sendable (Outcome) throws -> EndpointAnswer
    ) -> EndpointStep {
        .write(ClosureWrite(user: user, body, answer))
    }
}

/// The write of an endpoint, and its answer.
///
/// One thread at a time uses it: the request, then the store's writer, then the request again.
protocol EndpointWrite: AnyObject, Sendable {
    /// See `StoreWrite.user`.
    var user: UserID? { get }

    /// Decides and writes, and keeps the outcome; see `StoreWrite.run`.
    func run(in writer: any StoreWriter) throws(RelayError)

    /// Returns the answer, once the write is on disk.
    func answer() throws -> EndpointAnswer
}

/// A write made of two closures.
// Unchecked because of `outcome`: see `EndpointWrite`.
private final class ClosureWrite<Outcome: Sendable>: EndpointWrite, @unchecked Sendable {
    let user: UserID?
    private let body: @Sendable (any StoreWriter) throws(RelayError) -> Outcome
    private let makeAnswer: @Sendable (Outcome) throws -> EndpointAnswer
    private var outcome: Outcome?

    init(
        user: UserID?,
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Outcome,
        _ answer: @escaping @Sendable (Outcome) throws -> EndpointAnswer
    ) {
        self.user = user
        self.body = body
        makeAnswer = answer
    }

    func run(in writer: any StoreWriter) throws(RelayError) { outcome = try body(writer) }

    func answer() throws -> EndpointAnswer {
        guard let outcome else { throw RelayError.notCarriedOut }
        return try makeAnswer(outcome)
    }
}

/// A request for an operation that waits for nothing but its write; needs no task.
///
/// Runs on the caller's thread if the stores' reads do not block, and otherwise on the stores' executor. A write
/// continues on `executor` when it is on disk. The object is also the `StoreWrite`, so that a write needs only one
/// allocation.
// Unchecked because of `write` and `failure`: one thread at a time uses the request, first the caller, then the store's
// writer, then `executor`.
final class OperationRequest: StoreWrite, @unchecked Sendable {
    typealias Step = @Sendable (RequestContext) throws -> EndpointStep

    private let relay: Relay
    private let request: APIRequest
    private let route: Route
    private let step: Step
    /// The caller, for requests of the console; they are neither charged nor counted.
    private let known: Authentication?
    private let id: RequestIdentifier
    private let executor: any ResponseExecutor
    private let then: @Sendable (APIResponse) -> Void
    private var context: RequestContext?
    private var write: (any EndpointWrite)?
    private var failure: RelayError?

    var user: UserID? { write?.user }

    init(
        _ relay: Relay,
        _ request: APIRequest,
        _ route: Route,
        _ step: @escaping Step,
        by known: Authentication? = nil,
        executor: any ResponseExecutor,
        then: @escaping @Sendable (APIResponse) -> Void
    ) {
        self.relay = relay
        self.request = request
        self.route = route
        self.step = step
        self.known = known
        self.executor = executor
        self.then = then
        id = relay.requestID()
    }

    func begin() {
        guard let blocking = relay.stores.executor else { return start() }
        Task(executorPreference: blocking) { [self] in start() }
    }

    private func start() {
        var authentication: Authentication?
        do {
            let caller = try known ?? relay.admit(request, route)
            authentication = caller
            perform(caller, in: try relay.store(for: request, route, caller))
        } catch {
            fail(error, authentication)
        }
    }

    private func perform(_ caller: Authentication, in store: any Store) {
        do {
            let context = try relay.context(request, route, caller, in: store, id: id)
            self.context = context
            guard known == nil, let user = caller.caller.user, try !isProvisioned(user, store) else {
                return try perform(context)
            }
            store.write(relay.provisioning.write(user, route.home).run) { [self] result in provisioned(user, result) }
        } catch {
            fail(error, caller)
        }
    }

    private func isProvisioned(_ user: UserID, _ store: any Store) throws -> Bool {
        let parsedHead = request.head.parsedHead
        if parsedHead.isProvisioned { return true }
        parsedHead.isProvisioned = try relay.provisioning.isDone(user, route.home, in: store)
        return parsedHead.isProvisioned
    }

    /// Continues when the user is provisioned or cannot be.
    private func provisioned(_ user: UserID, _ result: Result<Void, RelayError>) {
        guard let context else { return }
        let proceed: @Sendable () -> Void = { [self] in
            do {
                try result.get()
                relay.provisioning.markDone(user, route.home)
                try perform(context)
            } catch {
                fail(error, context.authentication)
            }
        }
        if let blocking = relay.stores.executor {
            Task(executorPreference: blocking) { proceed() }
        } else {
            executor.run(proceed)
        }
    }

    private func perform(_ context: RequestContext) throws {
        switch try step(context) {
        case .answer(let answer): end(answer, context)
        case .write(let write):
            self.write = write
            context.store.write(self)
        }
    }

    func run(in writer: any StoreWriter) {
        do throws(RelayError) {
            try write?.run(in: writer)
            failure = nil
        } catch {
            failure = error
        }
    }

    func finish(_ failure: RelayError?) {
        if let failure { self.failure = failure }
        executor.run { [self] in wrote() }
    }

    /// Finishes the request after the write is on disk or has failed.
    private func wrote() {
        guard let context, let write else { return }
        do {
            if let failure { throw failure }
            end(try write.answer(), context)
        } catch {
            fail(error, context.authentication)
        }
    }

    private func end(_ answer: EndpointAnswer, _ context: RequestContext) {
        if known == nil { relay.count(answer, of: route) }
        respond(APIResponse(answer), context.authentication)
    }

    private func fail(_ error: any Error, _ authentication: Authentication?) {
        respond(relay.failure(error, id: id), authentication)
    }

    private func respond(_ response: APIResponse, _ authentication: Authentication?) {
        var response = response
        relay.addCommonFields(&response, request, known == nil ? authentication : nil, id: id)
        guard relay.stores.executor != nil else { return then(response) }
        executor.run { [self, response] in then(response) }
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
