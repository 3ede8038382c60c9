import SyncCore

/// Whether a feed that an operation follows moves on: for the relay that contradicts itself.
///
/// See Sync.md, "Fetching".
struct FeedProgress {
    private var repeats = 0

    /// Counts pages that promise more under the token they were asked by; too many in a row are an error.
    mutating func accept(
        _ token: CKServerChangeToken,
        after old: CKServerChangeToken?,
        moreComing: Bool
    ) throws(CKError) {
        repeats = moreComing && token == old ? repeats + 1 : 0
        guard repeats < FetchRound.maxRepeats else { throw CKError(Trouble(.protocolBroken)) }
    }
}
