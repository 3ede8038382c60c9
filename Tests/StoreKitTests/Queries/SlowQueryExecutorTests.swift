import Dispatch
import Records
import StoreKit
import Testing

/// The queue of long queries.
@Suite struct SlowQueryExecutorTests {
    private let queue = SlowQueryExecutor(most: 2)

    /// A query that finds the queue full is refused with a time to retry; queued queries keep their places.
    @Test func aFullQueueRefusesFurtherQueries() async throws {
        let (isIn, semaphore) = (AsyncStream<Void>.makeStream(), DispatchSemaphore(value: 0))
        let first = Task {
            try await queue.run { () throws(RelayError) -> Int in
                isIn.continuation.yield()
                semaphore.wait()
                return 1
            }
        }
        for await _ in isIn.stream { break }
        // One of these is queued behind the first; either one may be.
        async let second = refusal(unblocking: semaphore)
        async let third = refusal(unblocking: semaphore)
        let refusals = await [second, third].compactMap { $0 }
        #expect(refusals.map(\.code) == [.tryAgainLater] && refusals.first?.retryAfter == .seconds(5))
        #expect(try await first.value == 1)
        // There is room again.
        #expect(await refusal(unblocking: semaphore) == nil)
    }

    /// Returns the refusal of a query, if any.
    ///
    /// After a refusal, lets the blocking query continue.
    private func refusal(unblocking semaphore: DispatchSemaphore) async -> RelayError? {
        do throws(RelayError) {
            _ = try await queue.run { () throws(RelayError) -> Int in 0 }
            return nil
        } catch {
            semaphore.signal()
            return error
        }
    }
}
