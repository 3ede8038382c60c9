import Records
import RelayCore
import Wire

/// `users/caller`: the caller's identity, at the top level and as the one user of a list, since clients read either.
///
/// A server key gets the record name it acts under. See Wire.md, "User operations" and "Callers".
func callerIdentity(_ context: RequestContext) throws -> EndpointAnswer {
    guard let user = context.database.caller.user else { throw context.authentication.signInRequired }
    let name = try context.authenticator.profile(of: user, in: context.home)?.shownName ?? PersonName()
    return EndpointAnswer { writer in
        writer.identity(of: user, name)
        writer.key("users")
        writer.array(CollectionOfOne(())) { writer, _ in writer.object { $0.identity(of: user, name) } }
    }
}

/// `users/current`: the same person in the older form.
///
/// See Wire.md, "User operations".
func currentUser(_ context: RequestContext) throws -> EndpointAnswer {
    let user = try context.signedInUser()
    let name = try context.authenticator.profile(of: user, in: context.home)?.shownName ?? PersonName()
    return EndpointAnswer { $0.userDictionary(of: user, name) }
}

/// `users/discover`: people by address, number or record name, in the order asked for.
///
/// Nobody and somebody who does not want to be found are both left out. As a GET it would list the caller's contacts,
/// which this relay keeps none of. See Wire.md, "User operations".
func discoverUsers(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    guard !context.isGet else { return noUsers() }
    let asked = try context.items("lookupInfos", of: context.body).map { try LookupInfo($0) }
    return try find(asked, context) { writer, info, profile in
        writer.identity(of: profile.user, profile.shownName)
        writer.key("lookupInfo")
        writer.object { info.write(to: &$0) }
    }
}

/// `users/lookup/email`, the older form of `users/discover`.
///
/// See Wire.md, "User operations".
func lookupUsersByEmail(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    let asked = try context.items("users", of: context.body).map { user in
        LookupInfo(emailAddress: try user.required("emailAddress").string())
    }
    return try find(asked, context) { writer, info, profile in
        writer.userDictionary(of: profile.user, profile.shownName)
        if let address = info.emailAddress { writer.member("emailAddress", address) }
    }
}

/// `users/lookup/id`, the older form of `users/discover`.
///
/// See Wire.md, "User operations".
func lookupUsersByRecordName(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    let asked = try context.items("users", of: context.body).map { user in
        LookupInfo(userRecordName: try user.required("userRecordName").string())
    }
    return try find(asked, context) { writer, _, profile in
        writer.userDictionary(of: profile.user, profile.shownName)
    }
}

/// `users/lookup/contacts`: this relay keeps no address books, so there are never any.
///
/// See Wire.md, "User operations".
func lookupContacts(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    return noUsers { $0.emptyList("contacts") }
}

/// `users/discoverability`, ours: tells whether the caller may be found by others in this container, and with
/// `{ "isDiscoverable": true }` changes it.
func discoverability(_ context: RequestContext) async throws -> EndpointAnswer {
    let user = try context.signedInUser()
    var isDiscoverable = try context.authenticator.profile(of: user, in: context.home)?.isDiscoverable ?? false
    if !context.isGet, let choice = try context.body["isDiscoverable"]?.bool(), choice != isDiscoverable {
        try await context.authenticator.setDiscoverable(choice, user: user, in: context.home)
        isDiscoverable = choice
    }
    return EndpointAnswer {
        $0.member("userRecordName", user.recordName)
        $0.member("isDiscoverable", isDiscoverable)
    }
}

/// `users/signin`, ours: exchanges an identity token (JWT) of an issuer that the container trusts for a web auth token.
///
/// Takes `{ "identityToken": "…", "keepSignedIn": false }`, or for an account of the relay's own `emailAddress` and
/// `password` instead; the API token says for which container. Whatever is wrong
/// with the token, the answer is the same. See Wire.md, "Signing in".
func signIn(_ context: RequestContext) async throws -> EndpointAnswer {
    if case .serverKey = context.database.caller.identity { throw RelayError.accessDenied }
    let kind: Session.Kind = try context.body["keepSignedIn"]?.bool() ?? false ? .kept : .brief
    if let email = try context.body["emailAddress"]?.string() {
        let password = try context.body.required("password").string()
        let (authenticator, home, address) = (context.authenticator, context.home, context.remoteAddress)
        let (webToken, user) = try await authenticator.passwordDesk.inTurn { () throws(CredentialRefusal) in
            try authenticator.signIn(email: email, password: password, from: address, in: home, kind: kind)
        }
        let expires = authenticator.time.now() + authenticator.settings.lifetime(kind)
        return EndpointAnswer {
            $0.member("ckWebAuthToken", webToken)
            $0.member("userRecordName", user.recordName)
            $0.member("expires", expires.milliseconds)
        }
    }
    let token = try context.body.required("identityToken").string()
    let started = try await context.authenticator.signIn(
        identityToken: token,
        from: context.remoteAddress,
        in: context.home,
        kind: kind
    )
    return EndpointAnswer {
        $0.member("ckWebAuthToken", started.webToken)
        $0.member("userRecordName", started.user.recordName)
        $0.member("expires", started.expires.milliseconds)
    }
}

/// `users/signout`, ours: ends the session that the request comes by, and with it every token of it.
func signOut(_ context: RequestContext) async throws -> EndpointAnswer {
    _ = try context.signedInUser()
    let (authenticator, authentication) = (context.authenticator, context.authentication)
    try await authenticator.writingDesk.inTurn { () throws(CredentialRefusal) in
        try authenticator.signOut(authentication)
    }
    return EndpointAnswer { _ in }
}

private func find(
    _ asked: [LookupInfo],
    _ context: RequestContext,
    _ write: @escaping (inout JSONWriter, LookupInfo, UserProfile) -> Void
) throws -> EndpointAnswer {
    let (lookups, caller) = (asked.map(\.lookup), try context.signedInUser())
    let profiles = try context.authenticator.profiles(matching: lookups.compactMap { $0 }, in: context.home)
    return EndpointAnswer { writer in
        writer.key("users")
        writer.array(Discovery.find(lookups, among: profiles, by: caller)) { writer, found in
            writer.object { write(&$0, asked[found.index], found.profile) }
        }
    }
}

private func noUsers(_ more: (inout JSONWriter) -> Void = { _ in }) -> EndpointAnswer {
    EndpointAnswer {
        $0.emptyList("users")
        more(&$0)
    }
}

extension RequestContext {
    /// The user who asks.
    ///
    /// Throws where nobody is signed in, and for server keys, which have no user context. See Wire.md, "Callers".
    fileprivate func signedInUser() throws -> UserID {
        switch database.caller.identity {
        case .user(let user): return user
        case .anonymous: throw authentication.signInRequired
        case .serverKey, .operator:
            throw RelayError(.accessDenied, "A server-to-server key has no user; of users/ it may call users/caller.")
        }
    }
}
