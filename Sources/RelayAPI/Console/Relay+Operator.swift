import HTTPTypes
package import Records
package import RelayCore
import Wire

/// What whoever runs the relay does in a container's public database, in the words of the wire.
extension Relay {
    /// Answers an operation as that of an operator, who has shown to be one; counts against no rate and no transfer.
    ///
    /// They read and write all records of the public database, whatever the schema grants, and nothing elsewhere.
    package func respond(to request: APIRequest, as person: Operator) async -> APIResponse {
        await respond(to: request, by: Caller(.operator(person.user), deviceID: "console-\(person.id)"))
    }

    /// Answers an operation as one of the user's own, for an operator who ends a share or an account.
    ///
    /// What it answers is for the relay alone: no operator sees private contents.
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
    /// Whether it is about records and nobody in particular.
    var isForOperators: Bool {
        switch self {
        case .recordsModify, .recordsLookup, .recordsQuery, .assetsUpload, .assetsRereference, .zonesList: true
        default: false
        }
    }
}

extension Authentication {
    /// Of what the console does: no token, and no socket that could outlive it.
    fileprivate convenience init(console caller: Caller, in home: ContainerEnvironment) {
        self.init(caller: caller, credential: .serverKey(""), signIn: SignInAddress(home: home))
    }
}
