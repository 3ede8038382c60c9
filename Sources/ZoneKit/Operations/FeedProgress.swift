import SyncCore

/// Checks that a feed makes progress, to protect an operation from a relay that violates the protocol.
///
/// See Sync.md, "Fetching".
struct FeedProgress {
    private var repeats = 0

    /// Counts consecutive pages that announce more changes but repeat the request's token.
    ///
    /// Throws if there are too many.
    mutating func accept(
        _ token: CKServerChangeToken,
        after old: CKServerChangeToken?,
        moreComing: Bool
    ) throws(CKError) {
        repeats = moreComing && token == old ? repeats + 1 : 0
        guard repeats < FetchRound.maxRepeats else { throw CKError(Trouble(.protocolBroken)) }
    }
}
