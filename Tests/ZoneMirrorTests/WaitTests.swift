import Foundation
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// `waitUntilUpToDate` always ends, and succeeds only after contact with the relay.
@Suite(.timeLimit(.minutes(15))) struct WaitTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func phone() async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: "phone")) }

    @Test func waitingEndsAfterASendAndAFetch() async throws {
        let phone = try await phone()
        try phone.save(Note(id: "n", title: "a"))
        let before = Date()
        try await phone.container.waitUntilUpToDate(timeout: .seconds(120))
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        let seen = try #require(try await phone.container.lastSuccessfulImport(phone.store))
        let sent = try #require(try await phone.container.lastSuccessfulExport(phone.store))
        #expect(seen >= before && sent >= before)
        #expect(try await phone.container.isUpToDate(asOf: before))
        #expect(try await !phone.container.isUpToDate(asOf: Date(timeIntervalSinceNow: 3_600)))
        try phone.save(Note(id: "m", title: "b"))
        #expect(try await !phone.container.isUpToDate(asOf: before))
    }

    /// Without the relay, waiting fails and the error tells the reason.
    @Test func offlineIsNeverUpToDate() async throws {
        let phone = try await phone()
        phone.device.network.cut()
        var error: MirrorError?
        // On a busy machine the failure may take longer, so the timeout is doubled.
        for power in 0..<10 where error?.underlying == nil {
            error = await #expect(throws: MirrorError.self) {
                try await phone.container.waitUntilUpToDate(timeout: .milliseconds(200 << power))
            }
            #expect(error?.code == .timedOut)
        }
        #expect(error?.underlying is MirrorError)
        #expect(error?.explanation.contains("network") == true, "\(error?.explanation ?? "")")
        #expect(try await phone.container.lastSuccessfulImport(phone.store) == nil)
        #expect(try await !phone.container.isUpToDate(asOf: .distantPast))
    }

    /// A hanging request does not delay the timeout; its response is still applied when it arrives.
    @Test func aHangingRequestDoesNotDelayTheTimeout() async throws {
        let phone = try await phone()
        try phone.save(Note(id: "n", title: "a"))
        let (asked, answer) = (Gate(), Gate())
        phone.device.network.fail(
            request: 1,
            of: "changes/database",
            by: .meanwhile {
                asked.open()
                await answer.wait()
            }
        )
        let error = await #expect(throws: MirrorError.self) {
            try await phone.container.waitUntilUpToDate(timeout: .milliseconds(50))
        }
        #expect(error?.code == .timedOut)
        // The request is still in progress, or about to start.
        await asked.wait()
        answer.open()
        try await phone.container.waitUntilUpToDate(timeout: .seconds(120))
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    @Test func aCancelledTaskStopsWaiting() async throws {
        let phone = try await phone()
        let (asked, answer) = (Gate(), Gate())
        phone.device.network.fail(
            request: 1,
            of: "changes/database",
            by: .meanwhile {
                asked.open()
                await answer.wait()
            }
        )
        let wait = Task { try await phone.container.waitUntilUpToDate(timeout: .seconds(86_400)) }
        await asked.wait()
        wait.cancel()
        let error = await #expect(throws: MirrorError.self) { try await wait.value }
        #expect(error?.code == .timedOut)
        answer.open()
        // A task that was cancelled before it started.
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await phone.container.waitUntilUpToDate(timeout: .seconds(86_400))
        }
        await #expect(throws: MirrorError.self) { try await late.value }
    }
}
