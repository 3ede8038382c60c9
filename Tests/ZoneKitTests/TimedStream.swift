import Testing

/// The time limit of a wait was reached.
struct WaitTimeout: Error, CustomStringConvertible {
    var what: String
    var description: String { "timed out waiting for \(what)" }
}

/// Returns the result of `body`, or throws an error that names the awaited event after `limit`.
func within<Result: Sendable>(
    _ limit: Duration,
    _ what: String,
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    try await withThrowingTaskGroup(of: Result.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit)
            throw WaitTimeout(what: what)
        }
        defer { group.cancelAll() }
        guard let first = try await group.next() else { throw WaitTimeout(what: what) }
        return first
    }
}

/// A stream whose elements a test takes one at a time, each with a time limit.
final class TimedStream<Element: Sendable>: Sendable {
    private let stream: AsyncStream<Element>

    init(_ stream: AsyncStream<Element>) { self.stream = stream }

    /// The next element for which `pick` returns a value.
    ///
    /// Other elements are skipped.
    func next<Found: Sendable>(
        _ what: String,
        within limit: Duration = .seconds(120),
        _ pick: @escaping @Sendable (Element) -> Found?
    ) async throws -> Found {
        try await ZoneKitTests.within(limit, what) { [stream] in
            for await element in stream {
                if let found = pick(element) { return found }
            }
            throw WaitTimeout(what: what)
        }
    }
}
