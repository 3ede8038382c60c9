import Dispatch
import RelayCore
import Synchronization

/// Does the slow part of signing in, one person after the other, away from the threads that serve connections.
///
/// To check a password takes a core and 32 MiB for about a quarter of a second, on purpose. So that nobody can fill the
/// machine with it, one is served at a time and a bounded number waits; more are turned away.
final class SignInDesk: Sendable {
    /// How many may wait: with them, the last one's answer comes within some seconds.
    static let longestLine = 24

    private let queue = DispatchQueue(label: "zonecast sign-in")
    private let inLine = Mutex(0)

    /// Runs `work` in turn; it may also read and write the directory.
    func inTurn<Value: Sendable>(
        _ work: @escaping @Sendable () throws(CredentialRefusal) -> Value
    ) async throws(CredentialRefusal) -> Value {
        let mayWait = inLine.withLock { count in
            guard count < Self.longestLine else { return false }
            count += 1
            return true
        }
        guard mayWait else { throw .throttled(retryAfter: .seconds(5)) }
        let result = await withCheckedContinuation { continuation in
            queue.async { [self] in
                let result = Result { () throws(CredentialRefusal) in try work() }
                inLine.withLock { $0 -= 1 }
                continuation.resume(returning: result)
            }
        }
        return try result.get()
    }
}
