import Foundation
import RelayStore

/// A data folder held by one relay, or by a command that changes what a relay would remember: as long as this lives,
/// another `serve` on the folder is refused.
///
/// The system lets go of the lock when the process ends, however it ends.
final class FolderLock: Sendable {
    private enum Holder: Equatable {
        case relay
        /// `refusal` is what it says where a relay runs; `onlyReads`: whether a disk that takes no writes will do.
        case command(refusal: String, onlyReads: Bool)
    }

    /// Whoever looks whether a relay runs holds the lock for a moment, and a relay that stops for a few more.
    private static let patience = Duration.seconds(1)
    /// How long a relay waits for a command: a supervisor that had to start it again would soon give it up.
    private static let patienceWithCommands = Duration.seconds(60)
    /// Stands behind the process where that is not a relay.
    private static let commandMark = " command"

    private let descriptor: Int32
    /// The folder itself is held too: somebody may remove the file, and would have no lock to wait for.
    private let folderDescriptor: Int32

    /// Holds the folder for a relay.
    ///
    /// Waits for a command that holds it, and says so; throws a conflict where that goes on, or another relay is there.
    convenience init(forRelayIn folder: String) throws { try self.init(folder, as: .relay) }

    /// Holds the folder while a command changes what a running relay has in use.
    ///
    /// Throws a conflict with the words of `refusal` where a relay runs, and with others where a command does.
    convenience init(forCommandIn folder: String, refusal: String) throws {
        try self.init(folder, as: .command(refusal: refusal, onlyReads: false))
    }

    private init(_ folder: String, as holder: Holder) throws {
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
                "The data folder \(folder) cannot be made: \(FolderAccess.reason(error)). \(FolderAccess.remedy(fault))"
            )
        }
        if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
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

    /// The lock's file; of a folder that is only read, on a disk that takes no file, the folder will do.
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
        var limit = patience
        while [descriptor, folderDescriptor].contains(where: { flock($0, LOCK_EX | LOCK_NB) != 0 }) {
            let (process, isCommand) = other(descriptor)
            if isCommand, holder == .relay, limit == patience {
                limit = patienceWithCommands
                Terminal.complain("A command\(process) uses \(folder). Waiting for it to end …")
            }
            guard ContinuousClock.now - start >= limit else {
                usleep(20_000)
                continue
            }
            let elsewhere = "or name another folder with --data."
            switch (holder, isCommand) {
            case (.command(let refusal, _), false): throw CommandFailure(.conflict, refusal)
            case (.relay, false):
                let words = "\(folder) is in use by another relay\(process). Stop that one, \(elsewhere)"
                throw CommandFailure(.conflict, words)
            case (_, true):
                let words = "\(folder) is in use by a command\(process). Wait for it to end, \(elsewhere)"
                throw CommandFailure(.conflict, words)
            }
        }
    }

    /// Holds the folder while a command changes what a running relay remembers.
    ///
    /// `instead` is what a relay that runs does about it, as the end of the sentence that refuses.
    static func forUpkeep(of folder: String, _ instead: String = "would not see it. Stop it first") throws -> FolderLock
    {
        FolderOwner.become(ownerOf: folder)
        return try FolderLock(forCommandIn: folder, refusal: "A relay runs on \(folder), and \(instead).")
    }

    /// Holds the folder while a command reads all of it; on a disk too that takes no writes.
    static func forReading(of folder: String, _ instead: String) throws -> FolderLock {
        FolderOwner.become(ownerOf: folder)
        let refusal = "A relay runs on \(folder), and \(instead)."
        return try FolderLock(folder, as: .command(refusal: refusal, onlyReads: true))
    }

    /// Writes down where the relay listens, for commands on the same folder.
    func note(address: String) { write("\(getpid())\n\(address)\n") }

    /// Only for messages and for `runningRelay`; the lock itself is what counts.
    private func write(_ text: String) {
        let bytes = Array(text.utf8)
        if ftruncate(descriptor, 0) == 0 { _ = pwrite(descriptor, bytes, bytes.count, 0) }
    }

    /// The address of the relay that holds the folder; `.some(nil)` while it does not listen yet, `nil` where none does.
    static func runningRelay(in folder: String) -> String?? {
        notes(in: folder).map { $0.dropFirst().first }
    }

    /// The process of the relay that holds the folder.
    static func runningProcess(in folder: String) -> Int32? {
        notes(in: folder)?.first.flatMap { Int32($0) }
    }

    /// The lines that the relay that holds the folder has left there; `nil` where none does.
    private static func notes(in folder: String) -> [String]? {
        let path = folder + "/relay.lock"
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        // Taken for a moment where nobody holds it.
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0 else {
            flock(descriptor, LOCK_UN)
            return nil
        }
        guard errno == EWOULDBLOCK else { return nil }
        let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
        let lines = text.split(separator: "\n").map(String.init)
        return lines.first?.hasSuffix(commandMark) == true ? nil : lines
    }

    deinit {
        // A process that is being started just now holds a copy of the descriptor until it becomes another program: closing
        // alone would leave the lock with it for that long.
        for descriptor in [folderDescriptor, descriptor] {
            flock(descriptor, LOCK_UN)
            close(descriptor)
        }
    }

    /// Who else holds the lock, for messages.
    private static func other(_ descriptor: Int32) -> (process: String, isCommand: Bool) {
        var bytes = [UInt8](repeating: 0, count: 40)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        return (digits.isEmpty ? "" : " (process \(digits))", text.dropFirst(digits.count).hasPrefix(commandMark))
    }
}
