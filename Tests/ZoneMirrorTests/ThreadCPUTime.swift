import Foundation

#if canImport(Glibc)
    import Glibc
#endif

/// Returns the CPU seconds that `body` took on this thread.
///
/// Waiting time does not count, because on a busy machine it includes other threads' work. Tests that code does not
/// wait suspend the work that it might wait for.
func threadCPUTime(of body: () throws -> Void) rethrows -> Double {
    #if os(Linux)
        let before = processorSeconds()
        try body()
        return processorSeconds() - before
    #else
        let start = ContinuousClock.now
        try body()
        return (ContinuousClock.now - start).inSeconds
    #endif
}

#if os(Linux)
    /// The CPU time of the calling thread.
    private func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
#endif
