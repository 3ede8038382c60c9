import Foundation
import Records
import Wire

/// A connection to a relay on which operations of the wire are called, one after the other, as one device of a user.
struct WireConnection: Sendable {
    /// What the relay answered instead.
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

    /// Sends one operation of a database; a refusal of one item is a refusal here too.
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
            throw Refusal(code: "\(answer.status)", reason: "The answer is none of a relay's.", status: answer.status)
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
