import Foundation
import Synchronization

/// The download cache of one connection: a folder of files, named by their content.
///
/// An app does not say when it no longer needs a file. A file therefore stays while something holds it, and afterwards
/// until newer files need its space. The folder is deleted with this object; folders of processes that ended without
/// deleting them are deleted when another process creates its own.
package final class DownloadFolder: Sendable {
    /// A file that stays in the cache while this object exists.
    package final class File: Sendable {
        package let url: URL

        fileprivate init(_ url: URL) { self.url = url }

        /// The location of the incomplete content during the download.
        var part: URL { url.appendingPathExtension("part") }
    }

    private struct Entry {
        weak var file: File?
        var bytes: Int64 = 0
        /// Increases with each use.
        var use: UInt64 = 0
    }

    private struct State {
        var entries: [String: Entry] = [:]
        var bytes: Int64 = 0
        var uses: UInt64 = 0
        /// The descriptor of the lock file, locked while the folder is in use.
        var lock: Int32?
    }

    let url: URL
    private let capacity: Int64
    private let state = Mutex(State())

    private static let prefix = "zonecast-downloads-"
    private static let lockName = "lock"

    /// - Parameters:
    ///   - parent: The parent folder, which also contains the folders of other processes.
    ///   - capacity: The number of bytes above which unused files are deleted, least recently used first.
    package init(in parent: URL = FileManager.default.temporaryDirectory, capacity: Int64 = 256 << 20) {
        url = parent.appendingPathComponent(Self.prefix + UUID().uuidString, isDirectory: true)
        self.capacity = capacity
    }

    deinit {
        guard let lock = state.withLock({ $0.lock }) else { return }
        try? FileManager.default.removeItem(at: url)
        close(lock)
    }

    /// Returns the file for a content, whether it has been downloaded or not.
    package func file(named name: String) -> File {
        state.withLock { state in
            var entry = state.entries[name] ?? Entry()
            let file = entry.file ?? File(url.appendingPathComponent(name))
            state.uses += 1
            (entry.file, entry.use) = (file, state.uses)
            state.entries[name] = entry
            return file
        }
    }

    /// Creates the folder if it does not exist, for example because a cleanup of temporary files has deleted it.
    package func prepare() throws {
        let isNew = try state.withLock { state in
            guard state.lock == nil else { return false }
            state.lock = try Self.makeLocked(url)
            return state.lock != nil
        }
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        if isNew { Self.removeAbandoned(beside: url) }
    }

    /// Updates the size of a file, and deletes unused files if the cache is too large.
    package func changed(_ file: File) {
        let bytes = Self.size(file.url) + Self.size(file.part)
        state.withLock { state in
            let name = file.url.lastPathComponent
            state.bytes += bytes - (state.entries[name]?.bytes ?? 0)
            state.entries[name]?.bytes = bytes
            guard state.bytes > capacity else { return }
            // Free more than necessary, so that this does not happen for every file.
            let unused = state.entries.filter { $0.value.file == nil }.sorted { $0.value.use < $1.value.use }
            for (name, entry) in unused where state.bytes > capacity / 4 * 3 {
                let deleted = File(url.appendingPathComponent(name))
                for place in [deleted.url, deleted.part] { try? FileManager.default.removeItem(at: place) }
                state.entries[name] = nil
                state.bytes -= entry.bytes
            }
        }
    }

    private static func size(_ file: URL) -> Int64 {
        let facts = try? FileManager.default.attributesOfItem(atPath: file.path)
        return (facts?[.size] as? NSNumber)?.int64Value ?? 0
    }

    // MARK: Folders of other processes

    /// Locks a folder; returns `nil` if another process has locked it.
    ///
    /// The system releases the lock when the process ends for any reason. Process IDs would be less reliable, and
    /// useless in containers.
    private static func lock(_ folder: URL, creating: Bool = false) -> Int32? {
        let path = folder.appendingPathComponent(lockName).path
        let descriptor = open(path, O_RDWR | O_CLOEXEC | (creating ? O_CREAT : 0), 0o600)
        guard descriptor >= 0 else { return nil }
        if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
        close(descriptor)
        return nil
    }

    /// Creates a locked folder.
    ///
    /// It gets its name after it is locked; otherwise another process could delete it as abandoned.
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

/// The running downloads: at most one for each content, shared by all callers.
final class SharedDownloads: Sendable {
    private struct Download {
        var number: Int
        var task: Task<DownloadFolder.File, any Error>
        /// The number of waiting callers.
        ///
        /// At 0 the download is cancelled and ends.
        var waiting = 1
    }

    private struct State {
        var downloads: [String: Download] = [:]
        var lastNumber = 0
    }

    private let state = Mutex(State())

    /// Returns the file of a content, and starts `fetch` if no download of it is running.
    ///
    /// A cancelled caller stops waiting.
    func file(
        _ content: String,
        _ fetch: @escaping @Sendable () async throws -> DownloadFolder.File
    ) async throws -> DownloadFolder.File {
        let (number, task) = state.withLock { state in
            if let running = state.downloads[content], running.waiting > 0 {
                state.downloads[content]?.waiting += 1
                return (running.number, running.task)
            }
            // A cancelled download has to end first, because both write to the same file.
            let before = state.downloads[content]?.task
            state.lastNumber += 1
            let number = state.lastNumber
            // Not on the cooperative pool: all of its threads may be blocked waiting for this file.
            let task = Task(executorPreference: BlockingThreads.executor) {
                defer { self.ended(number, content) }
                _ = await before?.result
                return try await fetch()
            }
            state.downloads[content] = Download(number: number, task: task)
            return (number, task)
        }
        for try await file in Self.end(of: task) { return file }
        stopWaiting(for: number, content)
        throw CKError(.operationCancelled)
    }

    /// Returns a sequence with the value of a task, so that a cancelled caller can stop waiting for it.
    private static func end<Value>(of task: Task<Value, any Error>) -> AsyncThrowingStream<Value, any Error> {
        AsyncThrowingStream { end in
            Task(executorPreference: BlockingThreads.executor) {
                do {
                    end.yield(try await task.value)
                    end.finish()
                } catch {
                    end.finish(throwing: error)
                }
            }
        }
    }

    private func stopWaiting(for number: Int, _ content: String) {
        let abandoned = state.withLock { state -> Task<DownloadFolder.File, any Error>? in
            guard var download = state.downloads[content], download.number == number else { return nil }
            download.waiting -= 1
            state.downloads[content] = download
            return download.waiting == 0 ? download.task : nil
        }
        abandoned?.cancel()
    }

    private func ended(_ number: Int, _ content: String) {
        state.withLock { state in
            // Another download of the same content may have started in the meantime.
            if state.downloads[content]?.number == number { state.downloads[content] = nil }
        }
    }
}
