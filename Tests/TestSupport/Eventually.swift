import Testing

/// Waits until a condition holds.
///
/// For work that a task or thread does without reporting it. Records an issue that names the condition if it does not
/// hold within 300 seconds; even a slow machine needs less unless the program hangs.
package func eventually(_ condition: String, _ holds: () async throws -> Bool) async throws {
    let limit = ContinuousClock.now + .seconds(300)
    while try await !holds() {
        guard ContinuousClock.now < limit else {
            Issue.record("waited 300 s for \(condition)")
            return
        }
        try await Task.sleep(for: .milliseconds(1))
    }
}
