import SyncCore
import Testing

@Suite struct WriteAttemptsTests {
    private func decision(
        after attempts: inout WriteAttempts,
        _ kind: SyncFailure.Kind,
        isOpen: Bool = false,
        isOfService: Bool = false,
        count: Int = 2
    ) -> WriteAttempts.Decision {
        attempts.failed(SyncFailure(kind), isOpen: isOpen, isOfService: isOfService, count: count)
    }

    @Test func `a request that was not executed is split, sent later, kept or refused`() {
        var attempts = WriteAttempts()
        #expect(decision(after: &attempts, .limitExceeded) == .split)
        #expect(decision(after: &attempts, .limitExceeded, count: 1) == .refuse)
        #expect(decision(after: &attempts, .busy) == .later)
        #expect(decision(after: &attempts, .account) == .later)
        #expect(decision(after: &attempts, .refused, isOfService: true) == .keep)
        #expect(decision(after: &attempts, .refused) == .refuse)
        #expect(attempts.unanswered == 0)
    }

    @Test func `a request whose answer was lost is repeated until its outcome is known`() {
        var attempts = WriteAttempts()
        #expect(decision(after: &attempts, .network, isOpen: true) == .repeatUnchanged)
        // This attempt did not reach the relay; whether the first one did is still unknown.
        #expect(decision(after: &attempts, .network) == .repeatUnchanged)
        #expect(decision(after: &attempts, .refused, isOfService: true) == .repeatUnchanged)
        #expect(decision(after: &attempts, .refused) == .refuse)
        #expect(decision(after: &attempts, .limitExceeded) == .split)
    }

    @Test func `a request that never gets an answer is given up after ten attempts, but not while a proxy answers`() {
        var attempts = WriteAttempts()
        for _ in 1...20 { #expect(decision(after: &attempts, .busy, isOpen: true) == .repeatUnchanged) }
        #expect(attempts.unanswered == 1)
        for _ in 2...9 { #expect(decision(after: &attempts, .network, isOpen: true) == .repeatUnchanged) }
        #expect(decision(after: &attempts, .network, isOpen: true) == .later)
    }
}
