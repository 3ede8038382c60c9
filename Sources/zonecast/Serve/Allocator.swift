/// The C library's allocator and SQLite's use of it, tuned for a server.
enum Allocator {
    /// Keeps the memory of freed answers for the next ones.
    ///
    /// Pages of a feed are a hundred kilobytes and more. By default glibc hands such blocks back to the system when they
    /// are freed, and the next answer pays a page fault for every four kilobytes: a sixth of a first fetch.
    static func keepFreedMemory() {
        #if canImport(Glibc)
            _ = mallopt(mmapThreshold, 4 << 20)
            _ = mallopt(trimThreshold, 16 << 20)
        #endif
    }

    /// Has SQLite not count its memory, which takes a lock that all its connections share for every piece.
    ///
    /// To be called before SQLite is used. sqlite.org/c3ref/c_config_covering_index_scan.html
    static func stopCountingOfSQLite() {
        #if os(Linux)
            _ = configureSQLite(memoryStatus, 0)
        #endif
    }
}

#if os(Linux)
    private let memoryStatus: CInt = 9

    // Swift imports no function of variable arguments; on Linux the first of them come like any others.
    @_silgen_name("sqlite3_config")
    private func configureSQLite(_ option: CInt, _ value: CInt) -> CInt
#endif

#if canImport(Glibc)
    // From <malloc.h>, which Swift's Glibc module leaves out.
    private let trimThreshold: CInt = -1
    private let mmapThreshold: CInt = -3

    @_silgen_name("mallopt")
    private func mallopt(_ parameter: CInt, _ value: CInt) -> CInt
#endif
