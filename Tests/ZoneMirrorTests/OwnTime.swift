import Foundation

#if canImport(Glibc)
    import Glibc
#endif

/// How many seconds `body` took of its own, on this thread.
///
/// Where it waited for nobody, what counts is the processor's time: on a busy machine other threads' turns would be taken
/// for a wait. Where it waited, for a lock for instance, all the time counts.
func ownTime(of body: () throws -> Void) rethrows -> Double {
    #if os(Linux)
        let (start, before) = (ContinuousClock.now, ThreadUse())
        try body()
        let after = ThreadUse()
        return after.waits == before.waits ? after.seconds - before.seconds : (ContinuousClock.now - start).inSeconds
    #else
        let start = ContinuousClock.now
        try body()
        return (ContinuousClock.now - start).inSeconds
    #endif
}

#if os(Linux)
    /// What the calling thread has used so far.
    private struct ThreadUse {
        /// How often it gave the processor up by itself.
        var waits: Int
        var seconds: Double

        init() {
            var usage = rusage()
            // RUSAGE_THREAD, which glibc shows only to its own dialect of C.
            getrusage(1, &usage)
            waits = usage.ru_nvcsw
            let time = (usage.ru_utime, usage.ru_stime)
            seconds = Double(time.0.tv_sec + time.1.tv_sec) + Double(time.0.tv_usec + time.1.tv_usec) / 1e6
        }
    }
#endif
