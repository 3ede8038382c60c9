import Dispatch
import RelayCore
import Synchronization

/// Runs the slow parts of sign-in one at a time, outside the threads of the connections.
///
/// Checking a password deliberately takes one core and 32 MiB for about 250 ms. To protect the machine from overload,
/// one check runs at a time and a bounded number waits; further ones are refused.
final class SignInDesk: Sendable {
    /// The maximum number of waiting checks, so that the last one completes within some seconds.
    static let longestLine = 24

    private let queue = DispatchQueue(label: "zonecast sign-in")
    private let inLine = Mutex(0)

    /// Runs `work` after the previous ones; it may also read and write the directory.
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
