import Foundation
package import Records
package import RelayCore

/// Copies of a relay's backups in S3-compatible storage, away from the machine.
///
/// Below the address's prefix there is, for each backup, `backups/NAME.files.json` with the hash of every file, and
/// `backups/NAME.json` with its manifest, which is written last: a backup without it is not there. The files themselves are
/// `content/HASH`, so that what several backups have in common, above all assets, is stored and sent once.
///
/// A prefix belongs to one relay. `lock` keeps two processes on its machine from changing it at once.
package struct RemoteBackups: Sendable {
    private let storage: S3Client

    package init(_ storage: S3Client) { self.storage = storage }

    package var address: S3Address { storage.address }

    /// What an upload sent.
    package struct Upload: Codable, Hashable, Sendable {
        package var files = 0
        package var bytes: Int64 = 0
        /// The files that the storage had already.
        package var known = 0

        package init() {}
    }

    /// A file of a backup.
    private struct File: Codable {
        /// The path in the backup.
        var path: String
        var bytes: Int64
        /// The SHA-256 of the content in hex; of an asset, its name, which is the start of that.
        var content: String

        var isPlausible: Bool {
            Backup.Manifest.belongs(path) && bytes >= 0
                && [AssetHash.byteCount * 2, 64].contains { Hex.isDigits(content, count: $0) }
        }
    }

    private static let largestList = 256 * 1024 * 1024

    private static func manifestKey(_ name: String) -> String { "backups/\(name).json" }
    private static func filesKey(_ name: String) -> String { "backups/\(name).files.json" }
    private static func contentKey(_ content: String) -> String { "content/\(content)" }

    // MARK: Upload

    /// Copies a backup; returns at once if it is there.
    ///
    /// `step` is called with the path of each file before it is sent.
    package func upload(_ backup: Backup, step: (String) -> Void = { _ in }) async throws(BackupFailure) -> Upload {
        let lock = try lock(beside: backup.path)
        defer { lock.release() }
        return try await wrapping { () async throws(S3Failure) in
            var upload = Upload()
            if try await names().contains(backup.name) { return upload }
            var known = Set(try await storage.list("content/").map(\.name))
            let files = try files(of: backup)
            for file in files {
                guard known.insert(Self.contentKey(file.content)).inserted else {
                    upload.known += 1
                    continue
                }
                step(file.path)
                try await storage.put(
                    file: "\(backup.path)/\(file.path)",
                    size: file.bytes,
                    as: Self.contentKey(file.content)
                )
                upload.files += 1
                upload.bytes += file.bytes
            }
            try await storage.put(json(files), as: Self.filesKey(backup.name))
            try await storage.put(json(backup.manifest), as: Self.manifestKey(backup.name))
            return upload
        }
    }

    /// Stores beside a backup that it was copied here.
    package func note(_ backup: Backup, at now: Timestamp) {
        let copy = RemoteCopy(at: now.milliseconds, remote: address.description)
        // Without the note, the backup is looked up in the storage again.
        try? JSONEncoder().encode(copy).write(to: URL(fileURLWithPath: RemoteCopy.path(of: backup)), options: .atomic)
    }

    private func files(of backup: Backup) throws(S3Failure) -> [File] {
        let databases = Dictionary(
            (backup.manifest.files + backup.manifest.settings).map { ($0.path, $0.checksum) },
            uniquingKeysWith: { first, _ in first }
        )
        guard let paths = FileManager.default.enumerator(atPath: backup.path) else {
            throw S3Failure(.local, "\(backup.path) cannot be read.")
        }
        var files: [File] = []
        while let path = paths.nextObject() as? String {
            guard paths.fileAttributes?[.type] as? FileAttributeType == .typeRegular,
                let size = paths.fileAttributes?[.size] as? NSNumber
            else { continue }
            let name = (path as NSString).lastPathComponent
            let isAsset = Hex.isDigits(name, count: AssetHash.byteCount * 2)
            let known = isAsset ? name : databases[path]
            let content = if let known { known } else { try FileContent.hash(of: "\(backup.path)/\(path)") }
            files.append(File(path: path, bytes: size.int64Value, content: content))
        }
        return files.sorted { $0.path < $1.path }
    }

    // MARK: List

    /// Returns the names and manifests of all complete backups, oldest first.
    package func all() async throws(BackupFailure) -> [(name: String, manifest: Backup.Manifest)] {
        try await wrapping { () async throws(S3Failure) in
            var all: [(name: String, manifest: Backup.Manifest)] = []
            for name in try await names() { all.append((name, try await manifest(of: name))) }
            return all.sorted {
                ($0.manifest.made, $0.name.count, $0.name) < ($1.manifest.made, $1.name.count, $1.name)
            }
        }
    }

    private func names() async throws(S3Failure) -> [String] {
        try await storage.list("backups/").compactMap { object in
            let name = object.name.dropFirst("backups/".count)
            guard name.hasSuffix("\(Backup.suffix).json"), !name.contains("/") else { return nil }
            return String(name.dropLast(".json".count))
        }
    }

    private func manifest(of name: String) async throws(S3Failure) -> Backup.Manifest {
        let bytes = try await storage.bytes(of: Self.manifestKey(name), limit: 64 * 1024 * 1024)
        guard let manifest = try? JSONDecoder().decode(Backup.Manifest.self, from: Data(bytes)), manifest.isPlausible
        else { throw S3Failure(.damaged, "The manifest of \(name) in \(address) is damaged.") }
        return manifest
    }

    private func files(of name: String) async throws(S3Failure) -> [File] {
        let bytes = try await storage.bytes(of: Self.filesKey(name), limit: Self.largestList)
        guard let files = try? JSONDecoder().decode([File].self, from: Data(bytes)), files.allSatisfy(\.isPlausible)
        else { throw S3Failure(.damaged, "The list of files of \(name) in \(address) is damaged.") }
        return files
    }

    // MARK: Download

    /// Copies a backup into a folder, and compares every file with its hash; `latest` is the newest.
    ///
    /// Does nothing if the folder has it. `step` is called with the path of each file before it is fetched. Nothing is left
    /// in the folder if it fails.
    ///
    /// - Returns: the backup's path.
    package func download(
        _ name: String,
        into folder: String,
        step: (String) -> Void = { _ in }
    ) async throws(BackupFailure) -> String {
        let all = try await all().map(\.name)
        let full = name == "latest" ? all.last : all.first { $0 == name || $0 == name + Backup.suffix }
        guard let full else { throw .missing("\(name == "latest" ? "" : "\(name) ")in \(address)") }
        let final = "\(folder)/\(full)"
        if FileManager.default.fileExists(atPath: "\(final)/\(Backup.manifestName)") { return final }
        let partial = final + ".partial"
        defer { try? FileManager.default.removeItem(atPath: partial) }
        try await wrapping { () async throws(S3Failure) in
            for file in try await files(of: full) {
                step(file.path)
                let target = "\(partial)/\(file.path)"
                try FileContent.makeFolder((target as NSString).deletingLastPathComponent)
                let hash = try await storage.download(Self.contentKey(file.content), to: target)
                guard hash.hasPrefix(file.content) else {
                    throw S3Failure(
                        .damaged,
                        "The copy of \(file.path) in \(address) is damaged: its checksum differs."
                    )
                }
            }
            try FileContent.rename(partial, to: final)
        }
        return final
    }

    // MARK: Remove

    /// Removes all but the newest `count` backups, and the content that only they had; returns how many it removed.
    package func keep(_ count: Int, lockedIn folder: String) async throws(BackupFailure) -> Int {
        let lock = try lock(beside: "\(folder)/any")
        defer { lock.release() }
        let old = try await all().map(\.name).dropLast(max(1, count))
        guard !old.isEmpty else { return 0 }
        try await wrapping { () async throws(S3Failure) in
            for name in old {
                try await storage.delete(Self.manifestKey(name))
                try await storage.delete(Self.filesKey(name))
            }
            var used: Set<String> = []
            for name in try await names() { for file in try await files(of: name) { used.insert(file.content) } }
            for object in try await storage.list("content/")
            where !used.contains(String(object.name.dropFirst("content/".count))) {
                try await storage.delete(object.name)
            }
        }
        return old.count
    }

    // MARK: Local files

    /// A lock on the copies, held by one process at a time; the system releases it with the process.
    private struct Lock {
        let descriptor: Int32

        func release() {
            flock(descriptor, LOCK_UN)
            close(descriptor)
        }
    }

    private func lock(beside backup: String) throws(BackupFailure) -> Lock {
        let folder = (backup as NSString).deletingLastPathComponent
        let descriptor = open("\(folder)/remote.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unreadable(folder, String(cString: strerror(errno)) + ".") }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            close(descriptor)
            throw .remote("Another process is copying backups to \(address). Retry when it is finished.")
        }
        return Lock(descriptor: descriptor)
    }

    private func json(_ value: some Encodable) throws(S3Failure) -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(value) else { throw S3Failure(.local, "The manifest cannot be written.") }
        return Array(data)
    }

    private func wrapping<Value>(_ body: () async throws(S3Failure) -> Value) async throws(BackupFailure) -> Value {
        do throws(S3Failure) { return try await body() } catch { throw .remote(error.description) }
    }
}

