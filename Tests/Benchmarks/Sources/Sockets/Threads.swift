import Dispatch
import Foundation
import Synchronization

/// Runs plain threads, one per piece of work, and waits for all of them.
///
/// Threads and not tasks: each owns an epoll set and sleeps in it, which no cooperative pool would forgive.
package enum Threads {
    /// One result per index in `0..<count`; or the first error, once every thread is done.
    package static func run<Value: Sendable>(
        _ count: Int,
        _ body: @escaping @Sendable (Int) throws -> Value
    ) throws -> [Value] {
        let started = (0..<count).map { index in RunningThread { try body(index) } }
        let outcomes = started.map { thread in Result { try thread.join() } }
        return try outcomes.map { try $0.get() }
    }
}

/// A thread that was started and whose outcome somebody collects once.
package final class RunningThread<Value: Sendable>: Sendable {
    private let outcome = Mutex<Result<Value, any Error>?>(nil)
    private let finished = DispatchSemaphore(value: 0)

    package init(_ body: @escaping @Sendable () throws -> Value) {
        Thread.detachNewThread { [self] in
            let result = Result { try body() }
            outcome.withLock { $0 = result }
            finished.signal()
        }
    }

    /// Waits for the thread's end.
    package func join() throws -> Value {
        finished.wait()
        guard let result = outcome.withLock({ $0 }) else {
            throw LoadError.missing("A thread ended without a result.")
        }
        return try result.get()
    }
}
