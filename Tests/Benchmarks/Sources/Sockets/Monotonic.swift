import Glibc

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
