import Foundation
import Records
import Wire

/// A connection on which a device of a user calls operations of the relay, one at a time.
struct WireConnection: Sendable {
    /// The relay's error.
    struct Refusal: Error {
        var code: String
        var reason: String
        var status: Int
        var retryAfter: Duration?

        var words: String { "\(reason) (\(code))" }
    }

    let credentials: DoctorCredentials
    let probe: Probe
    private let device: String

    init(_ address: ProbeAddress, _ credentials: DoctorCredentials, device: String) async throws {
        self.credentials = credentials
        self.device = device
        probe = try await Probe.connect(to: address)
    }

    func close() { probe.close() }

    /// Calls an operation of a database; an error for one item is thrown too, unless `itemsMayFail` is set.
    @discardableResult
    func post(
        _ operation: String,
        in database: String,
        _ body: String,
        itemsMayFail: Bool = false
    ) async throws -> JSONValue {
        let answer = try await probe.send(
            "POST",
            "/database/1/\(credentials.container)/\(credentials.environment)/\(database)/\(operation)?"
                + credentials.query(),
            headers: ["X-Zonecast-Device-ID: \(device)"],
            body: body
        )
        guard let root = try? JSONDocument(parsing: answer.body, limits: .response).root else {
            throw Refusal(code: "\(answer.status)", reason: "The response is not from a relay.", status: answer.status)
        }
        let items = itemsMayFail ? [] : root.list("records") + root.list("zones") + root.list("subscriptions")
        if let refused = ([root] + items).first(where: { $0["serverErrorCode"] != nil }) {
            throw Refusal(
                code: refused.text("serverErrorCode") ?? "",
                reason: refused.text("reason") ?? "",
                status: answer.status,
                retryAfter: answer.header("retry-after").flatMap { Double($0) }.flatMap { Duration(waitOf: $0) }
            )
        }
        return root
    }
}
