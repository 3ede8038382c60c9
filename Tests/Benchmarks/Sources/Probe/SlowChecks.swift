import Sockets

/// Checks of deadlines; each takes up to 90 seconds, so they run in parallel.
enum SlowChecks {
    /// Returns the seconds until the peer closes the connection after `send`, and the last status, if any.
    private static func ends(
        _ name: String,
        within seconds: ClosedRange<Double>,
        _ send: @escaping @Sendable (Link) -> Void
    ) -> Check {
        Check(name: "deadlines: \(name)") { endpoint in
            let link = try Link(to: endpoint, timeout: 100)
            send(link)
            let start = Monotonic.nanoseconds
            link.read()
            let took = Monotonic.seconds(since: start)
            return link.isClosed && seconds.contains(took) ? nil : "closed \(link.isClosed) after \(took) s"
        }
    }

    /// Sends one byte per second until the peer closes the connection.
    private static func sendsSlowly(_ name: String, within seconds: Double, _ head: String) -> Check {
        Check(name: "deadlines: \(name)") { endpoint in
            let link = try Link(to: endpoint, timeout: 1)
            link.send(head)
            let start = Monotonic.nanoseconds
            while !link.isClosed, Monotonic.seconds(since: start) < seconds {
                link.send("a")
                link.read()
            }
            return link.isClosed ? nil : "still open after \(seconds) s"
        }
    }

    private static let post = "POST \(Probed.zones) HTTP/1.1\r\nHost: x\r\n"

    static let all: [Check] = [
        ends("silence from the beginning", within: 5...75) { _ in },
        ends("half a head", within: 8...16) { $0.send("GET /healthz HTTP/1.1\r\nHost:") },
        ends("half a body", within: 8...16) { $0.send(post + "Content-Length: 10\r\n\r\n{") },
        ends("idle after an answer", within: 50...75) { link in
            link.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            _ = link.answer()
        },
        sendsSlowly("a head at one byte a second", within: 17, "GET /healthz HTTP/1.1\r\nX-A: "),
        sendsSlowly("a body at one byte a second", within: 80, post + "Content-Length: 1000\r\n\r\n"),
        Check(name: "deadlines: no hello") { endpoint in
            let socket = try WebSocketLink(to: endpoint, path: Probed.push, timeout: 20)
            var event = socket.next()
            if case .text = event { event = socket.next() }
            return event == .close(code: 4408) ? nil : "\(event)"
        },
        Check(name: "deadlines: a socket that answers no pings") { endpoint in
            let socket = try WebSocketLink(to: endpoint, path: Probed.push, timeout: 120)
            socket.send(first: 0x81, NoticeChecks.hello(device: "probe-silent"))
            guard case .text = socket.next() else { return "no ready" }
            let start = Monotonic.nanoseconds
            var event = socket.next()
            while event == .ping { event = socket.next() }
            let took = Monotonic.seconds(since: start)
            return took < 110 && event != .silence ? nil : "\(event) after \(took) s"
        },
        Check(name: "deadlines: a closing handshake that the client leaves open") { endpoint in
            let socket = try WebSocketLink(to: endpoint, timeout: 8)
            socket.send(first: 0x83, [])
            guard socket.next() == .close(code: 1002) else { return "no close" }
            let start = Monotonic.nanoseconds
            let ended = socket.hasEnded
            return ended && Monotonic.seconds(since: start) < 6 ? nil : "TCP stays open"
        },
    ]
}
