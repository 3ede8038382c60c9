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
        guard let mark = path(for: store), access(mark, F_OK) != 0 else { return }
        mkdir((mark as NSString).deletingLastPathComponent, 0o700)
        let descriptor = open(mark, O_CREAT | O_RDONLY | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
    }

    static func isThere(for store: String) -> Bool { path(for: store).map { access($0, F_OK) == 0 } ?? false }

    /// The mark's path; `nil` for a file that is in no data folder.
    private static func path(for store: String) -> String? {
        let container = (store as NSString).deletingLastPathComponent as NSString
        let containers = container.deletingLastPathComponent as NSString
        guard containers.lastPathComponent == "containers" else { return nil }
        let data = containers.deletingLastPathComponent
        return (data.isEmpty ? "." : data) + "/" + name(for: store)
    }

    /// The mark's path in the data folder.
    static func name(for store: String) -> String {
        let container = ((store as NSString).deletingLastPathComponent as NSString).lastPathComponent
        let environment = ((store as NSString).lastPathComponent as NSString).deletingPathExtension
        return "\(folder)/\(container).\(environment)"
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
