import SyncCore

/// When the time that a program gives an operation is over, by the clock of the operation's container.
struct Deadline: Sendable, Hashable {
    let moment: Moment
    private let time: Timekeeper

    /// So long from now.
    init(in wait: Duration, by time: Timekeeper) {
        moment = time.now() + wait
        self.time = time
    }

    var isOver: Bool { time.now() >= moment }

    /// Returns when it is over; throws only when the calling task is cancelled.
    func wait() async throws { try await time.sleep(moment) }

    /// Deadlines of one operation are by one clock.
    static func == (a: Deadline, b: Deadline) -> Bool { a.moment == b.moment }

    func hash(into hasher: inout Hasher) { hasher.combine(moment) }
}

extension RelayTransport {
    /// Sends a request, and gives up when the time of the operation that it belongs to is over.
    ///
    /// Beyond what the transport itself waits for: that is for one answer only, and begins anew with each piece of it.
    func send(_ request: RelayRequest, until deadline: Deadline?) async throws(TransportError) -> RelayResponse {
        guard let deadline else { return try await send(request) }
        let reason = "the time for the whole operation, timeoutIntervalForResource, is over."
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
