import Dispatch
import Records
import Testing

@testable import RelayStore

/// The line in which queries wait that look at much.
@Suite struct LongQueriesTests {
    private let line = LongQueries(most: 2)

    /// Whoever finds it full is told when to come again, and nobody who is in it loses their place.
    @Test func aFullLineTakesNobodyElse() async throws {
        let (isIn, goesOn) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
        let first = Task {
            try await line.run { () throws(RelayError) -> Int in
                isIn.continuation.yield()
                goesOn.wait()
                return 1
            }
        }
        for await _ in isIn.stream { break }
        // One of these finds a place behind the first: which, nobody can say.
        async let second = ask(lettingOn: goesOn)
        async let third = ask(lettingOn: goesOn)
        let refusals = await [second, third].compactMap { $0 }
        #expect(refusals.map(\.code) == [.tryAgainLater] && refusals.first?.retryAfter == .seconds(5))
        #expect(try await first.value == 1)
        // There is room again.
        #expect(await ask(lettingOn: goesOn) == nil)
    }

    /// Why a query is refused, if it is; the one that holds up the line is then let on.
    private func ask(lettingOn goesOn: DispatchSemaphore) async -> RelayError? {
        do throws(RelayError) {
            _ = try await line.run { () throws(RelayError) -> Int in 0 }
            return nil
        } catch {
            goesOn.signal()
            return error
        }
    }
}
