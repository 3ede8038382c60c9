import Foundation

#if canImport(Glibc)
    import Glibc
#endif

/// How many seconds of the processor `body` took on this thread.
///
/// Where it waited, that is no part of it: on a busy machine other threads' turns would be taken for a wait. That something
/// does not wait is shown by halting what it could wait for.
func ownTime(of body: () throws -> Void) rethrows -> Double {
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
    /// What the calling thread has had so far.
    private func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
#endif
