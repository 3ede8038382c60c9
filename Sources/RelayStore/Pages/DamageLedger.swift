import Foundation
import Synchronization

/// The damaged places that have been found, by file, to report them to the operator.
///
/// SQLite's errors say only that something is damaged.
package enum DamageLedger {
    private static let places = Mutex<[String: Set<String>]>([:])
    /// A failing disk may damage everything.
    private static let most = 100

    static func note(_ place: String, of path: String) {
        let path = real(path)
        places.withLock { places in
            guard places[path, default: []].count < most else { return }
            places[path, default: []].insert(place)
        }
    }

    /// Returns the known damaged places of a file, in words.
    package static func places(of path: String) -> [String] {
        let path = real(path)
        return places.withLock { ($0[path] ?? []).sorted() }
    }

    /// Removes the entries of a file that another one has replaced.
    static func forget(_ path: String) {
        let path = real(path)
        places.withLock { $0[path] = nil }
    }

    /// Returns the path in the form that SQLite uses.
    private static func real(_ path: String) -> String {
        guard let name = realpath(path, nil) else { return path }
        defer { free(name) }
        return String(cString: name)
    }
}
