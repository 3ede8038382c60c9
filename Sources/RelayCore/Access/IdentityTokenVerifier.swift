package import Records

/// Verifies identity tokens of foreign issuers.
///
/// `RelayGateways` implements it with jwt-kit. A relay without it, as in the unit tests of apps, accepts no identity
/// token, so that apps depend on no JWT library.
package protocol IdentityTokenVerifier: Sendable {
    /// Returns the person that the token identifies, with the data of its claims.
    ///
    /// - Throws: What is wrong with the token, for the operator only.
    func person(of text: String, in container: ContainerID) async throws(TokenFault) -> ExternalIdentity
}
