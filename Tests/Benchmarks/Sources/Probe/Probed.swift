import Sockets

/// Calls to the probed relay, for any container, as a user of `--dev`.
enum Probed {
    static let container = "iCloud.probe"
    static let credentials = "ckAPIToken=\(String(repeating: "0", count: 64))&ckWebAuthToken=dev-probe"
    static let zones = "/database/1/\(container)/development/private/zones/lookup?\(credentials)"

    /// Makes a check that a call is answered with this status and, anywhere in the body, this code.
    static func check(_ name: String, _ operation: String, _ body: String, expect: Int, code: String? = nil) -> Check {
        Check(name: name) { endpoint in
            try outcome(operation, Array(body.utf8), at: endpoint, expect: expect, code: code)
        }
    }

    static func outcome(
        _ operation: String,
        _ body: [UInt8],
        at endpoint: Endpoint,
        expect: Int,
        code: String?
    ) throws -> String? {
        let link = try Link(to: endpoint, patience: 5)
        let path = "/database/1/\(container)/development/private/\(operation)?\(credentials)"
        link.send(HTTPRequest("POST", path, to: endpoint, body: body).bytes)
        guard let answer = link.answer() else { return link.isClosed ? "closed without an answer" : "no answer" }
        let hasCode = code.map { answer.text.contains("\"serverErrorCode\":\"\($0)\"") } ?? true
        return answer.status == expect && hasCode ? nil : "answered \(answer.status) \(answer.text.prefix(200))"
    }
}
