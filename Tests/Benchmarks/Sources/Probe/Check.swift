import Sockets

/// A rule that the relay must follow, and the test of it.
struct Check: Sendable {
    var name: String
    /// Returns what was observed instead, `nil` if the check passes.
    var run: @Sendable (Endpoint) throws -> String?
}

extension Check {
    /// Sends bytes and then a valid request that must not be read: one response with an expected status, then the end.
    static func refused(_ name: String, _ statuses: Set<Int>, _ bytes: [UInt8]) -> Check {
        Check(name: name) { endpoint in
            let link = try Link(to: endpoint)
            link.send(bytes + Array("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".utf8))
            let first = link.answer()
            let second = link.answer()
            guard let first else { return link.isClosed ? "closed without an answer" : "no answer, left open" }
            if !statuses.contains(first.status) { return "answered \(first.status)" }
            if let second { return "read on after \(first.status): answered \(second.status) to what followed" }
            return link.isClosed ? nil : "answered \(first.status) but left the connection open"
        }
    }

    static func refused(_ name: String, _ statuses: Set<Int>, _ text: String) -> Check {
        refused(name, statuses, Array(text.utf8))
    }

    /// Sends bytes; the first response has an expected status, and the connection may stay open or close.
    static func answered(_ name: String, _ statuses: Set<Int>, _ text: String) -> Check {
        Check(name: name) { endpoint in
            let link = try Link(to: endpoint)
            link.send(text)
            guard let answer = link.answer(hasBody: !text.hasPrefix("HEAD")) else {
                return link.isClosed ? "closed without an answer" : "no answer"
            }
            return statuses.contains(answer.status) ? nil : "answered \(answer.status) \(answer.text.prefix(120))"
        }
    }
}

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
        let link = try Link(to: endpoint, timeout: 5)
        let path = "/database/1/\(container)/development/private/\(operation)?\(credentials)"
        link.send(HTTPRequest("POST", path, to: endpoint, body: body).bytes)
        guard let answer = link.answer() else { return link.isClosed ? "closed without an answer" : "no answer" }
        let hasCode = code.map { answer.text.contains("\"serverErrorCode\":\"\($0)\"") } ?? true
        return answer.status == expect && hasCode ? nil : "answered \(answer.status) \(answer.text.prefix(200))"
    }
}
