import Sockets

/// The rules of the notice socket.
///
/// See Notices.md, "Frames", "Order and merging" and "Close codes", and Reliability.md, "Limits".
enum NoticeChecks {
    static func hello(device: String, web: String = "dev-probe") -> [UInt8] {
        let api = String(repeating: "0", count: 64)
        return Array(#"{"hello":{"deviceID":"\#(device)","ckAPIToken":"\#(api)","ckWebAuthToken":"\#(web)"}}"#.utf8)
    }

    /// Makes a check that the relay closes the socket with one of these codes after `send`; a `goodbye` may precede it.
    private static func closes(
        _ name: String,
        with codes: Set<Int>,
        _ send: @escaping @Sendable (WebSocketLink) -> Void
    ) -> Check {
        Check(name: "notices: \(name)") { endpoint in
            let socket = try WebSocketLink(to: endpoint, path: Probed.push)
            send(socket)
            for _ in 0..<300 {
                switch socket.next() {
                case .text, .pong, .ping, .binary: continue
                case .close(let code): return codes.contains(code) ? nil : "closed with \(code)"
                case .ended: return "ended without a close frame"
                case .silence: return "nothing came"
                }
            }
            return "the connection did not end"
        }
    }

    static let all: [Check] = [
        Check(name: "notices: a valid hello is answered by ready") { endpoint in
            let socket = try WebSocketLink(to: endpoint, path: Probed.push)
            socket.send(first: 0x81, hello(device: "probe-1"))
            guard case .text(let text) = socket.next() else { return "no text" }
            let ready = String(decoding: text, as: UTF8.self)
            return ready.hasPrefix(#"{"ready":"#) && ready.contains(#""userRecordName":"_"#) ? nil : ready
        },
        closes("a hello that is not JSON", with: [4400]) { $0.send(first: 0x81, Array("hello".utf8)) },
        closes("a binary hello", with: [1003, 4400]) { $0.send(first: 0x82, hello(device: "probe-2")) },
        closes("an unknown first frame", with: [4400]) { $0.send(first: 0x81, Array(#"{"seen":{}}"#.utf8)) },
        closes("a hello with two members", with: [4400]) { $0.send(first: 0x81, Array(#"{"hello":{},"x":1}"#.utf8)) },
        closes("a hello without credentials", with: [4400, 4401]) {
            $0.send(first: 0x81, Array(#"{"hello":{"deviceID":"probe-3"}}"#.utf8))
        },
        closes("a hello with a wrong token", with: [4401]) {
            $0.send(first: 0x81, hello(device: "probe-4", web: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
        },
        closes("a message declared over 64 KiB", with: [1009]) {
            $0.send([0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0])
        },
        closes("fragments over 64 KiB in all", with: [1009]) { socket in
            socket.send(first: 0x01, Array(repeating: 0x20, count: 60_000))
            socket.send(first: 0x80, Array(repeating: 0x20, count: 6_000))
        },
        closes("a burst of 200 pings", with: [1008]) { socket in
            socket.send(first: 0x81, hello(device: "probe-5"))
            for _ in 0..<200 { socket.send(first: 0x89, [1]) }
        },
        Check(name: "notices: 90 pings are answered") { endpoint in
            let socket = try WebSocketLink(to: endpoint, path: Probed.push)
            socket.send(first: 0x81, hello(device: "probe-6"))
            guard case .text = socket.next() else { return "no ready" }
            for number in 0..<90 { socket.send(first: 0x89, [UInt8(number)]) }
            for number in 0..<90 where socket.next() != .pong([UInt8(number)]) { return "pong \(number) is missing" }
            return nil
        },
        Check(name: "notices: a second connection of a device replaces the first") { endpoint in
            let (first, second) = (
                try WebSocketLink(to: endpoint, path: Probed.push), try WebSocketLink(to: endpoint, path: Probed.push)
            )
            first.send(first: 0x81, hello(device: "probe-7"))
            guard case .text = first.next() else { return "no ready" }
            second.send(first: 0x81, hello(device: "probe-7"))
            guard case .text = second.next() else { return "no second ready" }
            var event = first.next()
            if case .text = event { event = first.next() }
            return event == .close(code: 4409) ? nil : "\(event)"
        },
    ]
}
