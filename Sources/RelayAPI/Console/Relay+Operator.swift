import HTTPTypes
package import Records
package import RelayCore
import Wire

/// Requests of the console on behalf of an operator.
extension Relay {
    /// Responds to a request of an authenticated operator; counts towards no rate and no transfer quota.
    ///
    /// Operators read and write all records of the public database, whatever the schema grants, and nothing else.
    package func respond(to request: APIRequest, as person: Operator) async -> APIResponse {
        await respond(to: request, by: Caller(.operator(person.user), deviceID: "console-\(person.id)"))
    }

    /// Responds to a request on behalf of a user, for an operator who stops a share or deletes an account.
    ///
    /// The response is for internal use only: operators must not see private records.
    package func respond(to request: APIRequest, for user: UserID) async -> APIResponse {
        await respond(to: request, by: Caller(.user(user), deviceID: "console"))
    }

    private func respond(to request: APIRequest, by caller: Caller) async -> APIResponse {
        let id = requestID()
        var response: APIResponse
        do {
            let route = try request.head.reading.route.get()
            let known = Authentication(console: caller, in: route.home)
            let context = try context(request, route, known, id: id)
            let answer = try await route.operation.perform(context)
            response = APIResponse(answer)
        } catch {
            response = failure(error, id: id)
        }
        decorate(&response, request, nil, id: id)
        return response
    }
}

extension Route.Operation {
    /// Whether operators may use it in the public database.
    var isForOperators: Bool {
        switch self {
        case .recordsModify, .recordsLookup, .recordsQuery, .assetsUpload, .assetsRereference, .zonesList: true
        default: false
        }
    }
}

extension Authentication {
    /// Creates the authentication of a console request: without a token, and never cached for a socket.
    fileprivate convenience init(console caller: Caller, in home: ContainerEnvironment) {
        self.init(caller: caller, credential: .serverKey(""), signIn: SignInAddress(home: home))
    }
}
