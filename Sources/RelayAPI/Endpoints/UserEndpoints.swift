import Records
import RelayCore
import Wire

/// `users/caller`: the caller's identity, at the top level and as the one user of a list, since clients read either.
///
/// Wire reference 14.
func callerIdentity(_ context: RequestContext) throws -> EndpointAnswer {
    guard let user = context.database.caller.user else { throw context.authentication.signInRequired }
    func identity(_ writer: inout JSONWriter) {
        writer.member("userRecordName", user.recordName)
        writer.key("nameComponents")
        writer.raw(FieldsJSON.empty)
    }
    return EndpointAnswer { writer in
        identity(&writer)
        writer.key("users")
        writer.array(CollectionOfOne(())) { writer, _ in writer.object { identity(&$0) } }
    }
}

/// `users/current`: the same person in the older form.
///
/// Wire reference 14.
func currentUser(_ context: RequestContext) throws -> EndpointAnswer {
    guard case .user(let user) = context.database.caller.identity else { throw RelayError.accessDenied }
    return EndpointAnswer { writer in
        writer.member("userRecordName", user.recordName)
        writer.key("firstName")
        writer.null()
        writer.key("lastName")
        writer.null()
    }
}
