import Foundation
import Synchronization
import ZoneKit

/// Polls a relay that the demo did not start, to detect that it has stopped.
///
/// Clients would wait for minutes before they report it.
final class DemoPulse: Sendable {
    private struct State {
        var lastAnswer = ContinuousClock.now
        var isAnswering = true
    }

    /// The time without a response after which it is logged, and after which a script is aborted.
    private static let patience = Duration.seconds(3)
    private static let end = Duration.seconds(15)

    private let url: URL
    private let journal: DemoJournal
    private let state = Mutex(State())

    init(_ url: URL, _ journal: DemoJournal) {
        self.url = url
        self.journal = journal
    }

    var isAnswering: Bool { state.withLock { $0.isAnswering } }
    /// Whether the relay has not responded for so long that the demo gives up.
    var isLost: Bool { silence >= Self.end }

    private var silence: Duration { state.withLock { ContinuousClock.now - $0.lastAnswer } }

    /// Polls the relay and logs when it stops answering and when it answers again, until cancelled.
    func watch() async {
        state.withLock { $0.lastAnswer = .now }
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await self.ask() }
            tasks.addTask {
                while (try? await Task.sleep(for: .milliseconds(200))) != nil { self.look() }
            }
        }
    }

    /// Throws when the relay is lost.
    func untilLost() async throws {
        while !isLost { try await Task.sleep(for: .milliseconds(200)) }
        throw CommandFailure(
            .unreachable,
            "The relay at \(url.absoluteString) has not answered for \(Self.end.inWords). Check that it is running."
        )
    }

    private func ask() async {
        // On a busy machine a response may be late; it still counts.
        let relay = NetworkTransport.to(url, timeout: 14)
        let question = RelayRequest(method: .get, path: "/healthz")
        while !Task.isCancelled {
            // A proxy answers 502 for a stopped relay.
            if let answer = try? await relay.send(question), answer.status < 500 {
                state.withLock { $0.lastAnswer = .now }
            }
            guard (try? await Task.sleep(for: .milliseconds(500))) != nil else { return }
        }
    }

    private func look() {
        let isAnswering = silence < Self.patience
        let hasChanged = state.withLock { state in
            defer { state.isAnswering = isAnswering }
            return state.isAnswering != isAnswering
        }
        guard hasChanged else { return }
        let address = url.absoluteString
        if isAnswering {
            journal.note("relay", "back", "the relay at \(address) answers again")
        } else {
            journal.note("relay", "silent", "the relay at \(address) does not answer")
        }
    }
}
