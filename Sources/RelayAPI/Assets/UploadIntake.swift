import Dispatch
import Records
import RelayCore
import Synchronization

/// Writes the body of an upload to the disk as it arrives.
///
/// The event loop only enqueues pieces; a serial queue hashes and writes them. If too many bytes are queued, the server
/// stops reading from the connection.
final class UploadIntake: BodyIntake {
    /// The number of queued bytes above which reading stops.
    static let maxQueuedBytes = 2 * 1024 * 1024
    /// The maximum overhead of a multipart body around the asset.
    static let multipartOverhead: Int64 = 16 * 1024

    private struct State {
        var waiting = 0
        var whenReady: (@Sendable () -> Void)?
        var received: Int64 = 0
    }

    /// State that only the queue accesses.
    private final class Work {
        var intake: (any AssetUpload)?
        var multipart: MultipartBody?
        var isMultipart: Bool
        var size: Int64 = 0
        var failure: RelayError?

        init(multipart: MultipartBody?, resuming part: InterruptedUploads.Part?, at offset: Int64) {
            self.multipart = multipart
            isMultipart = multipart != nil
            intake = part?.intake
            size = part?.size ?? offset
        }
    }

    let upload: Upload
    private let state = Mutex(State())
    private let queue: DispatchQueue
    // Only accessed on `queue`, by one thread at a time.
    nonisolated(unsafe) private let work: Work
    private let begin: @Sendable () throws(RelayError) -> any AssetUpload
    private let limit: Int64
    private let onInterrupted: @Sendable (InterruptedUploads.Part) -> Void

    /// - Parameters:
    ///   - upload: The content of the upload address.
    ///   - begin: Begins or continues the upload, unless there is a part; called on the queue, because it may block.
    ///   - multipart: Parses the body if it is multipart.
    ///   - limit: The maximum size of an asset in bytes.
    ///   - refusal: The error if the upload is refused; the body is then received and discarded.
    ///   - part: The part received before, to resume the upload.
    ///   - offset: The number of bytes received before.
    ///   - queue: The target queue for writing.
    ///   - onInterrupted: Receives the part if the body ends early.
    init(
        _ upload: Upload,
        begin: @escaping @Sendable () throws(RelayError) -> any AssetUpload,
        multipart: MultipartBody?,
        limit: Int64,
        refusal: RelayError? = nil,
        resuming part: InterruptedUploads.Part? = nil,
        at offset: Int64 = 0,
        queue: DispatchQueue,
        onInterrupted: @escaping @Sendable (InterruptedUploads.Part) -> Void
    ) {
        self.upload = upload
        self.begin = begin
        self.limit = limit
        self.onInterrupted = onInterrupted
        self.queue = DispatchQueue(label: "zonecast upload", target: queue)
        work = Work(multipart: multipart, resuming: part, at: offset)
        work.failure = refusal
    }

    deinit {
        // The queue is empty now, because each queued block retains this object.
        guard let intake = work.intake, work.failure == nil, !work.isMultipart, work.size > 0 else { return }
        onInterrupted(InterruptedUploads.Part(intake: intake, size: work.size))
    }

    func take(_ piece: [UInt8], whenReady: @escaping @Sendable () -> Void) -> IntakeVerdict {
        let verdict = state.withLock { state -> IntakeVerdict in
            state.received += Int64(piece.count)
            guard state.received <= limit + Self.multipartOverhead else { return .tooLarge }
            state.waiting += piece.count
            guard state.waiting > Self.maxQueuedBytes else { return .proceed }
            state.whenReady = whenReady
            return .wait
        }
        guard verdict != .tooLarge else {
            queue.async { [self] in work.failure = Self.tooLarge(limit) }
            return verdict
        }
        queue.async { [self] in
            write(piece)
            let resume = state.withLock { state -> (@Sendable () -> Void)? in
                state.waiting -= piece.count
                guard state.waiting <= Self.maxQueuedBytes / 2 else { return nil }
                defer { state.whenReady = nil }
                return state.whenReady
            }
            resume?()
        }
        return verdict
    }

    private func write(_ piece: [UInt8]) {
        guard work.failure == nil else { return }
        do throws(RelayError) {
            let intake = if let begun = work.intake { begun } else { try begin() }
            work.intake = intake
            if work.isMultipart {
                guard let content = work.multipart?.take(piece) else { throw Self.notMultipart }
                try put(content, intake)
            } else {
                try put(piece, intake)
            }
        } catch {
            work.failure = error
            work.intake = nil
        }
    }

    private func put(_ bytes: [UInt8], _ intake: any AssetUpload) throws(RelayError) {
        work.size += Int64(bytes.count)
        guard work.size <= limit else { throw Self.tooLarge(limit) }
        if let room = upload.room, work.size > room { throw upload.quotaExceeded }
        try intake.take(bytes)
    }

    /// Stores the asset after all of the body has arrived, unless `allow` throws for its size.
    func finish(
        _ allow: @escaping @Sendable (Int64) throws(RelayError) -> Void
    ) async throws(RelayError) -> (hash: AssetHash, size: Int64) {
        let result = await withCheckedContinuation { continuation in
            queue.async { [self] in continuation.resume(returning: finished(allow)) }
        }
        return try result.get()
    }

    private func finished(
        _ allow: (Int64) throws(RelayError) -> Void
    ) -> Result<(hash: AssetHash, size: Int64), RelayError> {
        do throws(RelayError) {
            if let failure = work.failure { throw failure }
            if work.isMultipart, !(work.multipart?.isComplete ?? false) { throw Self.notMultipart }
            try allow(work.size)
            let intake = if let begun = work.intake { begun } else { try begin() }
            work.intake = nil
            return .success(try intake.finish())
        } catch {
            work.failure = error
            work.intake = nil
            return .failure(error)
        }
    }

    static func tooLarge(_ limit: Int64) -> RelayError {
        RelayError(.badRequest, "An asset may have at most \(limit) bytes.", fineCode: .limitExceeded, status: 413)
    }

    private static let notMultipart = RelayError.badRequest("The body is not multipart/form-data with a file.")
}
