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
        /// Nothing: for a request before the one that is to fail.
        case passes
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
        var notices: [String] = []
        /// The notice sockets that are open.
        var sockets: [TestSocketEnd] = []
    }

    let relay: TestRelay
    private let state = Mutex(State())

    init(relay: TestRelay) { self.relay = relay }

    /// Takes the device off the network: every request fails with `networkUnavailable`, and notice sockets are gone.
    public func cut() {
        let sockets = state.withLock { state in
            state.isCut = true
            defer { state.sockets = [] }
            return state.sockets
        }
        sockets.forEach { $0.cut() }
    }

    /// Brings the device back.
    public func heal() { state.withLock { $0.isCut = false } }

    /// Whether the device is off the network.
    public var isCut: Bool { state.withLock { $0.isCut } }

    /// Makes the next requests go wrong, one fault each, in order.
    public func fail(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// The requests so far, such as `private/records/modify`, those that never arrived included.
    public var operations: [String] { state.withLock { $0.operations } }

    /// What the relay has said over the device's notice sockets, frame by frame, as JSON.
    public var frames: [String] { state.withLock { $0.notices } }

    func noticed(_ frame: [UInt8]) { state.withLock { $0.notices.append(String(decoding: frame, as: UTF8.self)) } }

    /// Takes in a new notice socket; false while the device is off the network.
    func adopt(_ socket: TestSocketEnd) -> Bool {
        state.withLock { state in
            if !state.isCut { state.sockets.append(socket) }
            return !state.isCut
        }
    }

    func abandon(_ socket: TestSocketEnd) { state.withLock { $0.sockets.removeAll { $0 === socket } } }

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
        case nil, .passes: return try await deliver(request)
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
                body: request.content
            )
        )
        guard !Task.isCancelled else { throw .cancelled }
        return RelayResponse(
            status: answer.status.code,
            headers: answer.headers.map { (name: $0.name.canonicalName, value: $0.value) },
            body: Self.body(of: answer)
        )
    }

    /// The bytes that a socket would carry, also where they come from a file.
    private static func body(of answer: APIResponse) -> [UInt8] {
        guard let file = answer.file else { return answer.body }
        guard let handle = FileHandle(forReadingAtPath: file.path) else { return [] }
        defer { try? handle.close() }
        try? handle.seek(toOffset: UInt64(file.offset))
        let data = try? handle.read(upToCount: Int(file.length))
        return [UInt8](data ?? Data())
    }
}
