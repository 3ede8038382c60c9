import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore

/// What the console's pages call, below `/console/api/`.
enum ConsoleAPI {
    static let routes: [ConsoleRoute] =
        overview + wire + zones + changes + schema + people + keys + devices + pushes + sharing + assets + telemetry
        + quotas + upkeep

    /// The public database in the words of the wire, as an operator: `wire/records/query` and its like.
    static let wire: [ConsoleRoute] = [
        ConsoleRoute(method: .post, name: "wire/") { call in
            let home = try call.home()
            let operation = call.request.path.components(after: "/console/api/wire/")
            let changes = operation == Route.Operation.recordsModify.rawValue
            if changes { try call.confirmInProduction(home) }
            var request = APIRequest(
                method: .post,
                path: "/database/1/\(home.container.name)/\(home.environment.rawValue)/public/\(operation)",
                headers: call.request.headers,
                body: call.request.body,
                remoteAddress: call.request.remoteAddress
            )
            request.headers[.origin] = nil
            let response = await call.parts.relay.respond(to: request, as: call.person)
            if changes, response.status == .ok {
                try call.note("records.modify", call["subject"].map { String($0.prefix(200)) } ?? "records", in: home)
            }
            return .raw(response)
        }
    ]
}

extension String {
    /// What follows the first place where `start` stands.
    fileprivate func components(after start: String) -> String {
        firstRange(of: start).map { String(self[$0.upperBound...]) } ?? ""
    }
}
