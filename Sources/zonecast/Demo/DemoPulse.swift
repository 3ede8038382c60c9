import Foundation
import Synchronization
import ZoneKit

/// Whether a relay that is not the demo's own still answers: one that has died cannot say so itself, and the clients would
/// wait for it for minutes.
final class DemoPulse: Sendable {
    private struct State {
        var lastAnswer = ContinuousClock.now
        var isAnswering = true
    }

    /// After how long without an answer it is told, and after how long a script is given up.
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
    /// It has been silent for too long to wait any longer.
    var isLost: Bool { silence >= Self.end }

    private var silence: Duration { state.withLock { ContinuousClock.now - $0.lastAnswer } }

    /// Asks it again and again, and tells when it falls silent and when it is back, until cancelled.
    func watch() async {
        state.withLock { $0.lastAnswer = .now }
        await withTaskGroup(of: Void.self) { tasks in
            tasks.addTask { await self.ask() }
            tasks.addTask {
                while (try? await Task.sleep(for: .milliseconds(200))) != nil { self.look() }
            }
        }
    }

    /// Throws once it is lost.
    func untilLost() async throws {
        while !isLost { try await Task.sleep(for: .milliseconds(200)) }
        throw CommandFailure(
            .unreachable,
            "The relay at \(url.absoluteString) has not answered for \(Self.end.inWords). Is it running there?"
        )
    }

    private func ask() async {
        // On a busy machine an answer may be late: it counts when it comes.
        let relay = NetworkTransport.to(url, timeout: 14)
        let question = RelayRequest(method: .get, path: "/healthz")
        while !Task.isCancelled {
            // A proxy answers 502 for a relay that is gone.
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
            journal.note("relay", "back", "The relay at \(address) answers again")
        } else {
            journal.note("relay", "silent", "The relay at \(address) does not answer")
        }
    }
}
