import Foundation

/// The files and sockets that this process may have open at once, and has.
package enum Descriptors {
    /// The most that it may have.
    package static var limit: Int {
        let limit = sysconf(Int32(_SC_OPEN_MAX))
        return limit < 0 ? .max : limit
    }

    /// The most that `limit` can be raised to without being root.
    package static var ceiling: Int {
        var limits = rlimit()
        #if canImport(Glibc)
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let resource = RLIMIT_NOFILE
        #endif
        guard getrlimit(resource, &limits) == 0 else { return limit }
        return Int(clamping: limits.rlim_max)
    }

    /// How many are open; `nil` where none is left to look with.
    package static var count: Int? {
        #if os(Linux)
            try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
        #else
            try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count
        #endif
    }

    /// As many as opening a store takes, and what others may let go of between its failure and this look.
    private static let few = 24

    /// Whether a lack of them is why something could not be opened just now.
    ///
    /// Costs time in all that are open: for when something has failed.
    static var areShort: Bool { count.map { $0 >= limit - few } ?? true }
}

/// How a process's descriptors are shared out between stores and connections, so that neither can starve the other.
package struct DescriptorShares: Hashable, Sendable {
    /// Stores that are open at once: a share of a quarter, but neither fewer nor more than are of use.
    package let stores: Int
    /// Connections at once, a tenth more being told that they are too many.
    package let connections: Int

    /// What a store takes that several requests read from: three files to write, and two for each that reads.
    private static let perStore = 8
    private static let fewestStores = 4
    /// Each takes a thread and memory, too.
    private static let mostStores = 256
    /// Loops, the accounts, logs, assets on their way and those that broke off: an eighth, within these.
    private static let reserve = 48...128
    /// Connections beyond the tenth that are told that they are too many.
    package static let mostToldMore = 16

    /// `descriptors`: all that the process may have; fewer than none: the system sets no limit.
    package init(descriptors: Int) {
        guard descriptors >= 0, descriptors < .max else {
            stores = Self.mostStores
            connections = .max
            return
        }
        stores = min(max(descriptors / 4 / Self.perStore, Self.fewestStores), Self.mostStores)
        let reserve = min(max(descriptors / 8, Self.reserve.lowerBound), Self.reserve.upperBound)
        let rest = descriptors - stores * Self.perStore - reserve - Self.mostToldMore
        connections = max(1, rest / 11 * 10)
    }
}
