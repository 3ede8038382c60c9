import Foundation

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
                "The data folder \(folder) cannot be made: \(Self.reason(error)). Name another with --data."
            )
        }
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
        // Only for the message above; the lock itself is what counts.
        let name = Array("\(getpid())\n".utf8)
        if ftruncate(descriptor, 0) == 0 { _ = pwrite(descriptor, name, name.count, 0) }
    }

    deinit { close(descriptor) }

    private static func holder(_ descriptor: Int32) -> String {
        var bytes = [UInt8](repeating: 0, count: 20)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        let digits = bytes.prefix(max(0, count)).prefix { $0 >= 0x30 && $0 <= 0x39 }
        return digits.isEmpty ? "" : " (process \(String(decoding: digits, as: UTF8.self)))"
    }

    private static func reason(_ error: any Error) -> String {
        ((error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError)?.localizedDescription
            ?? "\(error.localizedDescription)"
    }
}
