import Foundation
import ZoneKit

/// The address of the relay that a command calls.
struct RelayAddress: Sendable {
    let url: URL
    /// The same address, for diagnosis.
    let place: ProbeAddress

    /// Parses an address.
    ///
    /// - Parameters:
    ///   - text: The address.
    ///   - example: A valid address, for the error text.
    /// - Throws: `CommandFailure` if the text is not an http or https address with a valid port.
    init(_ text: String, like example: String = "http://127.0.0.1:8080") throws(CommandFailure) {
        guard let place = ProbeAddress(text), let url = URL(string: text) else {
            throw CommandFailure(.usage, "'\(text)' is not an address such as \(example).")
        }
        self.url = url
        self.place = place
    }

    /// Sends a request.
    ///
    /// - Throws: `CommandFailure` with the doctor's diagnosis if there is no response.
    func send(_ request: RelayRequest, timeout: TimeInterval) async throws(CommandFailure) -> RelayResponse {
        do throws(TransportError) {
            return try await NetworkTransport.to(url, timeout: timeout).send(request)
        } catch {
            throw await failure()
        }
    }

    /// Returns why there is no response.
    func failure() async -> CommandFailure {
        guard let trouble = await trouble() else {
            return CommandFailure(.unreachable, "The relay at \(place) does not answer. Check that it is running.")
        }
        return CommandFailure(.unreachable, "The relay at \(trouble).")
    }

    /// Returns the problem, beginning with the address.
    ///
    /// `nil` if none is found, and behind a proxy, where a probe from here proves nothing.
    func trouble() async -> String? {
        guard ProxyAddress(for: url, environment: ProcessInfo.processInfo.environment) == nil else { return nil }
        return await RelayChecks(address: place).trouble()
    }

    /// Like `trouble`, for notices.
    func noticeTrouble() async -> String? { await RelayChecks(address: place).noticeTrouble() }
}
