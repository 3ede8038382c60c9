import Foundation
import RelayCore
import RelayStore

/// The temporary folder of a demo's relay and clients.
enum DemoFolder {
    /// The free bytes a demo requires: twice what a tour writes.
    private static let room: Int64 = 32_000_000

    /// Returns a path for a new folder.
    static func path() -> String {
        FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-demo-\(UUID().uuidString)").path
    }

    /// Creates the folder with a subfolder for the relay.
    ///
    /// - Throws: `CommandFailure` if it cannot be written or has too little free space.
    static func make(_ folder: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: folder + "/relay", withIntermediateDirectories: true)
        } catch {
            let place = FileManager.default.temporaryDirectory.path
            throw refusal("\(place) cannot be written: \(FolderAccess.reason(error)).", "Name")
        }
        if let trouble = trouble(in: folder) { throw trouble }
    }

    /// Returns a failure if the folder's disk is nearly full, which explains other failures there.
    static func trouble(in folder: String) -> CommandFailure? {
        guard let free = FreeSpace.bytes(in: folder).map({ Int64(clamping: $0) }), free < room else { return nil }
        let place = FileManager.default.temporaryDirectory.path
        let what = "\(place) has \(ByteText.of(free)) free, and a demo needs \(ByteText.of(room))."
        return refusal(what, "Free disk space, or name")
    }

    private static func refusal(_ what: String, _ way: String) -> CommandFailure {
        CommandFailure(.failed, "\(what) \(way) another folder for the demo's files: TMPDIR=/var/tmp zonecast demo")
    }
}
