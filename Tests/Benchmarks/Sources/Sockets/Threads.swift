import Dispatch
import Foundation
import Synchronization

/// Runs threads, one per piece of work, and waits for all of them.
///
/// Uses threads instead of tasks, because each sleeps in its epoll set and would block the cooperative pool.
package enum Threads {
    /// Returns one result per index in `0..<count`, or throws the first error after all threads have ended.
    package static func run<Value: Sendable>(
        _ count: Int,
        _ body: @escaping @Sendable (Int) throws -> Value
    ) throws -> [Value] {
        let started = (0..<count).map { index in RunningThread { try body(index) } }
        let outcomes = started.map { thread in Result { try thread.join() } }
        return try outcomes.map { try $0.get() }
    }
}

/// A started thread whose result is collected once.
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

    /// Waits for the thread to end.
    package func join() throws -> Value {
        finished.wait()
        guard let result = outcome.withLock({ $0 }) else {
            throw LoadError.missing("A thread ended without a result.")
        }
        return try result.get()
    }
}
