import Foundation
package import Records

/// An empty file that records that a store exists: `stores-here/CONTAINER.ENVIRONMENT` in the data folder.
///
/// Without it an empty store would be created in place of a missing one, and devices that connect would take all their
/// zones for deleted. It is not beside the store, since the whole container folder may be lost, or the disk with all
/// containers not mounted. Removing a mark by hand lets a store start empty; creating one has no use.
package enum StoreMarker {
    static let folder = "stores-here"

    /// Creates the mark; if that fails, the next opening of the store tries again.
    static func make(for store: String) {
        guard let place = Place(store), access(place.path, F_OK) != 0 else { return }
        mkdir("\(place.data)/\(folder)", 0o700)
        let descriptor = open(place.path, O_CREAT | O_RDONLY | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }

    /// Returns the mark's path in the data folder; `nil` if there is no mark.
    static func name(for store: String) -> String? {
        guard let place = Place(store), access(place.path, F_OK) == 0 else { return nil }
        return "\(folder)/\(place.name)"
    }

    static func isThere(for store: String) -> Bool { name(for: store) != nil }

    /// The place of a store's mark.
    private struct Place {
        var data: String
        var name: String

        var path: String { "\(data)/\(folder)/\(name)" }

        /// `nil` for a file that is in no data folder.
        ///
        /// Splits the path by hand: Foundation traps on the parent of a path that is one character long.
        init?(_ store: String) {
            let parts = store.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count > 2, parts[parts.count - 3] == "containers" else { return nil }
            data = parts.count == 3 ? "." : parts.dropLast(3).joined(separator: "/")
            name = "\(parts[parts.count - 2]).\(parts[parts.count - 1].prefix { $0 != "." })"
        }
    }

    /// Returns the paths in the data folder of all stores that have a mark.
    static func stores(in data: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "\(data)/\(folder)")) ?? []
        return names.compactMap { name in
            let name = name as NSString
            guard let container = ContainerID(name.deletingPathExtension),
                let environment = Environment(rawValue: name.pathExtension)
            else { return nil }
            return "containers/\(container.name)/\(environment.rawValue).sqlite"
        }
    }

    /// Removes the marks of a container whose stores are about to be removed.
    package static func remove(of container: ContainerID, in data: String) {
        for environment in Environment.allCases {
            unlink("\(data)/\(folder)/\(container.name).\(environment.rawValue)")
        }
    }
}
