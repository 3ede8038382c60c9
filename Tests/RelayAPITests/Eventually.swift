import Testing

/// Returns once `isSo`, however slow the machine is; a wait without end fails the test and says what it waited for.
///
/// For what a task or a thread of the relay does on its own and tells nobody of.
func eventually(_ what: String, _ isSo: () async throws -> Bool) async throws {
    let limit = ContinuousClock.now + .seconds(300)
    while try await !isSo() {
        guard ContinuousClock.now < limit else {
            Issue.record("waited 300 s for \(what)")
            return
        }
        try await Task.sleep(for: .milliseconds(1))
    }
}
