import Foundation

/// The limits on open files and sockets of this process, and their number.
package enum Descriptors {
    /// The current limit.
    package static var limit: Int {
        let limit = sysconf(Int32(_SC_OPEN_MAX))
        return limit < 0 ? .max : limit
    }

    /// The value to which `limit` can be raised without root permissions.
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

    /// The number of open descriptors; `nil` if none is left to count them with.
    package static var count: Int? {
        #if os(Linux)
            try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
        #else
            try? FileManager.default.contentsOfDirectory(atPath: "/dev/fd").count
        #endif
    }

    /// As many as opening a store takes, and others may close between its failure and this check.
    private static let few = 24

    /// Whether something could probably not be opened because too few descriptors are left.
    ///
    /// Costs time in proportion to the open ones: use it after a failure only.
    package static var areShort: Bool { count.map { $0 >= limit - few } ?? true }
}

/// Divides a process's descriptors between stores and connections, so that neither can starve the other.
package struct DescriptorShares: Hashable, Sendable {
    /// The maximum number of open stores: a quarter of the descriptors, within bounds.
    package let stores: Int
    /// The maximum number of connections; a tenth more receive a response that there are too many.
    package let connections: Int

    /// The descriptors of a store that several requests read: three for writing, and two for each reader.
    private static let perStore = 8
    private static let fewestStores = 4
    /// Each store takes a thread and memory too.
    private static let mostStores = 256
    /// For event loops, accounts, logs, and uploads in progress or interrupted: an eighth, within these bounds.
    private static let reserve = 48...128
    /// The connections beyond the tenth that receive a response that there are too many.
    package static let rejectableConnections = 16

    /// `descriptors` is the limit of the process; a negative number means that there is none.
    package init(descriptors: Int) {
        guard descriptors >= 0, descriptors < .max else {
            stores = Self.mostStores
            connections = .max
            return
        }
        stores = min(max(descriptors / 4 / Self.perStore, Self.fewestStores), Self.mostStores)
        let reserve = min(max(descriptors / 8, Self.reserve.lowerBound), Self.reserve.upperBound)
        let rest = descriptors - stores * Self.perStore - reserve - Self.rejectableConnections
        connections = max(1, rest / 11 * 10)
    }
}
