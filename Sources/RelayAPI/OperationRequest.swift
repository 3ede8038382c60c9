import HTTPTypes
import Records
import RelayCore
import Wire

/// What an endpoint does next.
enum EndpointStep: Sendable {
    case answer(EndpointAnswer)
    /// A write, after which the endpoint continues when it is on disk.
    case write(any EndpointWrite)

    /// A write made of two closures.
    ///
    /// `body` decides and writes as `StoreWrite.run` does; `answer` runs once that is on disk.
    static func writing<Outcome: Sendable>(
        touching owner: UserID,
        prefetch: Prefetch,
        for user: UserID? = nil,
        _ body: @escaping @Sendable (any StoreWriter) throws(RelayError) -> Outcome,
        answer: @escaping @Sendable (Outcome) throws -> EndpointAnswer
    ) -> EndpointStep {
        let part = WritePart(owner: owner, prefetch: prefetch, run: body)
        return .write(PartWrite(part, for: user) { .answer(try answer($0)) })
    }

    /// Writes to the data of several owners, each run when the one before is on disk, and then the answer.
    ///
    /// A failure of the store fails the request; the parts before it are done, and a repeated request must find that.
    static func writing<Outcome: Sendable>(
        _ parts: ArraySlice<WritePart<Outcome>>,
        after outcomes: [Outcome] = [],
        answer: @escaping @Sendable ([Outcome]) throws -> EndpointAnswer
    ) throws -> EndpointStep {
        guard let part = parts.first else { return .answer(try answer(outcomes)) }
        return .write(
            PartWrite(part, for: nil) { try writing(parts.dropFirst(), after: outcomes + [$0], answer: answer) }
        )
    }
}

/// The part of a request's writes that concerns one owner.
struct WritePart<Outcome: Sendable>: Sendable {
    var owner: UserID
    var prefetch: Prefetch
    var run: @Sendable (any StoreWriter) throws(RelayError) -> Outcome
}

/// The write of an endpoint, and what follows it.
///
/// One thread at a time uses it: the request, then the store's writer, then the request again.
protocol EndpointWrite: AnyObject, Sendable {
    /// See `StoreWrite.user`.
    var user: UserID? { get }
    /// See `StoreWrite.owner`.
    var owner: UserID { get }
    /// See `StoreWrite.prefetch`.
    var prefetch: Prefetch { get }

    /// Decides and writes, and keeps the outcome; see `StoreWrite.run`.
    func run(in writer: any StoreWriter) throws(RelayError)

    /// Returns the next step, usually the answer, once the write is on disk.
    func next() throws -> EndpointStep
}

/// A write made of closures.
// Unchecked because of `outcome`: see `EndpointWrite`.
private final class PartWrite<Outcome: Sendable>: EndpointWrite, @unchecked Sendable {
    let user: UserID?
    var owner: UserID { part.owner }
    var prefetch: Prefetch { part.prefetch }
    private let part: WritePart<Outcome>
    private let makeNext: @Sendable (Outcome) throws -> EndpointStep
    private var outcome: Outcome?

    init(
        _ part: WritePart<Outcome>,
        for user: UserID?,
        next: @escaping @Sendable (Outcome) throws -> EndpointStep
    ) {
        self.part = part
        self.user = user
        makeNext = next
    }

    func run(in writer: any StoreWriter) throws(RelayError) { outcome = try part.run(writer) }

    func next() throws -> EndpointStep {
        guard let outcome else { throw RelayError.notCarriedOut }
        return try makeNext(outcome)
    }
}

/// A request for an operation that waits for nothing but its write; needs no task.
///
/// Runs on the caller's thread if the stores' reads do not block, and continues on `executor` when its write is on disk;
/// otherwise does both on the stores' executor, and only responds on `executor`. The object is also the `StoreWrite`, so that a write needs only one
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
    var owner: UserID? { write?.owner }
    var prefetch: Prefetch { write?.prefetch ?? Prefetch() }

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
            guard known == nil, let user = caller.caller.user, let provision = try provision(of: user, store) else {
                return try proceed(step(context), context)
            }
            run(provision.writes[...], of: provision, in: store, context)
        } catch {
            fail(error, caller)
        }
    }

    /// Returns `nil` if the user is provisioned.
    private func provision(of user: UserID, _ store: any Store) throws -> FirstUseProvisioning.Provision? {
        let parsedHead = request.head.parsedHead
        if parsedHead.isProvisioned { return nil }
        let provision = try relay.provisioning.remaining(user, route.home, in: store)
        parsedHead.isProvisioned = provision == nil
        return provision
    }

    /// Runs the writes one after another, then the endpoint; ends with the first write that fails.
    private func run(
        _ writes: ArraySlice<WritePart<Void>>,
        of provision: FirstUseProvisioning.Provision,
        in store: any Store,
        _ context: RequestContext
    ) {
        guard let write = writes.first else { return }
        store.write(touching: write.owner, prefetch: write.prefetch, write.run) { [self] result in
            resume { [self] in
                do {
                    try result.get()
                    if writes.count > 1 { return run(writes.dropFirst(), of: provision, in: store, context) }
                    relay.provisioning.markDone(provision)
                    try proceed(step(context), context)
                } catch {
                    fail(error, context.authentication)
                }
            }
        }
    }

    /// Continues after a write: on the stores' executor if reads may block, since answers with shares read the directory,
    /// and otherwise on `executor`.
    private func resume(_ body: @escaping @Sendable () -> Void) {
        guard let blocking = relay.stores.executor else { return executor.run(body) }
        Task(executorPreference: blocking) { body() }
    }

    private func proceed(_ step: EndpointStep, _ context: RequestContext) throws {
        switch step {
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
        resume { [self] in wrote() }
    }

    /// Continues the request after the write is on disk or has failed.
    private func wrote() {
        guard let context, let write else { return }
        do {
            if let failure { throw failure }
            try proceed(write.next(), context)
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
