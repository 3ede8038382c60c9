import Foundation
import Records
import RelayCore
import RelaySystem

/// An exclusive lock on a data folder, held by one relay or by a command that changes data the relay caches.
///
/// While this object lives, another `serve` on the folder is refused. The system releases the lock when the process
/// ends, including when it crashes.
final class FolderLock: Sendable {
    private enum Holder: Equatable {
        case relay
        /// `refusal` is the error text if a relay is running; `onlyReads` allows a read-only file system.
        case command(refusal: String, onlyReads: Bool)
        /// A running relay is asked to pause.
        case pausingCommand
    }

    /// How long to wait for the lock: a process that checks for a running relay holds it briefly, and a stopping relay
    /// a little longer.
    private static let timeout = Duration.seconds(1)
    /// How long a command waits for another one; longer than a relay holds the lock that finds another relay running.
    private static let requestTimeout = Duration.seconds(3)
    /// How long a relay waits for a command, so that a supervisor does not give up after restarting it several times.
    private static let commandTimeout = Duration.seconds(60)
    /// Follows the process ID in the lock file if the holder is a command.
    private static let commandMark = " command"

    private let descriptor: Int32
    /// The folder itself is locked too: if the lock file is deleted, a second process would lock a new file.
    private let folderDescriptor: Int32
    /// Locked too, so that no command uses single stores meanwhile; `nil` if the caller has locked it.
    private let requests: StoreRequestFile?

    /// Locks the folder for a relay.
    ///
    /// Waits up to 60 seconds for a command that holds the lock, and prints that it waits.
    ///
    /// - Throws: `CommandFailure` with `.conflict` if the command does not end in time or another relay is running.
    convenience init(forRelayIn folder: String) throws { try self.init(folder, as: .relay) }

    /// Locks the folder while a command changes data that a running relay has in use.
    ///
    /// - Throws: `CommandFailure` with `.conflict` if a relay (text: `refusal`) or another command holds the lock.
    convenience init(forCommandIn folder: String, refusal: String) throws {
        try self.init(folder, as: .command(refusal: refusal, onlyReads: false))
    }

    /// Locks the folder while a command replaces or deletes data; a running relay pauses meanwhile.
    ///
    /// - Throws: `CommandFailure` with `.conflict` if the relay does not pause, or another command holds the lock.
    convenience init(pausingRelayIn folder: String) throws { try self.init(folder, as: .pausingCommand) }

    /// Locks the folder for a command that has locked the file of requests for single stores.
    convenience init(besideRequestIn folder: String) throws {
        let refusal = "A relay has just started on \(folder). Run the command again."
        try self.init(folder, as: .command(refusal: refusal, onlyReads: false), besideRequest: true)
    }

