import Foundation
import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A folder of stores that survives the programs which open it, each killed at a crash point that the test chooses.
///
/// A kill copies the files in their current state at the crash point, also within a transaction, and disconnects the
/// device from the network. Further actions of the killed program have no effect. The next program starts with the
/// copies, without the old program's memory.
final class Lives: Sendable {
    /// The error thrown at the crash point after the files were copied.
    struct Killed: Error {}

    private struct State {
        var folder: TemporaryFolder
        /// The crash point that ends the current run, and the number of passes until then.
        var deadline: (point: CrashPoint, passes: Int)?
        var network: TestNetwork?
        /// The files at the time of the last kill.
        var remains: TemporaryFolder?
        var passed: [CrashPoint: Int] = [:]
    }

    private let state: Mutex<State>

    init() throws { state = Mutex(State(folder: try TemporaryFolder())) }

    /// The current folder of the stores.
    var folder: URL { state.withLock { $0.folder.url } }

    /// How often a crash point was passed in all runs.
    func passes(_ point: CrashPoint) -> Int { state.withLock { $0.passed[point] ?? 0 } }

    /// Whether the current run was killed.
    var isOver: Bool { state.withLock { $0.remains != nil } }

    /// Starts another run with the files on disk.
    ///
    /// - Parameters:
    ///   - device: A new device for this run.
    ///   - deadline: The crash point that ends the run; `nil` for none.
    /// - Returns: The conditions for opening the run's container.
    func begin(_ device: TestDevice, until deadline: (point: CrashPoint, passes: Int)?) -> MirrorConditions {
        state.withLock { state in
            if let remains = state.remains { state.folder = remains }
            state.remains = nil
            state.deadline = deadline
            state.network = device.network
        }
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        conditions.crashPoint = { [weak self] point in try self?.pass(point) }
        return conditions
    }

    private func pass(_ point: CrashPoint) throws {
        try state.withLock { state in
            state.passed[point, default: 0] += 1
            // A killed program stops at its next crash point.
            if state.remains != nil { throw Killed() }
            guard let deadline = state.deadline, deadline.point == point else { return }
            state.deadline?.passes -= 1
            guard state.deadline?.passes == 0 else { return }
            let copy = try TemporaryFolder()
            let files = FileManager.default
            // The shared memory file belongs to a running program; the next program recreates it from the WAL.
            for name in try files.contentsOfDirectory(atPath: state.folder.url.path) where !name.hasSuffix("-shm") {
                try files.copyItem(
                    at: state.folder.url.appendingPathComponent(name),
                    to: copy.url.appendingPathComponent(name)
                )
            }
            state.remains = copy
            state.network?.cut()
            throw Killed()
        }
    }
}
