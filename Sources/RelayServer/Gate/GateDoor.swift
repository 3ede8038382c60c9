import Logging
import NIOCore
import RelayAPI
import RelayCore

/// The services behind the HTTP layer, the same for every connection of a server.
struct GateDoor: Sendable {
    let limits: ServerLimits
    let rules: RequestRules
    let counts: ConnectionCounts
    let isReady: @Sendable () -> Bool
    /// Returns the handler of an upload's body; `nil` for bodies that are buffered.
    let intake: @Sendable (APIRequest) -> (any BodyIntake)?
    let respond: RelayServer.Responder
    let answer: RelayServer.DirectResponder
    /// `nil` if notices are not served.
    let notices: NoticeService?
    /// The rate limit of control frames on an echo socket.
    let socketFrames: RateLimit
    /// The time for deadlines.
    let now: @Sendable () -> NIODeadline
    /// The time since a fixed moment, by the same clock.
    let uptime: @Sendable () -> Duration
    /// Whole seconds since 1970-01-01 UTC; only for the `Date` field.
    let wallClock: @Sendable () -> Int64
    /// Returns a new request ID for a response of the HTTP layer.
    let requestID: @Sendable () -> String
    /// Called for each rejected request.
    let onRefusal: @Sendable (RefusedRequest) -> Void
    let logger: Logger
}
