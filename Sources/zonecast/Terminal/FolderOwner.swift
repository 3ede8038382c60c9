import Foundation

/// Whose a data folder is.
enum FolderOwner {
    /// As root, goes on as the owner of `folder`, where that is somebody else.
    ///
    /// Files that root makes there could not be opened by the relay. Nothing changes for other users, or where the folder is
    /// not there.
    static func become(ownerOf folder: String) {
        var facts = stat()
        guard geteuid() == 0, stat(folder, &facts) == 0, facts.st_uid != 0 else { return }
        // The group first: afterwards it could not be changed any more.
        guard setgroups(0, nil) == 0, setgid(facts.st_gid) == 0 else { return }
        _ = setuid(facts.st_uid)
    }
}
