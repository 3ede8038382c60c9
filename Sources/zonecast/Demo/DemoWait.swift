import Foundation
import Synchronization

/// Waits with a time limit.
enum Wait {
    /// Returns the result of `body`, or throws a failure that names what was awaited.
    ///
    /// Returns at the limit even if `body` ignores its cancellation; `body` then continues unattended.
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

    /// Returns the result of `body`, or throws the error of `alarm`, whichever comes first; cancels the other.
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
        // Ends without a result only if the waiting task itself is cancelled.
        for try await result in results { return result }
        throw CancellationError()
    }

    /// Waits until `condition` is true, checking at the given interval.
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
    /// Text like `20 s`.
    var inWords: String { "\(components.seconds) s" }
    var milliseconds: Double { Double(components.seconds) * 1000 + Double(components.attoseconds) / 1e15 }
}
