package import Records
import RelayCore

/// Why credentials were refused.
package enum CredentialRefusal: Error, Hashable, Sendable {
    /// Invalid, of another container, or missing; not told apart.
    case failed
    /// They were valid once; the user must sign in again.
    case ended
    /// The token of a socket has expired, but its session is valid: a newer token of it is accepted.
    case expired
    /// The page of a browser is not allowed.
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

    /// Returns the error on the wire; `redirectURL` is the sign-in page.
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
