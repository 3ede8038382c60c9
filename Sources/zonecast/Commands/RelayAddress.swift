import Foundation
import ZoneKit

/// The relay that a command was told to speak to.
struct RelayAddress: Sendable {
    let url: URL
    /// The same for a look at what is wrong there.
    let place: ProbeAddress

    /// Throws what to type for whatever is no `http` or `https` address, or has a port that there is not.
    init(_ text: String, like example: String = "http://127.0.0.1:8080") throws(CommandFailure) {
        guard let place = ProbeAddress(text), let url = URL(string: text) else {
            throw CommandFailure(.usage, "'\(text)' is not an address such as \(example).")
        }
        self.url = url
        self.place = place
    }

    /// Sends a request; throws why there is no answer, in the words of the doctor.
    func send(_ request: RelayRequest, timeout: TimeInterval) async throws(CommandFailure) -> RelayResponse {
        do throws(TransportError) {
            return try await NetworkTransport.to(url, timeout: timeout).send(request)
        } catch {
            throw await failure()
        }
    }

    /// Why there is no answer.
    func failure() async -> CommandFailure {
        guard let trouble = await trouble() else {
            return CommandFailure(.unreachable, "The relay at \(place) does not answer: is it running there?")
        }
        return CommandFailure(.unreachable, "The relay at \(trouble).")
    }

    /// What is wrong there, in words that begin with the address; `nil` where nothing is found, and behind a proxy, where a
    /// look from here tells nothing.
    func trouble() async -> String? {
        guard ProxyAddress(for: url, environment: ProcessInfo.processInfo.environment) == nil else { return nil }
        return await RelayChecks(address: place).trouble()
    }

    /// The same for its notices.
    func noticeTrouble() async -> String? { await RelayChecks(address: place).noticeTrouble() }
}
