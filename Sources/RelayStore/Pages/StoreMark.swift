import Foundation
package import Records

/// An empty file for each store of a data folder, which says that there was one: `stores-here/CONTAINER.ENVIRONMENT`.
///
/// A store that is missing would be begun anew with nothing in it, and devices that come back would take all their zones for
/// deleted. Not beside the store, since all of a container may be gone, or the disk with all containers not be there. Made
/// by hand it is of no use; removed by hand it lets a store begin with nothing.
package enum StoreMark {
    static let folder = "stores-here"

    /// Does nothing where it is there, or cannot be made: the next opening tries again.
    static func make(for store: String) {
        guard let place = Place(store), access(place.path, F_OK) != 0 else { return }
        mkdir("\(place.data)/\(folder)", 0o700)
        let descriptor = open(place.path, O_CREAT | O_RDONLY | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }

    /// The mark's path in the data folder; `nil` where there is none.
    static func name(for store: String) -> String? {
        guard let place = Place(store), access(place.path, F_OK) == 0 else { return nil }
        return "\(folder)/\(place.name)"
    }

    static func isThere(for store: String) -> Bool { name(for: store) != nil }

    /// Where the mark of a store's file is.
    private struct Place {
        var data: String
        var name: String

        var path: String { "\(data)/\(folder)/\(name)" }

        /// `nil` for a file that is in no data folder.
        ///
        /// Parted by hand: Foundation traps over the parent of a path that is a single character.
        init?(_ store: String) {
            let parts = store.split(separator: "/", omittingEmptySubsequences: false)
            guard parts.count > 2, parts[parts.count - 3] == "containers" else { return nil }
            data = parts.count == 3 ? "." : parts.dropLast(3).joined(separator: "/")
            name = "\(parts[parts.count - 2]).\(parts[parts.count - 1].prefix { $0 != "." })"
        }
    }

    /// The paths in the data folder of all stores that are marked.
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

    /// For one whose stores are about to be removed.
    package static func remove(of container: ContainerID, in data: String) {
        for environment in Environment.allCases {
            unlink("\(data)/\(folder)/\(container.name).\(environment.rawValue)")
        }
    }
}
