import Synchronization

/// The downloads that are under way: one of each content, however many wait for it.
final class SharedDownloads: Sendable {
    private struct Download {
        var number: Int
        var task: Task<DownloadFolder.File, any Error>
        /// How many wait for it; nobody any more: it is given up, and ends.
        var waiting = 1
    }

    private struct State {
        var downloads: [String: Download] = [:]
        var lastNumber = 0
    }

    private let state = Mutex(State())

    /// Waits for the file of a content, which `fetch` gets where nobody does so yet; a cancelled task waits no longer.
    func file(
        _ content: String,
        _ fetch: @escaping @Sendable () async throws -> DownloadFolder.File
    ) async throws -> DownloadFolder.File {
        let (number, task) = state.withLock { state in
            if let running = state.downloads[content], running.waiting > 0 {
                state.downloads[content]?.waiting += 1
                return (running.number, running.task)
            }
            // One that was given up has to end first: both would write to the same file.
            let before = state.downloads[content]?.task
            state.lastNumber += 1
            let number = state.lastNumber
            // Not on the common pool's threads: all of them may be waiting for this very file.
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

    /// The value of a task, as a sequence that a cancelled task leaves.
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
            // By now another download of the same content may be under way.
            if state.downloads[content]?.number == number { state.downloads[content] = nil }
        }
    }
}
