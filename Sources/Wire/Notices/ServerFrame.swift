import Records

/// A frame from the relay on the notice socket.
///
/// See Notices.md, "Frames".
package enum ServerFrame: Hashable, Sendable {
    /// The answer to a valid hello.
    case ready(NoticeReady)
    /// Something covered by one of the user's subscriptions has changed.
    case notice(Notice)
    /// A new web auth token, to be used from now on.
    case renewed(webAuthToken: String)
    /// The relay is about to close the connection; `retryAfter` in seconds.
    case goodbye(reason: String, retryAfter: Double?)
    /// The answer to a client's `ping` frame.
    case pong
    /// A kind of a later protocol version; to be ignored.
    case unknown(kind: String)

    /// Decodes a text message; throws if it is not a frame.
    package init(decoding text: [UInt8]) throws(JSONError) {
        let (kind, body) = try JSONDocument(parsing: text).soleMember()
        switch kind {
        case "ready": self = .ready(try NoticeReady(body))
        case "notice": self = .notice(try Notice(body))
        case "renewed": self = .renewed(webAuthToken: try body.required("ckWebAuthToken").string())
        case "goodbye":
            self = .goodbye(
                reason: try body.required("reason").string(),
                retryAfter: try body["retryAfter"].map { value throws(JSONError) in try value.double() }
            )
        case "pong": self = .pong
        default: self = .unknown(kind: kind)
        }
    }

    /// The frame as a text message.
    package var encoded: [UInt8] {
        var writer = JSONWriter(reserving: 512)
        writer.object { writer in
            switch self {
            case .ready(let ready):
                writer.key("ready")
                ready.write(to: &writer)
            case .notice(let notice):
                writer.key("notice")
                notice.write(to: &writer)
            case .renewed(let token):
                writer.key("renewed")
                writer.object { $0.member("ckWebAuthToken", token) }
            case .goodbye(let reason, let retryAfter):
                writer.key("goodbye")
                writer.object { Self.writeGoodbye(reason, retryAfter, to: &$0) }
            case .pong:
                writer.key("pong")
                writer.object { _ in }
            case .unknown(let kind):
                writer.key(kind)
                writer.object { _ in }
            }
        }
        return writer.bytes
    }

    private static func writeGoodbye(_ reason: String, _ retryAfter: Double?, to writer: inout JSONWriter) {
        writer.member("reason", reason)
        guard let retryAfter else { return }
        writer.key("retryAfter")
        if let whole = Int(exactly: retryAfter) { writer.int(whole) } else { writer.double(retryAfter) }
    }
}

/// The relay's answer to a valid hello.
package struct NoticeReady: Hashable, Sendable {
    package var userRecordName: String
    /// The IDs of the user's subscriptions.
    package var subscriptions: [String]
    /// The interval between the relay's pings, in seconds.
    package var pingInterval: Int
    /// The relay's name and version, for people.
    package var relay: String

    package init(userRecordName: String, subscriptions: [String], pingInterval: Int, relay: String) {
        self.userRecordName = userRecordName
        self.subscriptions = subscriptions
        self.pingInterval = pingInterval
        self.relay = relay
    }

    init(_ body: JSONValue) throws(JSONError) {
        userRecordName = try body.required("userRecordName").string()
        var subscriptions: [String] = []
        for element in try body.required("subscriptions").elements() { subscriptions.append(try element.string()) }
        self.subscriptions = subscriptions
        pingInterval = Int(clamping: try body["pingInterval"]?.int64() ?? 30)
        relay = try body["relay"]?.string() ?? ""
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("userRecordName", userRecordName)
            writer.key("subscriptions")
            writer.array(subscriptions) { $0.string($1) }
            writer.member("pingInterval", pingInterval)
            writer.member("relay", relay)
        }
    }
}
