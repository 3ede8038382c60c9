import RelayAPI
import ServiceLifecycle

/// Answers waiting long polls as soon as shutdown begins.
///
/// The server waits for all pending responses when it stops; without this, waiting polls would delay it until its
/// deadline.
struct PollEnding: Service {
    let relay: Relay

    func run() async throws {
        defer { relay.stopPolls() }
        try? await gracefulShutdown()
    }
}
