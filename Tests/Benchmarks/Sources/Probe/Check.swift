import Sockets

/// One thing that the relay must do, and the place that asks it.
struct Check: Sendable {
    var name: String
    /// What was seen instead; `nil` when all is well.
    var run: @Sendable (Endpoint) throws -> String?
}

extension Check {
    /// Sends bytes, and then a decent request that must never be read: one answer of the given status, then the end.
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

    /// Sends bytes; the first answer has one of the statuses, whatever becomes of the connection.
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