/// When and where a backup was copied; stored beside it.
package struct RemoteCopy: Codable, Hashable, Sendable {
    /// Milliseconds since 1970.
    package var at: Int64
    package var remote: String

    static func path(of backup: Backup) -> String { backup.path + Backup.remoteSuffix }

    /// `nil` if the backup was not copied, or not to `remote`.
    package init?(of backup: Backup, to remote: String) {
        let data = FileManager.default.contents(atPath: Self.path(of: backup))
        guard let copy = data.flatMap({ try? JSONDecoder().decode(Self.self, from: $0) }), copy.remote == remote else {
            return nil
        }
        self = copy
    }

    init(at: Int64, remote: String) {
        self.at = at
        self.remote = remote
    }
}

/// Local files of a backup that is copied.
private enum FileContent {
    static func hash(of path: String) throws(S3Failure) -> String { try FilePart(wholeFile: path).hash }

    static func makeFolder(_ path: String) throws(S3Failure) {
        do {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true,
                attributes: [.posixPermissions: 0o700]
            )
        } catch {
            throw S3Failure(.local, "\(path) cannot be created: \(error.localizedDescription)")
        }
    }

    static func rename(_ path: String, to target: String) throws(S3Failure) {
        guard Foundation.rename(path, target) == 0 else {
            throw S3Failure(.local, "\(target) cannot be created: \(String(cString: strerror(errno))).")
        }
    }
}
