import Foundation
import Synchronization
import ZoneKit

/// One life of a device, from its start to its crash.
final class DeviceLife: Sendable {
    private struct State {
        var awaited: [Awaited] = []
        var whenOver: [@Sendable () -> Void] = []
        /// The folder as it was at the crash.
        var snapshot: URL?
        var home: URL?
    }

    private struct Awaited {
        var place: TestDevice.CrashPlace
        var skips: Int
    }

    let party: Party
    let clockError = ClockError()
    private let number: Int
    private let deviceID: String
    private let files: TestFolder
    private let state: Mutex<State>

    /// A life that begins with the files of another one, or with none.
    init(number: Int, _ deviceID: String, in relay: TestRelay, home: URL? = nil) {
        self.number = number
        self.deviceID = deviceID
        files = relay.folder
        party = Party("\(deviceID) \(number)", on: relay.world.stage)
        state = Mutex(State(home: home))
    }

    func whenOver(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.whenOver.append(body) } }

    func folder() throws -> URL {
        try state.withLock { state in
            if let home = state.home { return home }
            let home = try files.make("devices/\(deviceID)-\(number)")
            state.home = home
            return home
        }
    }

    func awaitCrash(_ place: TestDevice.CrashPlace, skipping skips: Int) {
        state.withLock { $0.awaited.append(Awaited(place: place, skips: skips)) }
    }

    /// The device has come to a place where a test may have it end.
    func reached(_ place: TestDevice.CrashPlace) {
        let isTheEnd = state.withLock { state in
            for index in state.awaited.indices.reversed() where state.awaited[index].place.isMet(by: place) {
                if state.awaited[index].skips == 0 { return true }
                state.awaited[index].skips -= 1
            }
            return false
        }
        if isTheEnd { end() }
    }

    /// Ends everything of this life where it stands, and keeps the files as they are now.
    func end() {
        guard !party.isGone else { return }
        party.end()
        let (home, calls) = state.withLock { ($0.home, $0.whenOver) }
        if let home {
            // What is in the middle of a transaction now may not come to its end in the copy.
            let copy = home.deletingLastPathComponent().appendingPathComponent("\(deviceID)-\(number)-left")
            try? FileManager.default.copyItem(at: home, to: copy)
            state.withLock { $0.snapshot = copy }
        }
        calls.forEach { $0() }
    }

    /// The next life, with what this one has left.
    func next(in relay: TestRelay) throws -> DeviceLife {
        let (snapshot, home) = state.withLock { ($0.snapshot, $0.home) }
        let number = number + 1
        guard home != nil else { return DeviceLife(number: number, deviceID, in: relay) }
        let folder = try files.make("devices").appendingPathComponent("\(deviceID)-\(number)")
        if let snapshot { try FileManager.default.moveItem(at: snapshot, to: folder) }
        return DeviceLife(number: number, deviceID, in: relay, home: folder)
    }
}
