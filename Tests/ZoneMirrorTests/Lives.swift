import Foundation
import Synchronization
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A folder of stores that outlives the programs which open it, each killed at a place of the test's choice.
///
/// A kill is what a kill leaves behind: at the named place the files are copied as they lie there, in the middle of a
/// transaction too, and the device loses its network. Whatever the old program does after that reaches nobody; the next
/// one begins with the copies, and with nothing of the old one's memory.
final class Lives: Sendable {
    /// What the place throws after the files were taken; nobody waits for it any more.
    struct Killed: Error {}

    private struct State {
        var folder: TemporaryFolder
        /// Where the current life is to end, and after how many passes.
        var deadline: (point: CrashPoint, passes: Int)?
        var network: TestNetwork?
        /// The files that the last kill left.
        var remains: TemporaryFolder?
        var passed: [CrashPoint: Int] = [:]
    }

    private let state: Mutex<State>

    init() throws { state = Mutex(State(folder: try TemporaryFolder())) }

    /// Where the stores lie now.
    var folder: URL { state.withLock { $0.folder.url } }

    /// How often places were passed, in all lives.
    func passes(_ point: CrashPoint) -> Int { state.withLock { $0.passed[point] ?? 0 } }

    /// Whether the current life has been ended.
    var isOver: Bool { state.withLock { $0.remains != nil } }

    /// Begins another life with what is on the disk.
    ///
    /// - Parameters:
    ///   - device: A device made for this life.
    ///   - deadline: Where it ends; `nil`: nowhere.
    /// - Returns: What its container is to be opened with.
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
            // A dead program gets no further.
            if state.remains != nil { throw Killed() }
            guard let deadline = state.deadline, deadline.point == point else { return }
            state.deadline?.passes -= 1
            guard state.deadline?.passes == 0 else { return }
            let copy = try TemporaryFolder()
            let files = FileManager.default
            // The shared memory beside the log is a live program's; the next one makes its own of the log.
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
