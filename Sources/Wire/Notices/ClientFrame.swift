package import Records

/// A frame from a client on the notice socket: a JSON object with one member, named after the frame's kind.
///
/// See Notices.md, "Frames".
package enum ClientFrame: Hashable, Sendable {
    /// The first frame, within 10 s of connecting.
    case hello(NoticeHello)
    /// The database tokens that the client has reached since; optional, and the relay may ignore it.
    case seen([DatabaseScope: String])
    /// Asks for a `pong`. For browsers, whose programs can neither send WebSocket pings nor see the relay's.
    case ping
    /// A kind of a later protocol version; to be ignored.
    case unknown(kind: String)

    /// Decodes a text message; throws if it is not a frame.
    package init(decoding text: [UInt8]) throws(JSONError) {
        let (kind, body) = try JSONDocument(parsing: text).soleMember()
        switch kind {
        case "hello": self = .hello(try NoticeHello(body))
        case "seen": self = .seen(try body.databaseTokens())
        case "ping": self = .ping
        default: self = .unknown(kind: kind)
        }
    }

    /// The frame as a text message.
    package var encoded: [UInt8] {
        var writer = JSONWriter(reserving: 512)
        writer.object { writer in
            switch self {
            case .hello(let hello):
                writer.key("hello")
                hello.write(to: &writer)
            case .seen(let tokens):
                writer.key("seen")
                writer.databaseTokens(tokens)
            case .ping:
                writer.key("ping")
                writer.object { _ in }
            case .unknown(let kind):
                writer.key(kind)
                writer.object { _ in }
            }
        }
        return writer.bytes
    }
}

/// The client's credentials and progress.
package struct NoticeHello: Hashable, Sendable {
    /// Identifies the device, so that it receives no notices of its own changes.
    ///
    /// 1 to 255 printable ASCII characters, as in `X-Zonecast-Device-ID`.
    package var deviceID: String
    /// The tokens, unless they were sent with the upgrade request; browsers do not put secrets into URLs.
    package var apiToken: String?
    package var webAuthToken: String?
    /// The last database token that the client has fully applied.
    ///
    /// A scope without an entry has no token; the client then receives a notice of everything.
    package var since: [DatabaseScope: String]

    package init(
        deviceID: String,
        apiToken: String? = nil,
        webAuthToken: String? = nil,
        since: [DatabaseScope: String] = [:]
    ) {
        self.deviceID = deviceID
        self.apiToken = apiToken
        self.webAuthToken = webAuthToken
        self.since = since
    }

    init(_ body: JSONValue) throws(JSONError) {
        let device = try body.required("deviceID")
        deviceID = try device.string()
        guard NameRules.isRecordName(deviceID) else {
            throw device.mismatch("a text of 1 to 255 printable ASCII characters")
        }
        apiToken = try body["ckAPIToken"].map { value throws(JSONError) in try value.string() }
        webAuthToken = try body["ckWebAuthToken"].map { value throws(JSONError) in try value.string() }
        since = try body["since"].map { value throws(JSONError) in try value.databaseTokens() } ?? [:]
    }

    func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("deviceID", deviceID)
            if let apiToken { writer.member("ckAPIToken", apiToken) }
            if let webAuthToken { writer.member("ckWebAuthToken", webAuthToken) }
            writer.key("since")
            writer.databaseTokens(since)
        }
    }
}

extension JSONDocument {
    /// Returns the only member of a frame's object.
    func soleMember() throws(JSONError) -> (kind: String, body: JSONValue) {
        let members = try root.members()
        guard members.count == 1, let member = members.first else { throw root.mismatch("an object with one member") }
        return (member.name, member.value)
    }
}

extension JSONValue {
    /// Parses `{"private": "…", "shared": null}`; the public database has no tokens.
    func databaseTokens() throws(JSONError) -> [DatabaseScope: String] {
        guard isObject else { throw mismatch("an object") }
        var tokens: [DatabaseScope: String] = [:]
        if let token = self["private"] { tokens[.private] = try token.string() }
        if let token = self["shared"] { tokens[.shared] = try token.string() }
        return tokens
    }
}

extension JSONWriter {
    mutating func databaseTokens(_ tokens: [DatabaseScope: String]) {
        object { writer in
            if let token = tokens[.private] { writer.member("private", token) }
            // A frame has at most 64 KiB. Without the token, the relay tells of everything.
            if let token = tokens[.shared], token.utf8.count <= 48 << 10 { writer.member("shared", token) }
        }
    }
}
