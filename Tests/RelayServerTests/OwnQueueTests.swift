import Dispatch
import RelayServer
import Testing

/// What takes long must keep nobody from stopping.
@Suite struct OwnQueueTests {
    private struct Fault: Error {}

    @Test func givesWhatTheWorkComesTo() async throws {
        #expect(try await OwnQueue.run(.utility) { 7 } == 7)
        await #expect(throws: Fault.self) { try await OwnQueue.run(.utility) { throw Fault() } }
    }

    @Test func whoIsCancelledDoesNotWaitForTheWork() async throws {
        let end = DispatchSemaphore(value: 0)
        let (begun, begin) = AsyncStream<Void>.makeStream()
        let task = Task {
            try await OwnQueue.run(.utility) {
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
