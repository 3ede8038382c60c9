package import Records
package import RelayCore

/// Exchanges identity tokens of issuers that a container trusts for web auth tokens of the relay's own.
///
/// See Wire.md, "Signing in".
package struct ForeignSignIn: Sendable {
    private let directory: any Directory
    private let keys: IssuerKeys
    private let time: TimeSource
    private let skew: Duration

    package init(directory: any Directory, keys: IssuerKeys, time: TimeSource, skew: Duration) {
        self.directory = directory
        self.keys = keys
        self.time = time
        self.skew = skew
    }

    /// Returns the person that the token identifies.
    ///
    /// - Throws: What is wrong with the token, for the operator only.
    /// - Returns: The person, with the data of the claims.
    package func person(of text: String, in container: ContainerID) async throws(TokenFault) -> ForeignPerson {
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
        let fetched = try await keys.keys(of: trusted)
        do throws(TokenFault) {
            return try token.person(by: trusted.issuer, keys: fetched.keys, at: time.now(), skew: skew)
        } catch {
            // The issuer may have replaced its key since.
            guard error.isOfKeys, let fresh = await keys.keys(of: trusted, newerThan: fetched) else { throw error }
            return try token.person(by: trusted.issuer, keys: fresh.keys, at: time.now(), skew: skew)
        }
    }
}
