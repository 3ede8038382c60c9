import Foundation
import RelayStore

/// A data folder held by one relay: as long as this lives, another `serve` on the folder is refused.
///
/// The system lets go of the lock when the process ends, however it ends.
final class FolderLock: Sendable {
    private let descriptor: Int32

    init(folder: String) throws {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw CommandFailure(
                .failed,
                "The data folder \(folder) cannot be made: \(FolderAccess.reason(error)). Name another with --data."
            )
        }
        if let refusal = FolderAccess.refusal(folder) { throw CommandFailure(.notAllowed, refusal) }
        let path = folder + "/relay.lock"
        descriptor = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw CommandFailure(
                .failed,
                "\(path) cannot be opened: \(String(cString: strerror(errno))). Name another folder with --data."
            )
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let holder = Self.holder(descriptor)
            close(descriptor)
            throw CommandFailure(
                .conflict,
                "\(folder) is in use by another relay\(holder). Stop that one, or name another folder with --data."
            )
        }
        write("\(getpid())\n")
    }

    /// Holds the folder while a command changes what a running relay remembers.
    ///
    /// `instead` is what a relay that runs does about it, as the end of the sentence that refuses.
    static func forUpkeep(of folder: String, _ instead: String = "would not see it. Stop it first") throws -> FolderLock
    {
        FolderOwner.become(ownerOf: folder)
        do {
            return try FolderLock(folder: folder)
        } catch let failure as CommandFailure where failure.exit == .conflict {
            throw CommandFailure(.conflict, "A relay runs on \(folder), and \(instead).")
        }
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
        // Taken for a moment where nobody holds it, and let go by closing.
        guard flock(descriptor, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK else { return nil }
        let text = FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) } ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    deinit { close(descriptor) }

    private static func holder(_ descriptor: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 20)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        let digits = bytes.prefix(max(0, count)).prefix { $0 >= 0x30 && $0 <= 0x39 }
        return digits.isEmpty ? "" : " (process \(String(decoding: digits, as: UTF8.self)))"
    }
}
