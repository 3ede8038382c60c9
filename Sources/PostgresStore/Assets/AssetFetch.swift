#if Postgres
    import Foundation
    import Records
    import RelayCore

    /// An asset on its way into the cache, which several clients may read meanwhile.
    // Unchecked: all mutable state is guarded by `condition`, which is a lock.
    final class AssetFetch: ArrivingAsset, @unchecked Sendable {
        typealias Outcome = Result<Bool, RelayError>

        let size: Int64
        /// Reads the file, also after it was renamed or removed.
        private let descriptor: Int32
        private let condition = NSCondition()
        private var arrived: Int64 = 0
        /// Whether the content was the asset's, once all has arrived.
        private var outcome: Outcome?
        private var waiting: [(offset: Int64, body: @Sendable () -> Void)] = []

        init(size: Int64, path: String) {
            self.size = size
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
        }

        deinit { if descriptor >= 0 { close(descriptor) } }

        /// The bytes that may be read: not the last one before the whole was compared with the hash.
        private var readable: Int64 {
            if case .success(true) = outcome { return size }
            return min(arrived, size - 1)
        }

        private func isDecided(at offset: Int64) -> Bool { outcome != nil || offset < readable }

        func bytes(at offset: Int64, most: Int) throws(RelayError) -> [UInt8] {
            let (end, outcome) = condition.withLock { (readable, self.outcome) }
            switch outcome {
            case .failure(let error): throw error
            case .success(false): throw Self.damaged
            case .success(true), nil: break
            }
            guard offset < end else { return [] }
            let wanted = min(most, Int(end - offset))
            let bytes = [UInt8](unsafeUninitializedCapacity: wanted) { buffer, count in
                count = max(0, pread(descriptor, buffer.baseAddress, wanted, off_t(offset)))
            }
            guard !bytes.isEmpty else { throw Self.damaged }
            return bytes
        }

        func whenArrived(at offset: Int64, _ body: @escaping @Sendable () -> Void) {
            let isNow = condition.withLock {
                if isDecided(at: offset) { return true }
                waiting.append((offset, body))
                return false
            }
            if isNow { body() }
        }

        /// Waits for the end; returns whether the content was the asset's.
        func wait() throws(RelayError) -> Bool {
            condition.lock()
            defer { condition.unlock() }
            while true {
                if let outcome { return try outcome.get() }
                condition.wait()
            }
        }

        fileprivate func add(_ count: Int) { change { arrived += Int64(count) } }

        func end(_ outcome: Outcome) { change { self.outcome = outcome } }

        private func change(_ body: () -> Void) {
            let ready = condition.withLock {
                body()
                condition.broadcast()
                let ready = waiting.filter { isDecided(at: $0.offset) }
                waiting.removeAll { isDecided(at: $0.offset) }
                return ready
            }
            for waiter in ready { waiter.body() }
        }

        private static let damaged = RelayError(
            .internalError,
            "The file of this asset is damaged or lost. Upload it again, or ask the operator to restore it from a backup."
        )
    }

    extension AssetFetch {
        /// Brings the content, on a thread of its own.
        // Unchecked: only the thread that runs it uses it.
        final class Reader: @unchecked Sendable {
            private let upload: any AssetUpload
            private let fetch: AssetCache.Fetch

            init(_ upload: any AssetUpload, _ fetch: @escaping AssetCache.Fetch) {
                self.upload = upload
                self.fetch = fetch
            }

            /// Returns whether the content is the asset's; passes the hash of other content, whose file must go.
            func run(
                into target: AssetFetch,
                expecting hash: AssetHash,
                remove: (AssetHash) -> Void
            ) -> Outcome {
                do throws(RelayError) {
                    try fetch(Counted(upload, target))
                    let found = try upload.finish()
                    if found.hash == hash, found.size == target.size { return .success(true) }
                    remove(found.hash)
                    return .success(false)
                } catch {
                    return .failure(error)
                }
            }
        }

        /// Says how many bytes have been written.
        private final class Counted: AssetUpload {
            private let upload: any AssetUpload
            private let target: AssetFetch

            init(_ upload: any AssetUpload, _ target: AssetFetch) {
                self.upload = upload
                self.target = target
            }

            func rest() { upload.rest() }

            func take(_ piece: [UInt8]) throws(RelayError) {
                try upload.take(piece)
                target.add(piece.count)
            }

            func finish() throws(RelayError) -> (hash: AssetHash, size: Int64) { try upload.finish() }
        }
    }
#endif
