package import Records
import RelayCore

/// Why credentials did not let somebody in.
package enum CredentialRefusal: Error, Hashable, Sendable {
    /// Wrong, foreign, or not there: never says which.
    case failed
    /// They were good once; the person must sign in again.
    case ended
    /// A socket's token whose time is over, of a sign-in that stands: another token of it is as good as ever.
    case expired
    /// A page in a browser that may not call.
    case foreignOrigin
    /// Too many requests or wrong passwords.
    case throttled(retryAfter: Duration)
    /// The request itself is malformed; the text says how.
    case malformed(String)
    /// The directory could not be read.
    ///
    /// The text is for the log.
    case unavailable(String)

    init(_ error: DirectoryError) {
        switch error {
        case .unavailable(let text): self = .unavailable(text)
        case .damaged(let file): self = .unavailable("\(file) is damaged")
        case .exists, .missing, .invalid: self = .failed
        }
    }

    /// As the wire says it; `redirectURL` is where to sign in again.
    package func relayError(redirectURL: String?) -> RelayError {
        switch self {
        case .failed:
            RelayError(.authenticationFailed, "Authentication failed")
        case .ended, .expired:
            RelayError(.authenticationRequired, "request needs authorization", redirectURL: redirectURL)
        case .foreignOrigin:
            RelayError(
                .accessDenied,
                "Pages of this origin may not use this API token. Add it with: zonecast token create --allowed-origin"
            )
        case .throttled(let wait):
            RelayError(.throttled, "Too many requests. Wait before the next one.", retryAfter: wait)
        case .malformed(let reason):
            RelayError(.badRequest, reason)
        case .unavailable:
            RelayError(.tryAgainLater, "The relay cannot check credentials right now.", retryAfter: .seconds(1))
        }
    }
}
