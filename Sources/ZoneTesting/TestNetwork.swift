import Foundation
import HTTPTypes
import Records
import RelayAPI
import Synchronization
package import ZoneKit

/// A device's way to the relay: a function call, with the faults that a test asks for.
public final class TestNetwork: Sendable {
    /// What can go wrong with one request.
    public enum Fault: Sendable {
        /// It never reaches the relay.
        case unreachable
        /// The relay carries it out, and the answer is lost.
        case losesAnswer
        /// The relay gets it twice; the second answer comes back.
        case doubled
        /// Something in between answers instead of the relay.
        case answered(status: Int, body: String)
    }

    private struct State {
        var isCut = false
        var faults: [Fault] = []
        var operations: [String] = []
        var bytesReceived = 0
    }

    private let relay: TestRelay
    private let state = Mutex(State())

    init(relay: TestRelay) { self.relay = relay }

    /// Takes the device off the network: every request fails with `networkUnavailable`.
    public func cut() { state.withLock { $0.isCut = true } }

    /// Brings the device back.
    public func heal() { state.withLock { $0.isCut = false } }

    /// Whether the device is off the network.
    public var isCut: Bool { state.withLock { $0.isCut } }

    /// Makes the next requests go wrong, one fault each, in order.
    public func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// The requests so far, such as `private/records/modify`, those that never arrived included.
    public var operations: [String] { state.withLock { $0.operations } }

    /// Forgets the requests so far.
    public func forgetOperations() { state.withLock { $0.operations = [] } }
}

extension TestNetwork: RelayTransport {
    package func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        guard !Task.isCancelled else { throw .cancelled }
        let (isCut, fault) = state.withLock { state -> (Bool, Fault?) in
            state.operations.append(request.path.split(separator: "/").dropFirst(4).joined(separator: "/"))
            if state.isCut { return (true, nil) }
            return (false, state.faults.isEmpty ? nil : state.faults.removeFirst())
        }
        if isCut { throw .offline }
        switch fault {
        case nil: return try await deliver(request)
        case .unreachable: throw .unreachable("the test said so")
        case .losesAnswer:
            _ = try await deliver(request)
            throw .answerLost("the test said so")
        case .doubled:
            _ = try await deliver(request)
            return try await deliver(request)
        case .answered(let status, let body): return RelayResponse(status: status, body: Array(body.utf8))
        }
    }

    private func deliver(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        var headers = HTTPFields()
        for (name, value) in request.headers {
            guard let name = HTTPField.Name(name) else { continue }
            headers[name] = value
        }
        let answer = await relay.respond(
            to: APIRequest(
                method: request.method == .get ? .get : .post,
                path: request.path,
                query: request.query.isEmpty ? nil : request.query,
                headers: headers,
                body: request.body
            )
        )
        guard !Task.isCancelled else { throw .cancelled }
        return RelayResponse(
            status: answer.status.code,
            headers: answer.headers.map { (name: $0.name.canonicalName, value: $0.value) },
            body: answer.body
        )
    }
}
