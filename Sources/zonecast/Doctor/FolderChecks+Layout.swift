import RelayStore

/// Checks of the folder's layout version.
///
/// The files are only read here, since opening them for use would migrate them.
extension FolderChecks {
    /// Returns a finding for migrations that this version would apply; `nil` if the layout is current.
    func layout() -> Finding? {
        guard let files = try? files() else { return nil }
        if let file = files.first(where: \.isNewer) { return newer(file) }
        let steps = files.reduce(0) { $0 + $1.missing.count }
        guard steps > 0 else { return nil }
        return Finding(
            "version",
            .advice,
            "the folder has an earlier layout: \(steps.of("step")) to zonecast \(Zonecast.version)",
            next: "migrate with a backup: zonecast storage migrate --data \(folder.shellWord); "
                + "otherwise the relay migrates it when it starts"
        )
    }

    /// Whether the accounts file has this version's layout; otherwise opening it would migrate it.
    var isCurrent: Bool {
        guard let file = try? FolderLayout.ofAccounts(in: folder).file else { return false }
        return file.missing.isEmpty && !file.isNewer
    }

    func newer(_ file: FolderLayout.File) -> Finding {
        Finding(
            "storage",
            .problem,
            "\(folder) was written by a newer zonecast: \(file.path) has layout \(file.done), and this zonecast, "
                + "\(Zonecast.version), knows \(file.known)",
            next: "install the newer version again, or restore a backup from before the upgrade: "
                + "zonecast backup list --data \(folder.shellWord)"
        )
    }

    func foreign() -> Finding {
        Finding(
            "storage",
            .problem,
            "\(folder)/relay.sqlite is not a relay's file: another program created it",
            next: "name the relay's folder with --data; if it is this folder: "
                + "zonecast backup restore latest --data \(folder.shellWord)"
        )
    }

    private func files() throws -> [FolderLayout.File] {
        isThorough ? try FolderLayout(of: folder).files : [try FolderLayout.ofAccounts(in: folder).file]
    }
}
