import Foundation
import RelayCore
import RelayStore

/// Where a demo's relay and clients keep their files while it runs: a folder of its own among the temporary ones.
enum DemoFolder {
    /// Bytes that a demo wants to find free: what a tour writes, and as much again.
    private static let room: Int64 = 32_000_000

    /// Where it will be.
    static func path() -> String {
        FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-demo-\(UUID().uuidString)").path
    }

    /// Makes the folder, with one in it for the relay; throws where the demo would soon fail there.
    static func make(_ folder: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: folder + "/relay", withIntermediateDirectories: true)
        } catch {
            let place = FileManager.default.temporaryDirectory.path
            throw refusal("\(place) cannot be written: \(FolderAccess.reason(error)).", "Name")
        }
        if let trouble = trouble(in: folder) { throw trouble }
    }

    /// Why nothing can be kept in a folder, if that is for want of room: whatever fails in it then fails by that.
    static func trouble(in folder: String) -> CommandFailure? {
        guard let free = FreeSpace.bytes(in: folder).map({ Int64(clamping: $0) }), free < room else { return nil }
        let place = FileManager.default.temporaryDirectory.path
        let what = "\(place) has \(ByteText.of(free)) free, and a demo needs \(ByteText.of(room))."
        return refusal(what, "Make room, or name")
    }

    private static func refusal(_ what: String, _ way: String) -> CommandFailure {
        CommandFailure(.failed, "\(what) \(way) another folder for the demo's files: TMPDIR=/var/tmp zonecast demo")
    }
}
