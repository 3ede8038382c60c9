/// The attempts to send one write request without an answer, and what to do after its next failure.
///
/// See Sync.md, "Lost answers".
package struct WriteAttempts: Hashable, Sendable {
    /// What to do about a request that failed as a whole.
    package enum Decision: Hashable, Sendable {
        /// The relay may have executed it: send it again unchanged before anything else of its zone.
        case repeatUnchanged
        /// It was too large: send its changes in smaller requests at once.
        case split
        /// It was not executed: send its changes later.
        case later
        /// The failure says nothing about the changes, which stay pending.
        case keep
        /// The relay refused each of its changes for the same reason.
        case refuse
    }

    /// The maximum number of attempts: a request that never gets through must not block the others for good.
    private static let limit = 10

    package private(set) var unanswered: Int

    package init(unanswered: Int = 0) { self.unanswered = unanswered }

    /// Counts a failure.
    ///
    /// - Parameters:
    ///   - failure: The failure.
    ///   - isOpen: Whether the relay may have executed this attempt.
    ///   - isOfService: Whether the connection or the relay is broken.
    ///   - count: The number of the request's changes.
    /// - Returns: What to do about the request.
    package mutating func failed(
        _ failure: SyncFailure,
        isOpen: Bool,
        isOfService: Bool,
        count: Int
    ) -> Decision {
        if isOpen, failure.kind == .busy {
            // While the relay is down, a proxy answers in its place; the number of such answers says nothing about this
            // request.
            unanswered = max(unanswered, 1)
            return .repeatUnchanged
        }
        if isOpen || (unanswered > 0 && isOfService) {
            unanswered += 1
            if unanswered < Self.limit { return .repeatUnchanged }
        } else if unanswered > 0, failure.isRetriedAutomatically {
            // This attempt was not executed; whether an earlier one was is still unknown.
            return .repeatUnchanged
        }
        if failure.kind == .limitExceeded, count > 1 { return .split }
        if failure.isRetriedAutomatically { return .later }
        return isOfService ? .keep : .refuse
    }
}
