import RelayStore

/// Which version's files they are: only looked at, since one that is opened to be used is brought up to date at once.
extension FolderChecks {
    /// Steps that this program's relay would take with the folder; `nil` where it is as this program has it.
    func layout() -> Finding? {
        guard let files = try? files() else { return nil }
        if let file = files.first(where: \.isNewer) { return newer(file) }
        let steps = files.reduce(0) { $0 + $1.missing.count }
        guard steps > 0 else { return nil }
        return Finding(
            "version",
            .advice,
            "an earlier zonecast has written the folder: \(steps.of("step")) to zonecast \(Zonecast.version)",
            next: "with a backup before: zonecast storage migrate --data \(folder.shellWord); "
                + "a relay takes them when it starts"
        )
    }

    /// Whether a visit to the relay may write to its accounts, which would take the steps.
    var isCurrent: Bool {
        guard let file = try? FolderLayout.ofAccounts(in: folder).file else { return false }
        return file.missing.isEmpty && !file.isNewer
    }

    func newer(_ file: FolderLayout.File) -> Finding {
        Finding(
            "storage",
            .problem,
            "a newer zonecast has written \(folder): \(file.path) has layout \(file.done), and this zonecast, "
                + "\(Zonecast.version), knows \(file.known)",
            next: "install the newer one again, or restore a backup of before: "
                + "zonecast backup list --data \(folder.shellWord)"
        )
    }

    func foreign() -> Finding {
        Finding(
            "storage",
            .problem,
            "\(folder)/relay.sqlite is not a relay's file: another program has made it",
            next: "name the relay's folder with --data; if it is this one: "
                + "zonecast backup restore latest --data \(folder.shellWord)"
        )
    }

    private func files() throws -> [FolderLayout.File] {
        isThorough ? try FolderLayout(of: folder).files : [try FolderLayout.ofAccounts(in: folder).file]
    }
}
