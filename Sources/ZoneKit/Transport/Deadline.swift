import SyncCore

/// The end of the time that an app allows for an operation, measured by the clock of the operation's container.
struct Deadline: Sendable, Hashable {
    let moment: Moment
    private let time: Timekeeper

    /// Creates a deadline that ends after `wait`, counted from now.
    init(in wait: Duration, by time: Timekeeper) {
        moment = time.now() + wait
        self.time = time
    }

    var isOver: Bool { time.now() >= moment }

    /// Returns when the deadline has passed.
    ///
    /// Throws only if the calling task is cancelled.
    func wait() async throws { try await time.sleep(moment) }

    /// Compares the moments only; the deadlines of one operation share one clock.
    static func == (a: Deadline, b: Deadline) -> Bool { a.moment == b.moment }

    func hash(into hasher: inout Hasher) { hasher.combine(moment) }
}

extension RelayTransport {
    /// Sends a request and stops waiting when the deadline of its operation has passed.
    ///
    /// The deadline applies in addition to the transport's timeout, which covers one response and restarts with each
    /// chunk of it.
    func send(_ request: RelayRequest, until deadline: Deadline?) async throws(TransportError) -> RelayResponse {
        guard let deadline else { return try await send(request) }
        let reason = "the operation's timeout, timeoutIntervalForResource, has expired."
        guard !deadline.isOver else { throw .unreachable(reason) }
        let first = await withTaskGroup(of: Result<RelayResponse, TransportError>.self) { group in
            group.addTask {
                do throws(TransportError) {
                    return .success(try await send(request))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                let isOver = (try? await deadline.wait()) != nil
                return .failure(isOver ? .answerLost(reason) : .cancelled)
            }
            defer { group.cancelAll() }
            return await group.next() ?? .failure(.cancelled)
        }
        return try first.get()
    }
}
