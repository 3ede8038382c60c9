import Foundation
import GRDB
import RelayCore
import RelayGateways
import RelayServer
import RelayStore

/// What `zonecast doctor` looks at in a data folder; works with and without a running relay.
struct FolderChecks: Sendable {
    /// Below this, in bytes, a relay soon stops taking writes.
    private static let leastFree: Int64 = 500_000_000
    private static let comfortablyFree: Int64 = 2_000_000_000

    let folder: String
    /// Reads every page of every SQLite file.
    var isThorough: Bool
    /// What the trial file is written by.
    var disk = DiskCalls.system
    /// The file that the person has named for it.
    var configuration: String?

    /// What names the same once more, for the doctor.
    private var again: String {
        configuration.map { "--config \($0.shellWord)" } ?? "--data \(folder.shellWord)"
    }

    func storage() -> Finding {
        if let refusal = FolderAccess.refusal(folder) {
            return Finding("storage", .problem, refusal, next: "sudo zonecast doctor \(again)")
        }
        if AccountStore.isLost(in: folder) {
            return damaged("\(folder)/relay.sqlite is missing or empty: without it nobody finds their data")
        }
        guard FileManager.default.fileExists(atPath: "\(folder)/relay.sqlite") else {
            return Finding(
                "storage",
                .problem,
                "there is no relay data in \(folder)",
                next: "name the folder with --data, or begin with: zonecast init --data \(folder.shellWord)"
            )
        }
        if FolderLayout.isForeign(folder) { return foreign() }
        if let fault = FolderShape(folder: folder).fault {
            return Finding("storage", .problem, fault, next: "move it away, and start the relay again")
        }
        do {
            return try look()
        } catch let error as DirectoryError {
            if let fault = try? StoreCheck.faults(in: folder).first { return damaged("\(fault)") }
            if let strange = strange() { return strange }
            // The doctor's own advice comes below: no "See: zonecast doctor".
            if case .unavailable(let text) = error { return unusable("\(folder) cannot be used: \(text)") }
            return unusable(CommandFailure(error, folder: folder).description)
        } catch {
            return unusable("\(folder)/relay.sqlite cannot be used: \(error)")
        }
    }

    /// Whether there is a relay's own file, and it can be read: then the rest can be looked at, whatever ails the storage.
    var opens: Bool { (try? FolderLayout.ofAccounts(in: folder).file.isNewer) == false }

    private func unusable(_ found: String, _ fault: Int32 = 0) -> Finding {
        let next =
            switch fault {
            case EROFS:
                "a disk that fails is made read-only by the system: see dmesg. Bring what is there to another one: "
                    + "zonecast backup create --data \(folder.shellWord) --backups DIR; then mount it for writing"
            case EIO: "the disk fails: see dmesg, and bring the newest backup to another one"
            default: "look who owns it: ls -ld \(folder.shellWord); run this as that user"
            }
        return Finding("storage", .problem, found, next: next)
    }

    private func damaged(_ found: String) -> Finding {
        Finding("storage", .problem, found, next: "zonecast backup restore latest --data \(folder.shellWord)")
    }

    private func look() throws -> Finding {
        if let fault = writeFault() {
            let found = "\(folder) cannot be written: \(String(cString: strerror(fault)))"
            guard fault == ENOSPC || fault == EDQUOT else { return unusable(found, fault) }
            return Finding(
                "storage",
                .problem,
                found,
                next: "make room: writes are refused until there is, reads go on"
            )
        }
        if let strange = strange() { return strange }
        let accounts = try FolderLayout.ofAccounts(in: folder)
        if accounts.file.isNewer { return newer(accounts.file) }
        let version = try DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") } ?? "?"
        guard accounts.journal == "wal" else {
            let next = "a relay sets it when it starts: \(PackageFiles.start(on: folder, by: configuration))"
            return Finding("storage", .problem, "relay.sqlite is not in WAL mode", next: next)
        }
        if isThorough, let fault = try StoreCheck.faults(in: folder).first { return damaged("\(fault)") }
        let free = Int64(clamping: FreeSpace.bytes(in: folder) ?? 0)
        let found = "sqlite \(version), \(accounts.journal), \(ByteText.of(free)) free, writable"
        guard free >= Self.leastFree else {
            return Finding("storage", .problem, found, next: "make room: below 0.5 GB writes will soon be refused")
        }
        guard free >= Self.comfortablyFree else {
            return Finding("storage", .advice, found, next: "make room before it is below 0.5 GB")
        }
        guard Self.isPrivate(folder) else {
            return Finding("storage", .advice, found + ", readable by others", next: "chmod 700 \(folder.shellWord)")
        }
        return Finding("storage", .good, found)
    }

