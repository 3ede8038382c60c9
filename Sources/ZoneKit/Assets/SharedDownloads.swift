import Synchronization

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
            let task = Task(executorPreference: OwnThreads.lane) {
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
            Task(executorPreference: OwnThreads.lane) {
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
        let givenUp = state.withLock { state -> Task<DownloadFolder.File, any Error>? in
            guard var download = state.downloads[content], download.number == number else { return nil }
            download.waiting -= 1
            state.downloads[content] = download
            return download.waiting == 0 ? download.task : nil
        }
        givenUp?.cancel()
    }

    private func ended(_ number: Int, _ content: String) {
        state.withLock { state in
            // Another download of the same content may have started in the meantime.
            if state.downloads[content]?.number == number { state.downloads[content] = nil }
        }
    }
}
