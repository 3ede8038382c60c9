import Logging
import NIOCore
import RelayAPI
import RelayCore

/// What stands behind the gate, the same for every connection of a server.
struct GateDoor: Sendable {
    let limits: ServerLimits
    let rules: RequestRules
    let counts: ConnectionCounts
    let isReady: @Sendable () -> Bool
    /// Who takes the body of this request while it arrives; `nil` for bodies that are held.
    let intake: @Sendable (APIRequest) -> (any BodyIntake)?
    let respond: RelayServer.Responder
    let answer: RelayServer.DirectResponder
    /// `nil` where no notices are served.
    let notices: NoticeService?
    /// How many control frames a socket of the test door may send.
    let socketFrames: RateLimit
    /// The time by which deadlines are kept.
    let now: @Sendable () -> NIODeadline
    /// Time since some fixed moment, by the same clock.
    let uptime: @Sendable () -> Duration
    /// Whole seconds since 1970-01-01 UTC; only for the `Date` field.
    let wallClock: @Sendable () -> Int64
    /// A new identifier for an answer of the gate's own.
    let requestID: @Sendable () -> String
    /// Hears of what the gate turns away.
    let onRefusal: @Sendable (RefusedRequest) -> Void
    let logger: Logger
}