    private init(_ folder: String, as holder: Holder, besideRequest: Bool = false) throws {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            let fault = FolderAccess.number(error)
            throw CommandFailure(
                system: fault,
                "The data folder \(folder) cannot be created: \(FolderAccess.reason(error)). \(FolderAccess.remedy(fault))"
            )
        }
        if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
        requests = besideRequest ? nil : try Self.requestFile(in: folder, waitsForCommand: holder == .relay)
        let path = folder + "/relay.lock"
        folderDescriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        descriptor = Self.lockFile(path, in: folderDescriptor, as: holder)
        guard descriptor >= 0 else {
            let fault = errno
            close(folderDescriptor)
            throw CommandFailure(
                system: fault,
                "\(path) cannot be opened: \(String(cString: strerror(fault))). \(FolderAccess.remedy(fault))"
            )
        }
        do {
            try Self.take(descriptor, and: folderDescriptor, of: folder, as: holder)
        } catch {
            close(descriptor)
            close(folderDescriptor)
            throw error
        }
        write("\(getpid())\(holder == .relay ? "" : Self.commandMark)\n")
    }

    /// Locks the file of requests for single stores, which a command holds while it uses some.
    ///
    /// `waitsForCommand` is whether to wait up to 60 seconds, as a relay does at its start.
    static func requestFile(in folder: String, waitsForCommand: Bool = false) throws -> StoreRequestFile {
        let file = try StoreRequestFile(in: folder)
        let start = ContinuousClock.now
        var isTold = false
        while !file.lock() {
            let waited = ContinuousClock.now - start
            if waitsForCommand, !isTold, waited >= timeout {
                Terminal.sayError("A command uses \(folder). Waiting for it to end …")
                isTold = true
            }
            guard waited < (waitsForCommand ? commandTimeout : requestTimeout) else {
                throw CommandFailure(
                    .conflict,
                    "\(folder) is in use by a command. Wait for it to end, or name another folder with --data."
                )
            }
            usleep(20_000)
        }
        return file
    }

    /// Lets commands use single stores of this relay; called when it has completed what a command left.
    func acceptRequests() {
        requests?.clear()
        requests?.unlock()
    }

    /// Opens the lock file; on a read-only file system, a command that only reads locks the folder instead.
    private static func lockFile(_ path: String, in folder: Int32, as holder: Holder) -> Int32 {
        let descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor < 0, errno == EROFS, case .command(_, onlyReads: true) = holder else { return descriptor }
        let there = open(path, O_RDONLY | O_CLOEXEC)
        return there >= 0 ? there : dup(folder)
    }

    private static func take(
        _ descriptor: Int32,
        and folderDescriptor: Int32,
        of folder: String,
        as holder: Holder
    ) throws {
        let start = ContinuousClock.now
        var limit = timeout
        let pause = RelayPause(of: folder)
        defer { if holder == .pausingCommand { pause.end() } }
        while [descriptor, folderDescriptor].contains(where: { flock($0, LOCK_EX | LOCK_NB) != 0 }) {
            let (process, isCommand) = lockHolder(descriptor)
            if isCommand, holder == .relay, limit == timeout {
                limit = commandTimeout
                Terminal.sayError("A command\(process) uses \(folder). Waiting for it to end …")
            }
            if !isCommand, holder == .pausingCommand {
                if limit == timeout { Terminal.sayError("The relay\(process) on \(folder) pauses for this command …") }
                limit = RelayPause.timeout
                pause.request()
            }
            guard ContinuousClock.now - start >= limit else {
                usleep(20_000)
                continue
            }
            let elsewhere = "or name another folder with --data."
            switch (holder, isCommand) {
            case (.command(let refusal, _), false): throw CommandFailure(.conflict, refusal)
            case (.pausingCommand, false):
                let words =
                    "The relay\(process) on \(folder) does not pause. Stop it, run the command again, and start it."
                throw CommandFailure(.conflict, words)
            case (.relay, false):
                let words = "\(folder) is in use by another relay\(process). Stop that one, \(elsewhere)"
                throw CommandFailure(.conflict, words)
            case (_, true):
                let words = "\(folder) is in use by a command\(process). Wait for it to end, \(elsewhere)"
                throw CommandFailure(.conflict, words)
            }
        }
    }

    /// Locks the folder while a command changes data that a running relay caches.
    ///
    /// `instead` completes the error text "A relay is running on FOLDER, and ...".
    static func forMaintenance(of folder: String, _ instead: String = "would not notice the change. Stop it first")
        throws
        -> FolderLock
    {
        FolderOwner.become(ownerOf: folder)
        return try FolderLock(forCommandIn: folder, refusal: "A relay is running on \(folder), and \(instead).")
    }

    /// Locks the folder while a command reads all of it; works on a read-only file system too.
    static func forReading(of folder: String, _ instead: String) throws -> FolderLock {
        FolderOwner.become(ownerOf: folder)
        let refusal = "A relay is running on \(folder), and \(instead)."
        return try FolderLock(folder, as: .command(refusal: refusal, onlyReads: true))
    }

    /// Records the relay's address in the lock file, for commands on the same folder.
    func note(address: String) { write("\(getpid())\n\(address)\n") }

    /// The content is used only for messages and by `runningRelay`; `flock` decides who holds the lock.
    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        if ftruncate(descriptor, 0) == 0 { _ = pwrite(descriptor, bytes, bytes.count, 0) }
    }

    /// Returns the address of the running relay: `.some(nil)` if it does not listen yet, `nil` if no relay is running.
    static func runningRelay(in folder: String) -> String?? {
        notes(in: folder).map { $0.dropFirst().first }
    }

    /// Returns the process ID of the running relay.
    static func runningProcess(in folder: String) -> Int32? {
        notes(in: folder)?.first.flatMap { Int32($0) }
    }

    /// Returns the lines that the running relay wrote to the lock file; `nil` if no relay is running.
    private static func notes(in folder: String) -> [String]? {
        let path = folder + "/relay.lock"
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // Takes the lock briefly if it is free.
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0 else {
            flock(descriptor, LOCK_UN)
            return nil
        }
        guard errno == EWOULDBLOCK else { return nil }
        let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let lines = text.split(separator: "\n").map(String.init)
        return lines.first?.hasSuffix(commandMark) == true ? nil : lines
    }

    /// Releases the lock before this object ends.
    func unlock() {
        for descriptor in [folderDescriptor, descriptor] { flock(descriptor, LOCK_UN) }
        requests?.unlock()
    }

    deinit {
        // A child process that has not yet called exec holds a copy of the descriptor, and closing ours would leave the
        // lock with it. So unlock explicitly first.
        unlock()
        close(folderDescriptor)
        close(descriptor)
    }

    /// Returns whether a command holds the lock.
    static func isHeldByCommand(_ folder: String) -> Bool {
        let descriptor = open(folder + "/relay.lock", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return lockHolder(descriptor).isCommand
    }

    /// Returns the process that holds the lock, for messages.
    private static func lockHolder(_ descriptor: Int32) -> (process: String, isCommand: Bool) {
        var bytes = [UInt8](repeating: 0, count: 40)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        return (digits.isEmpty ? "" : " (process \(digits))", text.dropFirst(digits.count).hasPrefix(commandMark))
    }
}

/// Checks that a data folder has files and folders where the relay expects them.
struct FolderStructure {
    let folder: String

    /// The problem that prevents a relay from starting; `nil` if there is none or the folder does not exist.
    var startupFault: String? {
        wrong("\(folder)/relay.lock", isFolder: false) ?? wrong("\(folder)/containers", isFolder: true)
    }

    /// Like `startupFault`, and also problems that affect only one container's records.
    var fault: String? {
        if let startupFault { return startupFault }
        let containers = "\(folder)/containers"
        for name in ((try? FileManager.default.contentsOfDirectory(atPath: containers)) ?? []).sorted() {
            for environment in Records.Environment.allCases {
                let path = "\(containers)/\(name)/\(environment.rawValue).sqlite"
                if let fault = wrong(path, isFolder: false) { return fault }
            }
        }
        return nil
    }

    private func wrong(_ path: String, isFolder: Bool) -> String? {
        var found: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &found), found.boolValue != isFolder else {
            return nil
        }
        return isFolder
            ? "\(path) is a file, but the relay needs a folder there"
            : "\(path) is a folder, but the relay needs a file there"
    }
}
