import RelayStore

/// Checks of the files' layout versions.
///
/// The files are only read here, since opening them for use would migrate them.
extension FolderChecks {
    /// Returns a finding for the first file that this version cannot open; `nil` if there is none.
    func unopenable(_ accounts: FolderLayout.File) -> Finding? {
        let files = [accounts] + (isThorough ? FolderLayout.ofStores(in: folder) : [])
        guard let file = files.first(where: { $0.error != nil }), let error = file.error else { return nil }
        guard error.isNewer else {
            return Finding("storage", .problem, "\(folder)/\(file.path) cannot be opened: \(error)")
        }
        return Finding(
            "storage",
            .problem,
            "\(folder) was written by a newer zonecast: \(file.path) has layout \(error.found), and this zonecast, "
                + "\(Zonecast.version), knows \(error.known.upperBound)",
            next: "install the newer version again, or restore a backup from before the upgrade: "
                + "zonecast backup list --data \(folder.shellWord)"
        )
    }

    /// Whether the accounts file has this version's layout; otherwise opening it would migrate it.
    var isCurrent: Bool { (try? FolderLayout.ofAccounts(in: folder).file.isCurrent) == true }

    func foreign() -> Finding {
        Finding(
            "storage",
            .problem,
            "\(folder)/relay.sqlite is not a relay's file: another program created it",
            next: "name the relay's folder with --data; if it is this folder: "
                + "zonecast backup restore latest --data \(folder.shellWord)"
        )
    }
}
