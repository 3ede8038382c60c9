import Wire

/// One operation of the wire as it is described: a row of the table.
package struct OpenAPIOperation: Sendable {
    package enum Method: String, Sendable { case get, post }

    /// Which kinds of callers may use it.
    enum Callers: Sendable {
        /// A signed-in user, or in the public database a server-to-server key.
        case usersAndKeys
        /// A signed-in user alone.
        case users
        /// As `usersAndKeys`, and in the public database everybody with an API token.
        case everybody
        /// Whoever has an API token.
        case anybody
    }

    /// Where it is found.
    package struct Path: Sendable {
        package var text: String
        var parameters: [String]
    }

    /// Its `Route.Operation`, by raw value.
    package var route: String
    var id: String
    var tag: String
    var summary: String
    var details = ""
    package var methods: [Method] = [.post]
    var databases: Databases = .all
    var callers: Callers = .usersAndKeys
    /// Schemas by name; no request: no body.
    var request: String?
    package var response: String

    /// In which databases it is called.
    enum Databases: Sendable {
        case all
        case privateAndShared
        case publicOnly
        /// None: the path is under `/device/1/`.
        case device

        var parameter: String? {
            switch self {
            case .all: "database"
            case .privateAndShared: "databaseWithChanges"
            case .publicOnly, .device: nil
            }
        }
    }

    package var paths: [Path] {
        let home = ["container", "environment"]
        switch databases {
        case .device:
            return [Path(text: "/device/1/{container}/{environment}/\(route)", parameters: home)]
        case .publicOnly:
            return [Path(text: "/database/1/{container}/{environment}/public/\(route)", parameters: home)]
        case .all, .privateAndShared:
            let names = home + [databases.parameter].compactMap { $0 }
            return [Path(text: "/database/1/{container}/{environment}/{database}/\(route)", parameters: names)]
        }
    }

    // MARK: Writing

    func write(_ method: Method, _ path: Path, to operation: inout JSONWriter) {
        // Of two methods the documented one has the plain name.
        operation.member("operationId", method == methods.first ? id : id + (method == .get ? "ByGET" : "ByPOST"))
        operation.member("summary", summary)
        if !details.isEmpty { operation.member("description", details) }
        operation.key("tags")
        operation.array([tag]) { $0.string($1) }
        operation.key("security")
        writeSecurity(to: &operation)
        operation.key("parameters")
        operation.array(["deviceID"]) { $0.reference("parameters", $1) }
        if method == .post, let request {
            operation.key("requestBody")
            operation.object { body in
                body.member("required", OpenAPISchemas.needsMembers(request))
                body.content(request)
            }
        }
        operation.key("responses")
        operation.object { writeResponses(to: &$0) }
    }

    private func writeSecurity(to operation: inout JSONWriter) {
        let user = ["apiToken", "webAuthToken"]
        let key = ["serverKeyID", "serverKeyDate", "serverKeySignature"]
        let alternatives =
            switch callers {
            case .users: [user]
            case .usersAndKeys: databases == .privateAndShared ? [user] : [user, key]
            case .everybody: [user, ["apiToken"], key]
            case .anybody: [["apiToken"]]
            }
        operation.array(alternatives) { list, schemes in
            list.object { alternative in
                for scheme in schemes {
                    alternative.key(scheme)
                    alternative.array(EmptyCollection<Never>()) { _, _ in }
                }
            }
        }
    }

    private func writeResponses(to responses: inout JSONWriter) {
        responses.key("200")
        responses.object { answer in
            answer.member("description", "Done; items that failed say so in their places.")
            answer.key("headers")
            answer.object { headers in
                headers.key("X-Apple-Request-UUID")
                headers.reference("headers", "RequestUUID")
                headers.key("X-Apple-CloudKit-Web-Auth-Token")
                headers.reference("headers", "WebAuthToken")
            }
            answer.content(response)
        }
        for (status, name) in OpenAPIText.refusalsByStatus {
            responses.key(status)
            guard status == "400", route == "records/modify" else {
                responses.reference("responses", name)
                continue
            }
            responses.object { answer in
                answer.member("description", "The request cannot be carried out, or an atomic one failed as a whole.")
                answer.content("AtomicFailure")
            }
        }
    }
}
