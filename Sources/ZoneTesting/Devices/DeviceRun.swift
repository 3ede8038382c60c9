import Foundation
import Synchronization
import ZoneKit

/// One run of the program on a device, from its start to its crash.
final class DeviceRun: Sendable {
    private struct State {
        var scheduledCrashes: [ScheduledCrash] = []
        var onEnd: [@Sendable () -> Void] = []
        var home: URL?
        /// The folder as it was at the crash, or the error in copying it.
        var savedFolder: Result<URL, any Error>?
    }

    private struct ScheduledCrash {
        var place: TestDevice.CrashPlace
        var skips: Int
    }

    let process: SimulatedProcess
    let clockError = ClockError()
    private let number: Int
    private let deviceID: String
    private let files: TestFolder
    private let state: Mutex<State>

    /// Creates a run with the files of an earlier one, or with none.
    init(number: Int, _ deviceID: String, in relay: TestRelay, home: URL? = nil) {
        self.number = number
        self.deviceID = deviceID
        files = relay.folder
        process = SimulatedProcess("\(deviceID) \(number)", on: relay.world.executor)
        state = Mutex(State(home: home))
    }

    func onEnd(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.onEnd.append(body) } }

    func folder() throws -> URL {
        try state.withLock { state in
            if let home = state.home { return home }
            let home = try files.make("devices/\(deviceID)-\(number)")
            state.home = home
            return home
        }
    }

    func scheduleCrash(_ place: TestDevice.CrashPlace, skipping skips: Int) {
        state.withLock { $0.scheduledCrashes.append(ScheduledCrash(place: place, skips: skips)) }
    }

    /// Called at each place at which a test may crash the device.
    func reached(_ place: TestDevice.CrashPlace) {
        let isTheEnd = state.withLock { state in
            for index in state.scheduledCrashes.indices.reversed()
            where state.scheduledCrashes[index].place.isMet(by: place) {
                if state.scheduledCrashes[index].skips == 0 { return true }
                state.scheduledCrashes[index].skips -= 1
            }
            return false
        }
        if isTheEnd { end() }
    }

    /// Ends this run at once, and keeps the files as they are now.
    ///
    /// If another thread is ending it, returns after the files are kept, since the next run starts with them.
    func end() {
        let calls = state.withLock { state -> [@Sendable () -> Void] in
            guard !process.hasEnded else { return [] }
            process.end()
            // The copy must not contain the end of a transaction that is in progress now.
            state.savedFolder = state.home.map { home in Result { try self.copy(home) } }
            return state.onEnd
        }
        calls.forEach { $0() }
    }

    /// Copies file by file: a running thread may still remove some, such as the log of a store that it closes.
    private func copy(_ home: URL) throws -> URL {
        let copy = try files.make("devices/\(deviceID)-\(number)-left")
        let disk = FileManager.default
        for path in try disk.subpathsOfDirectory(atPath: home.path) {
            let (from, to) = (home.appendingPathComponent(path), copy.appendingPathComponent(path))
            var isFolder: ObjCBool = false
            guard disk.fileExists(atPath: from.path, isDirectory: &isFolder) else { continue }
            do {
                if isFolder.boolValue {
                    try disk.createDirectory(at: to, withIntermediateDirectories: true)
                } else {
                    try disk.copyItem(at: from, to: to)
                }
            } catch {
                if disk.fileExists(atPath: from.path) { throw error }
            }
        }
        return copy
    }

    /// Returns the next run, with the files of this one.
    func next(in relay: TestRelay) throws -> DeviceRun {
        let number = number + 1
        guard let savedFolder = try state.withLock({ $0.savedFolder })?.get() else {
            return DeviceRun(number: number, deviceID, in: relay)
        }
        let folder = try files.make("devices").appendingPathComponent("\(deviceID)-\(number)")
        try FileManager.default.moveItem(at: savedFolder, to: folder)
        return DeviceRun(number: number, deviceID, in: relay, home: folder)
    }
}
