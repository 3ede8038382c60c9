import NIOCore
import RelayAPI
import Synchronization

/// Completes responses on an event loop.
///
/// The writes of one commit, or of several commits in quick succession, wake the event loop once.
final class LoopAnswers: AnswerLane {
    private let eventLoop: any EventLoop
    private let inbox = Mutex<[@Sendable () -> Void]>([])

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func run(_ job: @escaping @Sendable () -> Void) {
        guard !eventLoop.inEventLoop else { return job() }
        let isFirst = inbox.withLock { inbox in
            inbox.append(job)
            return inbox.count == 1
        }
        if isFirst { eventLoop.execute { self.empty() } }
    }

    private func empty() {
        let jobs = inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
        for job in jobs { job() }
    }
}
