extension ClientRequest {
    /// `users/signin` with an account of the relay.
    package static func signIn(emailAddress: String, password: String) -> [UInt8] {
        body { object in
            object.member("emailAddress", emailAddress)
            object.member("password", password)
            object.member("keepSignedIn", true)
        }
    }

    /// `users/signin` with an identity token of a trusted foreign issuer.
    package static func signIn(identityToken: String) -> [UInt8] {
        body { object in
            object.member("identityToken", identityToken)
            object.member("keepSignedIn", true)
        }
    }
}
