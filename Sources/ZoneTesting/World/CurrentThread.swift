#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Identifies threads.
enum CurrentThread {
    static var id: UnsafeMutableRawPointer? {
        #if canImport(Darwin)
            UnsafeMutableRawPointer(pthread_self())
        #else
            UnsafeMutableRawPointer(bitPattern: UInt(pthread_self()))
        #endif
    }
}
