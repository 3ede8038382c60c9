import Glibc

/// Why a measurement could not be made.
package enum LoadError: Error, CustomStringConvertible {
    /// A system call failed.
    case system(call: String, errno: Int32)
    /// The peer answered something else than the measurement needs, or closed.
    case peer(String)
    /// A tool or file that the measurement needs is not there, or failed.
    case missing(String)
    /// Something awaited did not come in time.
    case timedOut(String)

    package static func lastCall(_ call: String) -> LoadError { .system(call: call, errno: errno) }

    package var description: String {
        switch self {
        case .system(let call, let code): "\(call): \(String(cString: strerror(code)))"
        case .peer(let what), .missing(let what): what
        case .timedOut(let what): "waited too long for \(what)"
        }
    }
}
