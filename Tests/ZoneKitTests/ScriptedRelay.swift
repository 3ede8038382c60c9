import Foundation
import Synchronization
import ZoneKit

/// A fake relay that answers from a list and records the requests, for behaviour that a real relay does not show.
final class ScriptedRelay: RelayTransport {
    enum Line: Sendable {
        case answer(Int, String, headers: [String: String])
        case failure(TransportError)
        /// Never answers; the request ends when the caller cancels it.
        case silence

        static func answer(_ status: Int, _ body: String) -> Line { .answer(status, body, headers: [:]) }
    }

    private struct State {
        var lines: [Line]
        var requests: [RelayRequest] = []
        var beforeAnswer: (@Sendable () -> Void)?
    }

    private let state: Mutex<State>

    init(_ lines: [Line]) { state = Mutex(State(lines: lines)) }

    convenience init(_ lines: Line...) { self.init(lines) }

    /// Calls `body` once, after the next request and before its answer.
    func beforeAnswer(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.beforeAnswer = body } }

    var requests: [RelayRequest] { state.withLock { $0.requests } }
    var bodies: [String] { requests.map { String(decoding: $0.body, as: UTF8.self) } }

    /// Returns a container of this relay.
    ///
    /// Its user's name is set, so no request asks for it.
    func container(
        apiToken: String? = "a+b/c=",
        webAuthToken: String? = "dev-alice",
        renewed: (@Sendable (String) -> Void)? = nil
    ) -> CKContainer {
        let connection = RelayConnection(
            container: "iCloud.test",
            url: nil,
            credentials: RelayCredentials(apiToken: apiToken, webAuthToken: webAuthToken, renewed: renewed),
            deviceID: "phone",
            transport: self
        )
        connection.caller.recordName = "_alice"
        return CKContainer(connection: connection)
    }

    func send(_ request: RelayRequest) async throws(TransportError) -> RelayResponse {
        let line = state.withLock { state in
            state.requests.append(request)
            return state.lines.isEmpty ? Line.failure(.unreachable("the script has ended")) : state.lines.removeFirst()
        }
        let hook = state.withLock { state in
            defer { state.beforeAnswer = nil }
            return state.beforeAnswer
        }
        hook?()
        switch line {
        case .answer(let status, let body, let headers):
            return RelayResponse(
                status: status,
                headers: headers.map { (name: $0.key, value: $0.value) },
                body: Array(body.utf8)
            )
        case .failure(let error): throw error
        case .silence:
            try? await Task.sleep(for: .seconds(60))
            throw .cancelled
        }
    }
}
