import Dispatch
import Records
import RelayCore
import Synchronization

/// An asset's bytes on their way from a connection to the disk.
///
/// The connection's thread only hands pieces over; they are hashed and written one after the other on a queue. A bounded
/// number of bytes waits: then the connection is read no further.
final class UploadIntake: BodyIntake {
    /// Bytes that may wait to be written.
    static let mostWaiting = 2 * 1024 * 1024
    /// What the parts of a multipart body may have around the asset.
    static let multipartOverhead: Int64 = 16 * 1024

    private struct State {
        var waiting = 0
        var whenReady: (@Sendable () -> Void)?
        var received: Int64 = 0
    }

    /// What the queue alone touches.
    private final class Work {
        var intake: (any AssetIntake)?
        var multipart: MultipartBody?
        var isMultipart: Bool
        var size: Int64 = 0
        var failure: RelayError?

        init(multipart: MultipartBody?, goingOn part: BrokenUploads.Part?) {
            self.multipart = multipart
            isMultipart = multipart != nil
            intake = part?.intake
            size = part?.size ?? 0
        }
    }

    let upload: Upload
    private let state = Mutex(State())
    private let queue: DispatchQueue
    // Touched by one thread at a time: on `queue` alone.
    nonisolated(unsafe) private let work: Work
    private let keep: any AssetKeep
    private let limit: Int64
    private let brokenOff: @Sendable (BrokenUploads.Part) -> Void

    /// - Parameters:
    ///   - upload: What its address speaks for.
    ///   - keep: Where it is kept.
    ///   - multipart: Takes the body apart, where it is in parts.
    ///   - limit: Bytes of any asset.
    ///   - refusal: Why nothing of it is kept; the body is taken and dropped then.
    ///   - part: What came of it before.
    ///   - queue: Where it is written.
    ///   - brokenOff: Given what has come, where the body ends before its end.
    init(
        _ upload: Upload,
        keep: any AssetKeep,
        multipart: MultipartBody?,
        limit: Int64,
        refusal: RelayError? = nil,
        goingOn part: BrokenUploads.Part? = nil,
        queue: DispatchQueue,
        brokenOff: @escaping @Sendable (BrokenUploads.Part) -> Void
    ) {
        self.upload = upload
        self.keep = keep
        self.limit = limit
        self.brokenOff = brokenOff
        self.queue = DispatchQueue(label: "zonecast upload", target: queue)
        work = Work(multipart: multipart, goingOn: part)
        work.failure = refusal
    }

    deinit {
        // Nothing waits on the queue any more: what does holds this.
        guard let intake = work.intake, work.failure == nil, !work.isMultipart, work.size > 0 else { return }
        brokenOff(BrokenUploads.Part(intake: intake, size: work.size))
    }

    func take(_ piece: [UInt8], whenReady: @escaping @Sendable () -> Void) -> IntakeVerdict {
        let verdict = state.withLock { state -> IntakeVerdict in
            state.received += Int64(piece.count)
            guard state.received <= limit + Self.multipartOverhead else { return .tooLarge }
            state.waiting += piece.count
            guard state.waiting > Self.mostWaiting else { return .goOn }
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
                guard state.waiting <= Self.mostWaiting / 2 else { return nil }
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
            let intake = if let begun = work.intake { begun } else { try keep.begin() }
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

    private func put(_ bytes: [UInt8], _ intake: any AssetIntake) throws(RelayError) {
        work.size += Int64(bytes.count)
        guard work.size <= limit else { throw Self.tooLarge(limit) }
        if let room = upload.room, work.size > room { throw upload.quotaExceeded }
        try intake.take(bytes)
    }

    /// Keeps what has come, once all of it has, and if `allow` says nothing against its size.
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
            let intake = if let begun = work.intake { begun } else { try keep.begin() }
            work.intake = nil
            return .success(try intake.finish())
        } catch {
            work.failure = error
            work.intake = nil
            return .failure(error)
        }
    }

    static func tooLarge(_ limit: Int64) -> RelayError {
        RelayError(.badRequest, "An asset may have \(limit) bytes.", fineCode: .limitExceeded, status: 413)
    }

    private static let notMultipart = RelayError.badRequest("The body is no multipart/form-data with a file in it.")
}
