import CLinux
import Dispatch
import Foundation
import Glibc
import Synchronization

/// A level-triggered epoll set that waits for readable sockets.
///
/// `add` may be called from any thread, `wait` from one thread only.
package final class Poller: Sendable {
    private let descriptor: Int32

    package init() throws(LoadError) {
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw .lastCall("epoll_create1") }
    }

    deinit { close(descriptor) }

    /// Adds a descriptor; `wait` reports it as `key`.
    package func add(_ watched: Int32, key: Int) throws(LoadError) {
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: UInt64(bitPattern: Int64(key))))
        guard epoll_ctl(descriptor, EPOLL_CTL_ADD, watched, &event) == 0 else { throw .lastCall("epoll_ctl") }
    }

    package func remove(_ watched: Int32) {
        epoll_ctl(descriptor, EPOLL_CTL_DEL, watched, nil)
    }

    /// Calls `body` with the key of each readable descriptor and returns their number, 0 after `milliseconds` without
    /// any.
    @discardableResult
    package func wait(milliseconds: Int32, _ body: (Int) throws -> Void) throws -> Int {
        try withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: 512) { events in
            let count = epoll_wait(descriptor, events.baseAddress, Int32(events.count), milliseconds)
            for event in events.prefix(max(0, Int(count))) {
                try body(Int(Int64(bitPattern: event.data.u64)))
            }
            return max(0, Int(count))
        }
    }
}

/// A descriptor that another thread can make readable, to end a `Poller`'s wait.
package final class Wake: Sendable {
    package let descriptor: Int32

    package init() throws(LoadError) {
        descriptor = eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
        guard descriptor >= 0 else { throw .lastCall("eventfd") }
    }

    deinit { close(descriptor) }

    package func signal() { eventfd_write(descriptor, 1) }

    package func clear() {
        var count: eventfd_t = 0
        eventfd_read(descriptor, &count)
    }
}

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

/// The machine's monotonic clock, read without a system call.
package enum Monotonic {
    /// Nanoseconds since a fixed moment, the same for all processes of the machine.
    package static var nanoseconds: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    /// Seconds since an earlier reading.
    package static func seconds(since start: Int) -> Double { Double(nanoseconds - start) / 1e9 }
}

/// Suspends the thread.
package func pause(microseconds: UInt32) { usleep(microseconds) }
