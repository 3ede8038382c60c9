import Foundation
import Synchronization

/// Which places of which files were met damaged, for whoever tells the operator.
///
/// SQLite's errors say only that something is damaged.
package enum DamageLedger {
    private static let places = Mutex<[String: Set<String>]>([:])
    /// A disk that is going may damage everything.
    private static let most = 100

    static func note(_ place: String, of path: String) {
        let path = real(path)
        places.withLock { places in
            guard places[path, default: []].count < most else { return }
            places[path, default: []].insert(place)
        }
    }

    /// What is known of a file, in words.
    package static func places(of path: String) -> [String] {
        let path = real(path)
        return places.withLock { ($0[path] ?? []).sorted() }
    }

    /// Forgets a file, because another has taken its place.
    static func forget(_ path: String) {
        let path = real(path)
        places.withLock { $0[path] = nil }
    }

    /// As SQLite calls the file.
    private static func real(_ path: String) -> String {
        guard let name = realpath(path, nil) else { return path }
        defer { free(name) }
        return String(cString: name)
    }
}
