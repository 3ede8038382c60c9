import Synchronization
import ZoneKit

extension TestDevice {
    /// Signs the device's user in as a sign-in page does: from now on the device has a web auth token of the relay's, which can
    /// end.
    ///
    /// A device begins with a name that the relay believes, and needs no sign-in.
    ///
    /// - Throws: `notAuthenticated` for a visitor, and what the relay's storage throws.
    public func signIn() async throws {
        guard let user else { throw CKError(.notAuthenticated, "A visitor has no name to sign in by.") }
        try await signIn(as: user)
    }

    /// Signs somebody on this device in, be it another user than the device's own.
    ///
    /// Engines and mirrors learn of it as they do of a change of the account in an application: engines tell their delegates,
    /// mirrors open that user's files. `user` stays the device's own; `signIn()` brings that one back.
    ///
    /// - Parameter user: Any name; the user is made when first seen.
    /// - Throws: `networkFailure` while the relay does not run, and what its storage throws.
    public func signIn(as user: String) async throws {
        guard let token = try relay.running?.signIn(user, to: identity.container) else {
            throw CKError(.networkFailure, "Nobody can sign in while the relay does not run.")
        }
        try await container.signIn(.webAuthToken(token))
        signedIn.withLock { $0 = user }
    }

    /// Ends the sign-in of whoever is signed in on this device, on all devices where that user has signed in: requests are
    /// refused with `notAuthenticated`, and notice connections end.
    ///
    /// A device's user that never signed in does so first. `signIn()`, or `signIn(as:)`, goes on from there.
    ///
    /// - Throws: As `signIn()`.
    public func expireSignIn() async throws {
        guard let user = signedIn.withLock({ $0 }) ?? user else {
            throw CKError(.notAuthenticated, "A visitor has no sign-in that could end.")
        }
        if connection.credentials.webAuthToken == "dev-\(user)" { try await signIn() }
        try relay.running?.endSignIns(of: user)
    }
}
