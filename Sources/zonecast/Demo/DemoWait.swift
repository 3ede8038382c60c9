import Foundation
import Synchronization

/// Waits that end.
enum Wait {
    /// The result of `body`, or a failure that says what was waited for.
    ///
    /// Returns at the limit even where `body` does not heed its cancellation: it is left behind then.
    static func upTo<Result: Sendable>(
        _ limit: Duration,
        _ what: String,
        _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await race(body) {
            try await Task.sleep(for: limit)
            throw CommandFailure(.failed, "Waited \(limit.inWords) for \(what).")
        }
    }

    /// The result of `body`, or what `alarm` throws first; whichever is late is cancelled and left behind.
    static func race<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result,
        unless alarm: @escaping @Sendable () async throws -> Void
    ) async throws -> Result {
        let (results, answer) = AsyncThrowingStream.makeStream(of: Result.self)
        let work = Task {
            do {
                answer.yield(try await body())
            } catch {
                answer.finish(throwing: error)
            }
        }
        let watch = Task {
            do { try await alarm() } catch { answer.finish(throwing: error) }
        }
        defer {
            work.cancel()
            watch.cancel()
        }
        // Ends without a result only where the waiting task itself is cancelled.
        for try await result in results { return result }
        throw CancellationError()
    }

    /// Waits until `condition` holds, looking every few milliseconds.
    static func until(
        _ what: String,
        upTo limit: Duration = .seconds(120),
        every pause: Duration = .milliseconds(5),
        _ condition: @escaping @Sendable () async -> Bool
    ) async throws {
        try await upTo(limit, what) {
            while !(await condition()) { try await Task.sleep(for: pause) }
        }
    }
}

extension Duration {
    /// `20 s`.
    var inWords: String { "\(components.seconds) s" }
    var milliseconds: Double { Double(components.seconds) * 1000 + Double(components.attoseconds) / 1e15 }
}
