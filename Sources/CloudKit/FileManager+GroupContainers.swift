#if !canImport(Darwin)
    public import Foundation

    extension FileManager {
        /// The folder that programs of one application group share, as Apple's Foundation has it.
        ///
        /// Linux has no application groups: every program of the user that names the group gets the same folder, which is in
        /// the user's data folder (`$XDG_DATA_HOME`, or `~/.local/share`) under the group's name. The first call makes it,
        /// readable for the user alone.
        ///
        /// - Parameter groupIdentifier: The group, such as `group.org.example.notes`.
        /// - Returns: The folder; `nil` for a name that no folder can have, and where the folder cannot be made.
        public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? {
            let isName = !groupIdentifier.isEmpty && !groupIdentifier.hasPrefix(".")
            guard isName, !groupIdentifier.utf8.contains(where: { $0 == UInt8(ascii: "/") || $0 == 0 }),
                let data = urls(for: .applicationSupportDirectory, in: .userDomainMask).first
            else { return nil }
            let folder = data.appendingPathComponent(groupIdentifier, isDirectory: true)
            do {
                try createDirectory(
                    at: folder,
                    withIntermediateDirectories: true,
                    attributes: [.posixPermissions: 0o700]
                )
            } catch {
                return nil
            }
            return folder
        }
    }
#endif
