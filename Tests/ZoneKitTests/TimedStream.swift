import Testing

/// A wait that came to its end.
struct WaitedInVain: Error, CustomStringConvertible {
    var what: String
    var description: String { "waited in vain for \(what)" }
}

/// The result of `body`, or an error that says what was waited for.
func within<Result: Sendable>(
    _ limit: Duration,
    _ what: String,
    _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result {
    try await withThrowingTaskGroup(of: Result.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: limit)
            throw WaitedInVain(what: what)
        }
        defer { group.cancelAll() }
        guard let first = try await group.next() else { throw WaitedInVain(what: what) }
        return first
    }
}

/// A stream whose elements are taken one at a time by a test, each within a time.
final class Takings<Element: Sendable>: Sendable {
    private let stream: AsyncStream<Element>

    init(_ stream: AsyncStream<Element>) { self.stream = stream }

    /// The next element for which `pick` gives something; the others are passed over.
    func next<Found: Sendable>(
        _ what: String,
        within limit: Duration = .seconds(120),
        _ pick: @escaping @Sendable (Element) -> Found?
    ) async throws -> Found {
        try await ZoneKitTests.within(limit, what) { [stream] in
            for await element in stream {
                if let found = pick(element) { return found }
            }
            throw WaitedInVain(what: what)
        }
    }
}
