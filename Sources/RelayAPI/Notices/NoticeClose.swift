/// Why a notice connection is closed: a close code and a short text.
///
/// See Notices.md, "Close codes".
package struct NoticeClose: Error, Hashable, Sendable {
    package var code: UInt16
    /// At most 123 bytes, for readers of a log; contains nothing that the client sent.
    package var reason: String
    /// The content of a `goodbye` frame sent before the close, if the relay closes the connection on its own
    /// initiative.
    package var goodbye: Goodbye?

    package struct Goodbye: Hashable, Sendable {
        /// In seconds.
        package var retryAfter: Double?

        package init(retryAfter: Double? = nil) { self.retryAfter = retryAfter }
    }

    package init(code: UInt16, reason: String, goodbye: Goodbye? = nil) {
        self.code = code
        self.reason = reason
        self.goodbye = goodbye
    }

    package static let stopping = NoticeClose(code: 1001, reason: "relay stopping", goodbye: Goodbye(retryAfter: 2))
    package static let noPong = NoticeClose(code: 1001, reason: "no pong")
    package static let binary = NoticeClose(code: 1003, reason: "text frames only")
    package static let tooManyFrames = NoticeClose(code: 1008, reason: "too many frames")
    package static let tooSlow = NoticeClose(code: 1013, reason: "notices are not being read")
    package static let tryLater = NoticeClose(code: 1013, reason: "try again later", goodbye: Goodbye(retryAfter: 5))
    package static let badHello = NoticeClose(code: 4400, reason: "bad hello")
    package static let badFrame = NoticeClose(code: 4400, reason: "not a frame of this protocol")
    package static let notAuthenticated = NoticeClose(code: 4401, reason: "not authenticated")
    package static let revoked = NoticeClose(code: 4401, reason: "signed out", goodbye: Goodbye())
    package static let originRefused = NoticeClose(code: 4403, reason: "origin refused")
    package static let containerRefused = NoticeClose(code: 4403, reason: "container refused")
    package static let noHello = NoticeClose(code: 4408, reason: "no hello in time")
    package static let replaced = NoticeClose(code: 4409, reason: "replaced by the same device", goodbye: Goodbye())
    package static let tokenExpired = NoticeClose(
        code: 4450,
        reason: "web auth token expired",
        goodbye: Goodbye(retryAfter: 0)
    )
    package static let tooManyConnections = NoticeClose(
        code: 4451,
        reason: "too many connections of this user",
        goodbye: Goodbye(retryAfter: 30)
    )
}
