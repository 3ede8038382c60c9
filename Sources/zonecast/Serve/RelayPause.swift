import Foundation
import ServiceLifecycle
import Synchronization

/// How a command gets the data folder of a running relay for a moment.
///
/// The command creates a file in the folder. The relay notices it, finishes its requests, closes its stores and releases the
/// folder's lock; devices reconnect by themselves. The command locks the folder and deletes the file. When the command ends,
/// the relay locks the folder again and continues in the same process, at the same address.
///
/// A file and not a signal: process IDs differ between containers that share a volume.
struct RelayPause: Sendable {
    static let fileName = "pause.request"
    /// How long a relay takes to stop, and a command to lock the folder.
    static let timeout = Duration.seconds(30)

    private let path: String

    init(of folder: String) { path = "\(folder)/\(Self.fileName)" }

    var isRequested: Bool { access(path, F_OK) == 0 }

    func request() {
        let file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        if file >= 0 { close(file) }
    }

    func end() { unlink(path) }

    /// Waits until the command has locked the folder, and then until it releases it.
    ///
    /// The caller must have released its own lock.
    static func lockAgain(_ folder: String) throws -> FolderLock {
        let pause = RelayPause(of: folder)
        let start = ContinuousClock.now
        while pause.isRequested, ContinuousClock.now - start < timeout { usleep(20_000) }
        pause.end()
        while true {
            do {
                return try FolderLock(forRelayIn: folder)
            } catch let failure as CommandFailure where failure.exit == .conflict && FolderLock.isHeldByCommand(folder)
            {
                // Restoring a large backup takes longer than a relay waits at its start.
                continue
            }
        }
    }
}

/// Ends the relay's services when a command asks for its data folder.
final class PauseWatch: Service {
    private let pause: RelayPause
    private let wasSeen = Atomic(false)

    init(of folder: String) { pause = RelayPause(of: folder) }

    /// Whether the services ended for a command.
    var wasRequested: Bool { wasSeen.load(ordering: .relaxed) }

    func run() async throws {
        await cancelWhenGracefulShutdown { [self] in
            while (try? await Task.sleep(for: .milliseconds(250))) != nil {
                guard pause.isRequested else { continue }
                return wasSeen.store(true, ordering: .relaxed)
            }
        }
    }
}
