import Glibc

/// Why a measurement failed.
package enum LoadError: Error, CustomStringConvertible {
    /// A system call failed.
    case system(call: String, errno: Int32)
    /// The peer sent an unexpected response, or closed the connection.
    case peer(String)
    /// A required tool or file is missing or failed.
    case missing(String)
    /// A wait that took too long.
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
