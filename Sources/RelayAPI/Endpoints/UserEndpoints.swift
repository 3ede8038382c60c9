import Records
import RelayCore
import Wire

extension RouteEntry {
    static let people: [RouteEntry] = [
        .reading(.database("users/caller"), methods: .getOrPost, counted: [], callerIdentity),
        .reading(.database("users/current"), methods: .getOrPost, counted: [], currentUser),
        .reading(.database("users/discover"), methods: .getOrPost, counted: [], discoverUsers),
        .reading(.database("users/lookup/email"), counted: [], lookupUsersByEmail),
        .reading(.database("users/lookup/id"), counted: [], lookupUsersByRecordName),
        .reading(.database("users/lookup/contacts"), methods: .getOrPost, counted: [], lookupContacts),
        .waiting(.database("users/discoverability"), methods: .getOrPost, counted: [], discoverability),
        .waiting(.database("users/signin"), by: .anonymous, counted: [], signIn),
        .waiting(.database("users/signout"), counted: [], signOut),
    ]
}

/// `users/caller`: returns the caller's identity as top-level members and as the only element of `users`.
///
/// Clients read either form. A server-to-server key gets the record name of its user. See Wire.md, "User operations"
/// and "Callers".
private func callerIdentity(_ context: RequestContext) throws -> EndpointAnswer {
    guard let user = context.database.caller.user else { throw context.authentication.signInRequired }
    let name = try context.authenticator.profile(of: user, in: context.home)?.shownName ?? PersonName()
    return EndpointAnswer { writer in
        writer.identity(of: user, name)
        writer.key("users")
        writer.array(CollectionOfOne(())) { writer, _ in writer.object { $0.identity(of: user, name) } }
    }
}

/// `users/current`: returns the caller in the older form.
///
/// See Wire.md, "User operations".
private func currentUser(_ context: RequestContext) throws -> EndpointAnswer {
    let user = try context.signedInUser()
    let name = try context.authenticator.profile(of: user, in: context.home)?.shownName ?? PersonName()
    return EndpointAnswer { $0.userDictionary(of: user, name) }
}

/// `users/discover`: returns users by address, number or record name, in the order of the request.
///
/// Omits unknown users and users who are not discoverable. A GET request would list the caller's contacts, but the
/// relay stores none. See Wire.md, "User operations".
private func discoverUsers(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    guard !context.isGet else { return noUsers() }
    let requested = try context.items("lookupInfos", of: context.body).map { try LookupInfo($0) }
    return try find(requested, context) { writer, info, profile in
        writer.identity(of: profile.user, profile.shownName)
        writer.key("lookupInfo")
        writer.object { info.write(to: &$0) }
    }
}

/// `users/lookup/email`, the older form of `users/discover`.
///
/// See Wire.md, "User operations".
private func lookupUsersByEmail(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    let requested = try context.items("users", of: context.body).map { user in
        LookupInfo(emailAddress: try user.required("emailAddress").string())
    }
    return try find(requested, context) { writer, info, profile in
        writer.userDictionary(of: profile.user, profile.shownName)
        if let address = info.emailAddress { writer.member("emailAddress", address) }
    }
}

/// `users/lookup/id`, the older form of `users/discover`.
///
/// See Wire.md, "User operations".
private func lookupUsersByRecordName(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    let requested = try context.items("users", of: context.body).map { user in
        LookupInfo(userRecordName: try user.required("userRecordName").string())
    }
    return try find(requested, context) { writer, _, profile in
        writer.userDictionary(of: profile.user, profile.shownName)
    }
}

/// `users/lookup/contacts`: always empty, since the relay stores no contacts.
///
/// See Wire.md, "User operations".
private func lookupContacts(_ context: RequestContext) throws -> EndpointAnswer {
    _ = try context.signedInUser()
    return noUsers { $0.emptyList("contacts") }
}

/// `users/discoverability`, a Zonecast extension: returns whether other users of the container can discover the caller.
///
/// With `{ "isDiscoverable": true }` or `false` in the body, changes it.
private func discoverability(_ context: RequestContext) async throws -> EndpointAnswer {
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

/// `users/signin`, a Zonecast extension: exchanges an identity token (JWT) of a trusted issuer for a web auth token.
///
/// Takes `{ "identityToken": "…", "keepSignedIn": false }`, or, for an account of the relay, `emailAddress` and
/// `password`; the API token selects the container. The error is the same whatever is wrong with the token. See
/// Wire.md, "Signing in".
private func signIn(_ context: RequestContext) async throws -> EndpointAnswer {
    if case .serverKey = context.database.caller.identity { throw RelayError.accessDenied }
    let kind: Session.Kind = try context.body["keepSignedIn"]?.bool() ?? false ? .kept : .brief
    if let email = try context.body["emailAddress"]?.string() {
        let password = try context.body.required("password").string()
        let (authenticator, home, address) = (context.authenticator, context.home, context.remoteAddress)
        let (webToken, user) = try await authenticator.passwordQueue.enqueue { () throws(CredentialRefusal) in
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

/// `users/signout`, a Zonecast extension: ends the session of the request and with it all its tokens.
private func signOut(_ context: RequestContext) async throws -> EndpointAnswer {
    _ = try context.signedInUser()
    let (authenticator, authentication) = (context.authenticator, context.authentication)
    try await authenticator.accountQueue.enqueue { () throws(CredentialRefusal) in
        try authenticator.signOut(authentication)
    }
    return EndpointAnswer { _ in }
}

private func find(
    _ requested: [LookupInfo],
    _ context: RequestContext,
    _ write: @escaping (inout JSONWriter, LookupInfo, UserProfile) -> Void
) throws -> EndpointAnswer {
    let (lookups, caller) = (requested.map(\.lookup), try context.signedInUser())
    let profiles = try context.authenticator.profiles(matching: lookups.compactMap { $0 }, in: context.home)
    return EndpointAnswer { writer in
        writer.key("users")
        writer.array(Discovery.find(lookups, among: profiles, by: caller)) { writer, found in
            writer.object { write(&$0, requested[found.index], found.profile) }
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
    /// Returns the signed-in user.
    ///
    /// Throws for anonymous callers and for server-to-server keys, which have no user context. See Wire.md, "Callers".
    fileprivate func signedInUser() throws -> UserID {
        switch database.caller.identity {
        case .user(let user): return user
        case .anonymous: throw authentication.signInRequired
        case .serverKey, .operator:
            throw RelayError(.accessDenied, "A server-to-server key has no user; it may call users/caller only.")
        }
    }
}
