#if Postgres
    import CPostgres
    import Foundation

    /// Where a database is and how to sign in.
    ///
    /// The password is in no description, error or mirror of the address.
    package struct PostgresAddress: Sendable {
        /// libpq's parameters by keyword, the password included.
        let parameters: [String: String]

        /// The environment variable with the password.
        package static let passwordVariable = "ZONECAST_STORE_PASSWORD"

        /// Parses a URL: `postgres://USER:PASSWORD@HOST1:PORT1,HOST2:PORT2/DATABASE?sslmode=verify-full`.
        ///
        /// All of libpq's parameters may follow the question mark. Without `target_session_attrs`, only a primary is used.
        ///
        /// - Parameters:
        ///   - url: the URL. Its password comes before all others.
        ///   - passwordFile: a file with the password; a newline at its end is ignored.
        ///   - environment: the process's environment, which may have the password.
        /// - Throws: `badAddress`.
        package init(
            _ url: String,
            passwordFile: String? = nil,
            environment: [String: String] = [:]
        ) throws(PostgresError) {
            guard url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") else {
                throw PostgresError(.badAddress, "The database's URL does not begin with postgres://.")
            }
            // The parser's own messages quote parts of the URL, which may be of the password.
            var message: UnsafeMutablePointer<CChar>?
            guard let options = PQconninfoParse(url, &message) else {
                PQfreemem(message)
                throw PostgresError(.badAddress, "The database's URL is malformed.")
            }
            defer { PQconninfoFree(options) }
            var parameters = Self.defaults
            var next = options
            while let keyword = next.pointee.keyword {
                if let value = next.pointee.val { parameters[String(cString: keyword)] = String(cString: value) }
                next += 1
            }
            if parameters["password"] == nil, let passwordFile {
                guard let text = try? String(contentsOfFile: passwordFile, encoding: .utf8) else {
                    throw PostgresError(.badAddress, "The password file \(passwordFile) cannot be read.")
                }
                parameters["password"] = text.hasSuffix("\n") ? String(text.dropLast()) : text
            }
            if parameters["password"] == nil { parameters["password"] = environment[Self.passwordVariable] }
            self.parameters = parameters
        }

        /// Returns the address of another database of the same cluster.
        ///
        /// Without a password of its own, it has the same one.
        package func ofShard(_ url: String) throws(PostgresError) -> PostgresAddress {
            try PostgresAddress(url, environment: parameters["password"].map { [Self.passwordVariable: $0] } ?? [:])
        }

        private static let defaults = [
            "target_session_attrs": "primary",
            "application_name": "zonecast",
            "client_encoding": "UTF8",
            "connect_timeout": "3",
            // A server that vanished without a word is noticed after about 20 s.
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "2",
            "tcp_user_timeout": "20000",
        ]

        /// Removes the password from a text of libpq.
        func redacted(_ text: String) -> String {
            guard let password = parameters["password"], !password.isEmpty else { return text }
            return text.replacingOccurrences(of: password, with: "***")
        }

        private init(parameters: [String: String]) { self.parameters = parameters }

        /// The same for each of the servers alone.
        var each: [PostgresAddress] {
            let hosts = max(list("host").count, list("hostaddr").count)
            guard hosts > 1 else { return [self] }
            return (0..<hosts).map { place in
                var parameters = parameters
                for keyword in ["host", "hostaddr", "port"] {
                    let items = list(keyword)
                    // One port is for all hosts.
                    if items.count > 1 { parameters[keyword] = place < items.count ? items[place] : nil }
                }
                return PostgresAddress(parameters: parameters)
            }
        }

        /// The same for servers in this role only: `primary`, `standby` or another value of `target_session_attrs`.
        func accepting(_ role: String) -> PostgresAddress {
            PostgresAddress(parameters: parameters.merging(["target_session_attrs": role]) { $1 })
        }

        private func list(_ keyword: String) -> [String] {
            parameters[keyword]?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? []
        }

        /// The servers, as `HOST:PORT`.
        package var servers: [String] {
            let (hosts, ports) = (list("host"), list("port"))
            guard !hosts.isEmpty else { return ["the local socket"] }
            return hosts.enumerated().map { place, host in
                let port = ports.count == 1 ? ports[0] : place < ports.count ? ports[place] : ""
                return port.isEmpty ? host : "\(host):\(port)"
            }
        }

        package var database: String { parameters["dbname"] ?? parameters["user"] ?? "" }
    }

    extension PostgresAddress: CustomStringConvertible, CustomReflectable {
        package var description: String { "\(database) at \(servers.joined(separator: ", "))" }

        package var customMirror: Mirror { Mirror(self, children: [:]) }
    }
#endif
