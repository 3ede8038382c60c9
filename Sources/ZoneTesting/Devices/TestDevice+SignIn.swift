import Synchronization
import ZoneKit

extension TestDevice {
    /// Signs the device's user in as a sign-in page does: the device gets a web auth token, which can expire.
    ///
    /// Initially a device uses a development token with the user's name, and needs no sign-in.
    ///
    /// - Throws: `notAuthenticated` for a visitor, or the error of the relay's storage.
    public func signIn() async throws {
        guard let user else { throw CKError(.notAuthenticated, "A visitor has no user name to sign in with.") }
        try await signIn(as: user)
    }

    /// Signs a user in on this device, which may be another one than the device's own.
    ///
    /// Engines and mirrors react as to a change of the account in an application: engines call their delegates, mirrors
    /// open that user's files. `user` does not change; `signIn()` signs that user in again.
    ///
    /// - Parameter user: any name; the user is created on first use.
    /// - Throws: `networkFailure` while the relay is stopped, or the error of its storage.
    public func signIn(as user: String) async throws {
        guard let token = try relay.running?.signIn(user, to: identity.container) else {
            throw CKError(.networkFailure, "The relay must be running to sign in.")
        }
        try await container.signIn(.webAuthToken(token))
        signedIn.withLock { $0 = user }
    }

    /// Ends all sessions of the user who is signed in on this device, on all devices.
    ///
    /// Requests fail with `notAuthenticated`, and notice connections close. If the device's user has never signed in,
    /// signs the user in first. `signIn()` or `signIn(as:)` ends this state.
    ///
    /// - Throws: the errors of `signIn()`.
    public func expireSignIn() async throws {
        guard let user = signedIn.withLock({ $0 }) ?? user else {
            throw CKError(.notAuthenticated, "A visitor has no session to end.")
        }
        if connection.credentials.webAuthToken == "dev-\(user)" { try await signIn() }
        try relay.running?.endSignIns(of: user)
    }
}
