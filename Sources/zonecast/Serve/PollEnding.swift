import RelayAPI
import ServiceLifecycle

/// Answers the polls that wait as soon as the relay begins to stop.
///
/// A server that stops waits for all answers that it owes, and these would not come before it had to cut them.
struct PollEnding: Service {
    let relay: Relay

    func run() async throws {
        defer { relay.stopPolls() }
        try? await gracefulShutdown()
    }
}
