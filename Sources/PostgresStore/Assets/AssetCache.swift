#if Postgres
    import Dispatch
    import Foundation
    import Records
    import RelayCore
    import RelaySystem

    /// Copies of assets in a folder of this machine, named by their hashes; may be deleted at any time.
    ///
    /// One for all containers, since equal content has the same hash: who may read an asset is decided before its file is
    /// asked for.
    // Unchecked: all mutable state is guarded by `lock`.
    package final class AssetCache: @unchecked Sendable {
        private let folder: AssetFolder
        private let path: String
        private let limit: Int64
        private let lock = NSLock()
        /// The assets that are being fetched.
        private var fetches: [AssetHash: AssetFetch] = [:]
        /// The bytes that have come since the folder was looked through; `nil` before the first time.
        private var news: Int64?
        private let trimming = DispatchQueue(label: "zonecast asset cache", qos: .utility)
        private let fetching = OperationQueue()

        /// - Parameters:
        ///   - path: the folder, which need not exist.
        ///   - limit: the bytes above which the files that were used longest ago are removed.
        ///   - draw: returns 64 random bits, for the names of unfinished files.
        package init(folder path: String, limit: Int64 = 10 << 30, draw: @escaping @Sendable () -> UInt64) {
            self.path = path
            self.limit = limit
            // A file that a loss of power damages is fetched again.
            var disk = DiskCalls.system
            disk.sync = { _ in 0 }
            folder = AssetFolder(folder: path + "/assets", disk: disk, draw: draw)
            fetching.name = "zonecast asset fetches"
            fetching.maxConcurrentOperationCount = Self.fetchesAtOnce
        }

        typealias Fetch = @Sendable (any AssetUpload) throws(RelayError) -> Void

        /// How many assets are fetched at once, so that the rest of the relay gets connections too.
        private static let fetchesAtOnce = 8

        /// Returns the file of an asset if it is here, and otherwise its content, which `fetch` then brings.
        ///
        /// Callers that need the same asset at the same time read from one fetch, which continues when no caller waits for it.
        func content(of hash: AssetHash, size: Int64, fetch: @escaping Fetch) throws(RelayError) -> AssetContent {
            lock.lock()
            defer { lock.unlock() }
            if let running = fetches[hash] { return .arriving(running) }
            if let known = folder.file(of: hash), known.size == size {
                folder.renew(hash)
                return .file(known)
            }
            // If this fails, so does what follows.
            try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            let (copy, path) = try folder.beginReadable()
            let running = AssetFetch(size: size, path: path)
            fetches[hash] = running
            let reader = AssetFetch.Reader(copy, fetch)
            fetching.addOperation { [self] in
                let outcome = reader.run(into: running, expecting: hash) { remove($0) }
                lock.withLock { fetches[hash] = nil }
                running.end(outcome)
                if case .success(true) = outcome { trimLater(after: size) }
            }
            return .arriving(running)
        }

        /// Returns the file of an asset, which `fetch` brings if it is not there; `nil` if that was other content.
        func file(of hash: AssetHash, size: Int64, fetch: @escaping Fetch) throws(RelayError) -> AssetFile? {
            switch try content(of: hash, size: size, fetch: fetch) {
            case .file(let file): return file
            case .arriving(let asset):
                guard let running = asset as? AssetFetch, try running.wait() else { return nil }
                return folder.file(of: hash)
            }
        }

        /// Starts an upload whose content becomes a file of the cache; returns it with the path of its bytes so far.
        func begin() throws(RelayError) -> (upload: any AssetUpload, path: String) {
            try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
            return try folder.beginReadable()
        }

        /// Returns the file of an asset if it is here.
        func known(_ hash: AssetHash) -> AssetFile? { folder.file(of: hash) }

        /// Notes that an upload has brought so many bytes.
        func grew(by size: Int64) { trimLater(after: size) }

        /// Returns the path for a file that is removed soon.
        func temporaryPath(_ number: UInt64) -> String { "\(path)/object-\(number)" }

        func isSound(_ file: AssetFile, of hash: AssetHash) async throws(RelayError) -> Bool {
            try await folder.isSound(file, of: hash)
        }

        func remove(_ hash: AssetHash) { unlink(folder.path(of: hash)) }

        private func trimLater(after size: Int64) {
            let isTime = lock.withLock {
                let total = (news ?? limit) + size
                news = total > limit / 8 ? 0 : total
                return total > limit / 8
            }
            if isTime { trimming.async { self.trim() } }
        }

        /// Removes files that were used longest ago, and those that an earlier process has left unfinished.
        package func trim() {
            let keys: Set<URLResourceKey> = [.fileSizeKey, .contentModificationDateKey, .isRegularFileKey]
            let files = FileManager.default.enumerator(
                at: URL(fileURLWithPath: path),
                includingPropertiesForKeys: Array(keys)
            )
            var found: [(url: URL, size: Int64, used: Date)] = []
            while let url = files?.nextObject() as? URL {
                guard let values = try? url.resourceValues(forKeys: keys), values.isRegularFile == true else {
                    continue
                }
                let used = values.contentModificationDate ?? .distantPast
                found.append((url, Int64(values.fileSize ?? 0), used))
            }
            var total = found.reduce(0) { $0 + $1.size }
            guard total > limit else { return }
            for file in found.sorted(by: { $0.used < $1.used }) where total > limit / 10 * 9 {
                unlink(file.url.path)
                total -= file.size
            }
        }
    }
#endif
