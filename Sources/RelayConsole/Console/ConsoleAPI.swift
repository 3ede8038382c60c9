import HTTPTypes
import Records
import RelayAPI
import RelayCore
import RelayStore

/// The API of the console's pages, below `/console/api/`.
enum ConsoleAPI {
    static let routes: [ConsoleRoute] =
        overview + wire + zones + changes + schema + people + keys + devices + pushes + sharing + assets + telemetry
        + quotas + upkeep

    /// Wire operations on the public database as an operator, such as `wire/records/query`.
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
    /// Returns the text after the first occurrence of `start`.
    fileprivate func components(after start: String) -> String {
        firstRange(of: start).map { String(self[$0.upperBound...]) } ?? ""
    }
}
