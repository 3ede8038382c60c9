import ZoneKit

extension TestDevice {
    /// Signs the device's user in as a sign-in page does: from now on the device has a web auth token of the relay's, which can
    /// end.
    ///
    /// A device begins with a name that the relay believes, and needs no sign-in.
    ///
    /// - Throws: `notAuthenticated` for a visitor, and what the relay's storage throws.
    public func signIn() async throws {
        guard let user, let token = try relay.running?.signIn(user, to: identity.container) else {
            throw CKError(.notAuthenticated, "Only a user's device can sign in, and only while the relay runs.")
        }
        try await container.signIn(.webAuthToken(token))
    }

    /// Ends the sign-in of this device's user, on all devices that have signed in: requests are refused with
    /// `notAuthenticated`, and notice connections end.
    ///
    /// One that never signed in does so first. `signIn()` goes on from there.
    ///
    /// - Throws: As `signIn()`.
    public func expireSignIn() async throws {
        guard let user else { throw CKError(.notAuthenticated, "A visitor has no sign-in that could end.") }
        if connection.credentials.webAuthToken == "dev-\(user)" { try await signIn() }
        try relay.running?.endSignIns(of: user)
    }
}