    /// Writes and flushes a file as the relay would; the system's error, or `nil` if that went well.
    private func writeFault() -> Int32? {
        let path = "\(folder)/doctor-\(getpid()).tmp"
        let descriptor = disk.open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_EXCL)
        guard descriptor >= 0 else { return errno }
        defer {
            close(descriptor)
            unlink(path)
        }
        let bytes = [UInt8](repeating: 0, count: 4096)
        errno = 0
        guard bytes.withUnsafeBytes({ disk.write(descriptor, $0) }) == bytes.count, disk.sync(descriptor) == 0 else {
            // Less than a page was taken: there is no room for the rest.
            return errno == 0 ? ENOSPC : errno
        }
        return nil
    }

    private static func isPrivate(_ folder: String) -> Bool {
        let facts = try? FileManager.default.attributesOfItem(atPath: folder)
        return ((facts?[.posixPermissions] as? NSNumber)?.intValue ?? 0) & 0o007 == 0
    }

    // MARK: TLS

    /// Whether a relay that ends TLS itself could start with these files, and for how long they are good.
    func certificate(_ files: TLSFiles, now: Date) -> Finding {
        do throws(TLSFault) {
            return RelayChecks.certificate(
                "certificate",
                of: files.certificates,
                seconds: try files.end().timeIntervalSince(now)
            )
        } catch {
            return Finding("certificate", .problem, "\(error)", next: "tls-cert and tls-key in the configuration")
        }
    }

    // MARK: Alerts

    /// Whether alerts go by what operators have set; `nil` where they do.
    func alerts() -> Finding? {
        do throws(BackupFailure) {
            _ = try AlertBook.read(from: folder)
            return nil
        } catch {
            return Finding("alerts", .problem, "\(error)")
        }
    }

    // MARK: Pushes

    /// Whether the files that pushes need can be read.
    func push(_ choices: PushChoices) -> Finding {
        do {
            // Any key does: only the files are looked at.
            guard let found = try choices.settings(relayKey: [UInt8](repeating: 1, count: 32)) else {
                return Finding(
                    "push",
                    .advice,
                    "no push service: sleeping devices catch up when they wake",
                    next: "zonecast push --help"
                )
            }
            let services = [
                found.apns.map { _ in "Apple" }, found.fcm.map { _ in "Firebase" },
                found.webPush.map { _ in "Web Push" }, found.sendsToNtfy ? "ntfy" : nil,
            ]
            return Finding("push", .good, services.compactMap { $0 }.joined(separator: ", "))
        } catch {
            return Finding("push", .problem, "\(error)", next: "zonecast push --help")
        }
    }

    // MARK: Traces

    /// Whether somebody listens where traces go; `nil` where there are none.
    func traces(_ choices: TraceChoices) async -> Finding? {
        guard let endpoint = choices.endpoint else { return nil }
        guard let address = ProbeAddress(endpoint) else {
            return Finding(
                "traces",
                .problem,
                "\(endpoint) is no address",
                next: "traces.endpoint in the configuration"
            )
        }
        do throws(ProbeFault) {
            try await Probe.connect(to: address).close()
            return Finding("traces", .good, "\(choices.permille) of 1000 requests to \(address)")
        } catch {
            return Finding(
                "traces",
                .advice,
                "the collector at \(address) \(error)",
                next: "start it, or take traces.endpoint out of the configuration"
            )
        }
    }

    // MARK: Words

    /// `3 h`.
    static func words(seconds: Int64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3600) h"
        default: "\(seconds / 86_400) days"
        }
    }
}
