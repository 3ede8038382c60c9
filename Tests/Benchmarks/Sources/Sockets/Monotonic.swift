import Glibc

/// The machine's monotonic clock, read without leaving the process.
package enum Monotonic {
    /// Nanoseconds since some fixed moment; one clock for all processes of the machine.
    package static var nanoseconds: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    /// Seconds from an earlier reading to now.
    package static func seconds(since start: Int) -> Double { Double(nanoseconds - start) / 1e9 }
}

/// Lets the thread sleep.
package func pause(microseconds: UInt32) { usleep(microseconds) }
