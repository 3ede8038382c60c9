package import RelayAPI
package import RelayCore
package import RelayStore

/// Sees everything that passes between a test's relay and its devices, where the relay sees it.
///
/// Called in the middle of the world's work, on whatever thread does it: must not wait, nor call the relay.
package protocol Witness: Sendable {
    /// The relay has begun a life on this store.
    func opened(_ store: SQLiteStore)
    /// A commit is on disk, and neither answered nor noticed yet; of some that nobody is told of, `wrote` speaks alone.
    func committed(_ commit: Commit, in store: SQLiteStore)
    /// The writes that waited are carried out, or refused; nobody has been answered yet.
    func wrote(in store: SQLiteStore)
    /// A request has reached the relay.
    func asked(_ request: APIRequest, number: UInt64)
    /// The relay has answered it.
    func answered(_ request: APIRequest, number: UInt64, _ answer: APIResponse)
    /// The relay says something on a device's notice socket.
    func noticed(_ frame: [UInt8], device: String, socket: ObjectIdentifier)
    /// A device's notice socket has ended, at the relay's end or by the network.
    func ended(socket: ObjectIdentifier, device: String)
}
