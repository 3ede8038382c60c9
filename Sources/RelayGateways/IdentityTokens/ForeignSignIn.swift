package import Records
package import RelayCore

/// Verifies identity tokens of the issuers that a container trusts.
///
/// See Wire.md, "Signing in".
package struct ForeignSignIn: IdentityTokenVerifier {
    /// The permitted difference between an issuer's clock and the relay's, unless the operator sets another.
    package static let defaultSkew = Duration.seconds(60)

    private let directory: any Directory
    private let keys: IssuerKeys
    private let time: TimeSource
    private let skew: Duration

    package init(
        directory: any Directory,
        keys: IssuerKeys,
        time: TimeSource,
        skew: Duration = ForeignSignIn.defaultSkew
    ) {
        self.directory = directory
        self.keys = keys
        self.time = time
        self.skew = skew
    }

    package func person(of text: String, in container: ContainerID) async throws(TokenFault) -> ExternalIdentity {
        let token = try IdentityToken(text)
        let found: TrustedIssuer?
        do throws(DirectoryError) {
            found = try directory.issuer(named: token.issuer, of: container)
        } catch {
            throw .keys("the relay's directory cannot be read")
        }
        guard let trusted = found else { throw .unknownIssuer }
        // Before any key is fetched.
        _ = try token.allowedAlgorithm(trusted.issuer)
        return try await claims(of: token, by: trusted).person(trusted.issuer, at: time.now(), skew: skew)
    }

    private func claims(
        of token: IdentityToken,
        by trusted: TrustedIssuer
    ) async throws(TokenFault) -> IdentityClaims {
        let fetched = try await keys.keys(of: trusted)
        do throws(TokenFault) {
            return try await token.claims(by: trusted.issuer, keys: fetched.keys)
        } catch {
            // The issuer may have replaced its key since.
            guard error.isOfKeys, let fresh = await keys.keys(of: trusted, newerThan: fetched) else { throw error }
            return try await token.claims(by: trusted.issuer, keys: fresh.keys)
        }
    }
}
