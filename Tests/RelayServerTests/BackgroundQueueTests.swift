import Dispatch
import RelayServer
import Testing

/// Long-running work must not delay cancellation.
@Suite struct BackgroundQueueTests {
    private struct Fault: Error {}

    @Test func theResultOfTheWorkIsReturned() async throws {
        #expect(try await BackgroundQueue.run(.utility) { 7 } == 7)
        await #expect(throws: Fault.self) { try await BackgroundQueue.run(.utility) { throw Fault() } }
    }

    @Test func aCancelledTaskDoesNotWaitForTheWork() async throws {
        let end = DispatchSemaphore(value: 0)
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let task = Task {
            try await BackgroundQueue.run(.utility) {
                begin.finish()
                end.wait()
            }
        }
        for await _ in begun {}
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        end.signal()
    }
}
