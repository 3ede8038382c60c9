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
        let trusted: [ForeignIssuer]
        do throws(DirectoryError) {
            trusted = try directory.issuers(of: container)
        } catch {
            throw .keys("the relay's directory cannot be read")
        }
        guard let issuer = trusted.first(where: { $0.issuer == token.issuer }) else { throw .unknownIssuer }
        let algorithm = try token.allowedAlgorithm(issuer)
        let keys = try await keys.keys(of: issuer, for: algorithm, keyID: token.keyID)
        return try token.person(by: issuer, keys: keys, at: time.now(), skew: skew)
    }
}
