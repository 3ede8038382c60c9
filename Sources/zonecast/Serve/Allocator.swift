/// Server settings for the C library's allocator and for SQLite's memory statistics.
enum Allocator {
    /// Keeps freed memory in the process instead of returning it to the system.
    ///
    /// Response pages of a change feed are 100 KB and more. By default glibc returns blocks of this size to the system
    /// when they are freed, and the next response pays a page fault for each 4 KB: a sixth of the time of a first
    /// fetch.
    static func keepFreedMemory() {
        #if canImport(Glibc)
            _ = mallopt(mmapThreshold, 4 << 20)
            _ = mallopt(trimThreshold, 16 << 20)
        #endif
    }

    /// Turns off SQLite's memory statistics, which take a lock shared by all connections at every allocation.
    ///
    /// Must be called before SQLite is used. sqlite.org/c3ref/c_config_covering_index_scan.html
    static func stopCountingOfSQLite() {
        #if os(Linux)
            _ = configureSQLite(memoryStatus, 0)
        #endif
    }
}

#if os(Linux)
    private let memoryStatus: CInt = 9

    // Swift does not import variadic C functions. On Linux, their first arguments are passed like those of any other
    // function.
    @_silgen_name("sqlite3_config")
    private func configureSQLite(_ option: CInt, _ value: CInt) -> CInt
#endif

#if canImport(Glibc)
    // From <malloc.h>, which Swift's Glibc module does not import.
    private let trimThreshold: CInt = -1
    private let mmapThreshold: CInt = -3

    @_silgen_name("mallopt")
    private func mallopt(_ parameter: CInt, _ value: CInt) -> CInt
#endif
