import Foundation
import Synchronization

/// The files that one connection has downloaded, in a folder of its own, named by content.
///
/// Nobody says when a program is done with a file that it has asked for. So a file stays for as long as something holds
/// it, and after that until newer ones want its room. The folder goes with this; those of programs that have ended without
/// clearing up go when another one makes its own.
package final class DownloadFolder: Sendable {
    /// A file that stays for as long as this is held.
    package final class File: Sendable {
        package let url: URL

        fileprivate init(_ url: URL) { self.url = url }

        /// Where its content gathers before it is whole.
        var part: URL { url.appendingPathExtension("part") }
    }

    private struct Entry {
        weak var file: File?
        var bytes: Int64 = 0
        /// Grows with each use.
        var use: UInt64 = 0
    }

    private struct State {
        var entries: [String: Entry] = [:]
        var bytes: Int64 = 0
        var uses: UInt64 = 0
        /// Locked for as long as the folder is in use.
        var lock: Int32?
    }

    let url: URL
    private let room: Int64
    private let state = Mutex(State())

    private static let prefix = "zonecast-downloads-"
    private static let lockName = "lock"

    /// - Parameters:
    ///   - parent: The folder that it lies in, beside those of other programs.
    ///   - room: How many bytes of files may lie here before those that nobody holds go, the longest unused first.
    init(in parent: URL = FileManager.default.temporaryDirectory, room: Int64 = 256 << 20) {
        url = parent.appendingPathComponent(Self.prefix + UUID().uuidString, isDirectory: true)
        self.room = room
    }

    deinit {
        guard let lock = state.withLock({ $0.lock }) else { return }
        try? FileManager.default.removeItem(at: url)
        close(lock)
    }

    /// The file of a content, whether it is here already or not.
    func file(named name: String) -> File {
        state.withLock { state in
            var entry = state.entries[name] ?? Entry()
            let file = entry.file ?? File(url.appendingPathComponent(name))
            state.uses += 1
            (entry.file, entry.use) = (file, state.uses)
            state.entries[name] = entry
            return file
        }
    }

    /// Makes the folder where it is not there, be it that somebody has cleared it away.
    func prepare() throws {
        let isNew = try state.withLock { state in
            guard state.lock == nil else { return false }
            state.lock = try Self.makeLocked(url)
            return state.lock != nil
        }
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        if isNew { Self.removeAbandoned(beside: url) }
    }

    /// Takes into account what there is of a file now, and makes room for it.
    func changed(_ file: File) {
        let bytes = Self.size(file.url) + Self.size(file.part)
        state.withLock { state in
            let name = file.url.lastPathComponent
            state.bytes += bytes - (state.entries[name]?.bytes ?? 0)
            state.entries[name]?.bytes = bytes
            guard state.bytes > room else { return }
            // A little more than must be, so that this is not done for each file.
            let unheld = state.entries.filter { $0.value.file == nil }.sorted { $0.value.use < $1.value.use }
            for (name, entry) in unheld where state.bytes > room / 4 * 3 {
                let gone = File(url.appendingPathComponent(name))
                for place in [gone.url, gone.part] { try? FileManager.default.removeItem(at: place) }
                state.entries[name] = nil
                state.bytes -= entry.bytes
            }
        }
    }

    private static func size(_ file: URL) -> Int64 {
        let facts = try? FileManager.default.attributesOfItem(atPath: file.path)
        return (facts?[.size] as? NSNumber)?.int64Value ?? 0
    }

    // MARK: Other programs' folders

    /// The system lets go of a lock when a program ends, however it ends; process numbers would say less, and in containers
    /// nothing.
    private static func lock(_ folder: URL, creating: Bool = false) -> Int32? {
        let path = folder.appendingPathComponent(lockName).path
        let descriptor = open(path, O_RDWR | O_CLOEXEC | (creating ? O_CREAT : 0), 0o600)
        guard descriptor >= 0 else { return nil }
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
        close(descriptor)
        return nil
    }

    /// Makes a folder that gets its name when it is locked: before that somebody else would take it for abandoned.
    private static func makeLocked(_ folder: URL) throws -> Int32? {
        let draft = folder.deletingLastPathComponent().appendingPathComponent("." + folder.lastPathComponent)
        try FileManager.default.createDirectory(at: draft, withIntermediateDirectories: true)
        if let lock = lock(draft, creating: true) {
            if rename(draft.path, folder.path) == 0 { return lock }
            close(lock)
        }
        try? FileManager.default.removeItem(at: draft)
        return nil
    }

    private static func removeAbandoned(beside own: URL) {
        let parent = own.deletingLastPathComponent()
        let names = (try? FileManager.default.contentsOfDirectory(atPath: parent.path)) ?? []
        for name in names where name.hasPrefix(prefix) && name != own.lastPathComponent {
            let folder = parent.appendingPathComponent(name)
            guard let lock = lock(folder) else { continue }
            try? FileManager.default.removeItem(at: folder)
            close(lock)
        }
    }
}
