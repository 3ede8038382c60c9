import CLinux
import Glibc

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
