package import RelayAPI
package import RelayCore
package import RelayStore

/// Observes everything that passes between a test's relay and its devices, at the relay's end.
///
/// Called in the middle of the world's work, on any thread. Must not block or call the relay.
package protocol Witness: Sendable {
    /// The relay has opened this store in a new run.
    func opened(_ store: SQLiteStore)
    /// A commit is on disk, but its writes are not answered and its notices not sent yet.
    ///
    /// Not called for commits that are not reported; `wrote` is.
    func committed(_ commit: Commit, in store: SQLiteStore)
    /// The queued writes are executed or refused, but not answered yet.
    func wrote(in store: SQLiteStore)
    /// A request has reached the relay.
    func asked(_ request: APIRequest, number: UInt64)
    /// The relay has responded to a request.
    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse)
    /// The relay has sent a frame on a device's notice socket.
    func noticed(_ frame: [UInt8], device: String, socket: ObjectIdentifier)
    /// A device's notice socket has been closed by the relay or by the network.
    func ended(socket: ObjectIdentifier, device: String)
}
