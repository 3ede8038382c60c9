import Foundation
import GRDB
import RelayCore
import RelayGateways
import RelayServer
import RelayStore

/// The checks of a data folder; they work with and without a running relay.
struct FolderChecks: Sendable {
    /// Free bytes below which a relay will soon refuse writes.
    private static let leastFree: Int64 = 500_000_000
    private static let comfortablyFree: Int64 = 2_000_000_000

    let folder: String
    /// Whether to read every page of every SQLite file.
    var isThorough: Bool
    /// The system calls that write the test file.
    var disk = DiskCalls.system
    /// The configuration file named on the command line.
    var configuration: String?

    /// The options that name the same folder or configuration, for suggested commands.
    private var again: String {
        configuration.map { "--config \($0.shellWord)" } ?? "--data \(folder.shellWord)"
    }

    func storage() -> Finding {
        if let refusal = FolderAccess.refusal(folder) {
            return Finding("storage", .problem, refusal, next: "sudo zonecast doctor \(again)")
        }
        if AccountStore.isLost(in: folder) {
            return damaged("\(folder)/relay.sqlite is missing or empty; no user can reach their data without it")
        }
        guard FileManager.default.fileExists(atPath: "\(folder)/relay.sqlite") else {
            return Finding(
                "storage",
                .problem,
                "\(folder) contains no relay data",
                next: "name the folder with --data, or create one: zonecast init --data \(folder.shellWord)"
            )
        }
        if FolderLayout.isForeign(folder) { return foreign() }
        if let fault = FolderShape(folder: folder).fault {
            return Finding("storage", .problem, fault, next: "move it to another place, then start the relay again")
        }
        do {
            return try look()
        } catch let error as DirectoryError {
            if let fault = try? StoreCheck.faults(in: folder).first { return damaged("\(fault)") }
            if let strange = strange() { return strange }
            // Without the "See: zonecast doctor" of other commands: the doctor adds its own advice.
            if case .unavailable(let text) = error { return unusable("\(folder) cannot be used: \(text)") }
            return unusable(CommandFailure(error, folder: folder).description)
        } catch {
            return unusable("\(folder)/relay.sqlite cannot be used: \(error)")
        }
    }

    /// Whether the accounts file exists and is readable, so that the other checks are possible.
    var opens: Bool { (try? FolderLayout.ofAccounts(in: folder).file.error == nil) == true }

    private func unusable(_ found: String, _ fault: Int32 = 0) -> Finding {
        let next =
            switch fault {
            case EROFS:
                "the system makes a failing disk read-only: see dmesg. Copy the data to another disk: "
                    + "zonecast backup create --data \(folder.shellWord) --backups DIR; then mount it for writing"
            case EIO: "the disk fails: see dmesg, and restore the newest backup to another disk"
            default: "find the owner: ls -ld \(folder.shellWord); run this as that user"
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
                next: "free disk space: until then the relay refuses writes; reads still work"
            )
        }
        if let strange = strange() { return strange }
        let accounts = try FolderLayout.ofAccounts(in: folder)
        if let unopenable = unopenable(accounts.file) { return unopenable }
        let version = try DatabaseQueue().read { try String.fetchOne($0, sql: "SELECT sqlite_version()") } ?? "?"
        guard accounts.journal == "wal" else {
            let next = "the relay sets it when it starts: \(PackageFiles.start(on: folder, by: configuration))"
            return Finding("storage", .problem, "relay.sqlite is not in WAL mode", next: next)
        }
        if isThorough, let fault = try StoreCheck.faults(in: folder).first { return damaged("\(fault)") }
        let free = Int64(clamping: FreeSpace.bytes(in: folder) ?? 0)
        let found = "sqlite \(version), \(accounts.journal), \(ByteText.of(free)) free, writable"
        guard free >= Self.leastFree else {
            return Finding(
                "storage",
                .problem,
                found,
                next: "free disk space: below 0.5 GB the relay will soon refuse writes"
            )
        }
        guard free >= Self.comfortablyFree else {
            return Finding("storage", .advice, found, next: "free disk space before it is below 0.5 GB")
        }
        guard Self.isPrivate(folder) else {
            return Finding("storage", .advice, found + ", readable by others", next: "chmod 700 \(folder.shellWord)")
        }
        return Finding("storage", .good, found)
    }

    /// Writes and flushes a test file as the relay does; returns the system's error, or `nil` on success.
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
            // A short write means that there is no room for the rest.
            return errno == 0 ? ENOSPC : errno
        }
        return nil
    }

    private static func isPrivate(_ folder: String) -> Bool {
        let facts = try? FileManager.default.attributesOfItem(atPath: folder)
        return ((facts?[.posixPermissions] as? NSNumber)?.intValue ?? 0) & 0o007 == 0
    }

    // MARK: TLS

    /// Checks whether a relay could start with these TLS files, and when the certificate expires.
    func certificate(_ files: TLSFiles, now: Date) -> Finding {
        do throws(TLSFault) {
            return RelayChecks.certificate(
                "certificate",
                of: files.certificates,
                seconds: try files.end().timeIntervalSince(now)
            )
        } catch {
            return Finding("certificate", .problem, "\(error)", next: "check tls-cert and tls-key in the configuration")
        }
    }

    // MARK: Alerts

    /// Returns a finding if the operators' alert limits and mutes cannot be read; `nil` otherwise.
    func alerts() -> Finding? {
        do throws(BackupFailure) {
            _ = try AlertBook.read(from: folder)
            return nil
        } catch {
            return Finding("alerts", .problem, "\(error)")
        }
    }

    // MARK: Pushes

    /// Checks whether the files of the push settings can be read.
    func push(_ choices: PushChoices) -> Finding {
        do {
            // Any key will do, since only the files are checked.
            guard let found = try choices.settings(relayKey: [UInt8](repeating: 1, count: 32)) else {
                return Finding(
                    "push",
                    .advice,
                    "no push service: devices without a connection sync when they next connect",
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

    /// Checks whether the trace collector accepts connections; `nil` if tracing is disabled.
    func traces(_ choices: TraceChoices) async -> Finding? {
        guard let endpoint = choices.endpoint else { return nil }
        guard let address = ProbeAddress(endpoint) else {
            return Finding(
                "traces",
                .problem,
                "\(endpoint) is not an address",
                next: "correct traces.endpoint in the configuration"
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
                next: "start it, or remove traces.endpoint from the configuration"
            )
        }
    }

    // MARK: Words

    /// Returns a duration as text, like `3 h`.
    static func words(seconds: Int64) -> String {
        switch seconds {
        case ..<120: "\(seconds) s"
        case ..<7200: "\(seconds / 60) min"
        case ..<172_800: "\(seconds / 3600) h"
        default: "\(seconds / 86_400) days"
        }
    }
}
