#if Postgres
    package import Records
    package import RelayCore
    import RelaySystem
    import StoreKit

    /// API tokens, server keys and management tokens.
    extension PostgresAccounts {
        // MARK: API tokens

        private static let apiTokens = """
            SELECT id, container, environment, name, notes, callback, origins, created, revoked FROM api_token
            """

        package func apiToken(hash: [UInt8]) throws(DirectoryError) -> APIToken? {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.apiTokens) WHERE hash = $1", .bytes(hash)).first.flatMap(Self.apiToken)
            }
        }

        package func apiToken(id: String) throws(DirectoryError) -> APIToken? {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.apiTokens) WHERE id = $1", .looked(id)).first.flatMap(Self.apiToken)
            }
        }

        package func apiTokens() throws(DirectoryError) -> [APIToken] {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.apiTokens) ORDER BY created, id").compactMap(Self.apiToken)
            }
        }

        package func addAPIToken(
            in home: ContainerEnvironment,
            name: String,
            notes: String,
            callbackURL: String?,
            allowedOrigins: [String]
        ) throws(DirectoryError) -> (text: String, token: APIToken) {
            let (text, token) = credentials.apiToken(
                in: home,
                name: name,
                notes: notes,
                callbackURL: callbackURL,
                allowedOrigins: allowedOrigins
            )
            try write { connection in
                try Self.require(home.container, connection)
                try connection.query(
                    """
                    INSERT INTO api_token (hash, id, container, environment, name, notes, callback, origins, created)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
                    """,
                    .bytes(CredentialSource.fingerprint(of: text)),
                    .text(token.id),
                    .text(home.container.name),
                    .text(home.environment.rawValue),
                    .text(name),
                    .text(notes),
                    .text(callbackURL),
                    .text(token.allowedOrigins.joined(separator: "\n")),
                    .int(token.created.milliseconds)
                )
            }
            return (text, token)
        }

        package func revokeAPIToken(_ name: String) throws(DirectoryError) {
            let now = time.now().milliseconds
            try revoke { connection in
                let changed = try connection.query(
                    "UPDATE api_token SET revoked = coalesce(revoked, $1) WHERE id = $2 OR hash = $3",
                    .int(now),
                    .looked(name),
                    .bytes(CredentialSource.fingerprint(of: name))
                ).changed
                guard changed > 0 else { throw DirectoryError.missing("such API token") }
            }
        }

        package func removeAPIToken(_ id: String) throws(DirectoryError) {
            try revoke { connection in try connection.query("DELETE FROM api_token WHERE id = $1", .looked(id)) }
        }

        private static func apiToken(_ row: PostgresRow) -> APIToken? {
            row.home(1).map { home in
                APIToken(
                    id: row.text(0),
                    home: home,
                    name: row.text(3),
                    notes: row.text(4),
                    callbackURL: row.optionalText(5),
                    allowedOrigins: APIToken.canonicalOrigins(row.text(6).split(separator: "\n").map(String.init)),
                    created: row.timestamp(7),
                    revoked: row.optionalTimestamp(8)
                )
            }
        }

        // MARK: Server keys

        private static let serverKeys = """
            SELECT id, container, environment, name, public_key, user_name, created, revoked FROM server_key
            """

        package func serverKey(_ id: String) throws(DirectoryError) -> ServerKey? {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.serverKeys) WHERE id = $1", .looked(id)).first.flatMap(Self.serverKey)
            }
        }

        package func serverKeys() throws(DirectoryError) -> [ServerKey] {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.serverKeys) ORDER BY created, id").compactMap(Self.serverKey)
            }
        }

        package func addServerKey(
            in home: ContainerEnvironment,
            name: String,
            publicKeyPEM: String,
            user: UserID?
        ) throws(DirectoryError) -> ServerKey {
            let key = try credentials.serverKey(in: home, name: name, publicKeyPEM: publicKeyPEM, user: user)
            try write { connection in
                try Self.require(home.container, connection)
                try connection.query(
                    """
                    INSERT INTO server_key (id, container, environment, name, public_key, user_name, created)
                    VALUES ($1, $2, $3, $4, $5, $6, $7)
                    """,
                    .text(key.id),
                    .text(home.container.name),
                    .text(home.environment.rawValue),
                    .text(name),
                    .text(key.publicKeyPEM),
                    .text(key.user.recordName),
                    .int(key.created.milliseconds)
                )
            }
            return key
        }

        package func revokeServerKey(_ id: String) throws(DirectoryError) {
            let now = time.now().milliseconds
            try revoke { connection in
                let changed = try connection.query(
                    "UPDATE server_key SET revoked = coalesce(revoked, $1) WHERE id = $2",
                    .int(now),
                    .looked(id)
                ).changed
                guard changed > 0 else { throw DirectoryError.missing("server key \(id)") }
            }
        }

        private static func serverKey(_ row: PostgresRow) -> ServerKey? {
            row.home(1).map { home in
                ServerKey(
                    id: row.text(0),
                    home: home,
                    name: row.text(3),
                    publicKeyPEM: row.text(4),
                    user: UserID(row.text(5)),
                    created: row.timestamp(6),
                    revoked: row.optionalTimestamp(7)
                )
            }
        }

        // MARK: Management tokens

        private static let managementTokens = """
            SELECT id, container, name, created, expires, revoked, used FROM management_token
            """

        package func addManagementToken(
            for container: ContainerID,
            name: String,
            expires: Timestamp?
        ) throws(DirectoryError) -> (text: String, token: ManagementToken) {
            let (text, token) = credentials.managementToken(for: container, name: name, expires: expires)
            try write { connection in
                try Self.require(container, connection)
                try connection.query(
                    """
                    INSERT INTO management_token (hash, id, container, name, created, expires)
                    VALUES ($1, $2, $3, $4, $5, $6)
                    """,
                    .bytes(CredentialSource.fingerprint(of: text)),
                    .text(token.id),
                    .text(container.name),
                    .text(name),
                    .int(token.created.milliseconds),
                    .int(expires?.milliseconds)
                )
            }
            return (text, token)
        }

        package func managementTokens() throws(DirectoryError) -> [ManagementToken] {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.managementTokens) ORDER BY created, id").compactMap(Self.managementToken)
            }
        }

        package func managementToken(_ text: String) throws(DirectoryError) -> ManagementToken? {
            let hash = CredentialSource.fingerprint(of: text)
            let found = try read { connection throws(PostgresError) in
                try connection.query("\(Self.managementTokens) WHERE hash = $1", .bytes(hash))
                    .first.flatMap(Self.managementToken)
            }
            let now = time.now()
            guard let found, found.isGood(at: now) else { return nil }
            if found.used.map({ now > $0 + DirectoryRules.useInterval }) ?? true {
                try write { connection in
                    try connection.query(
                        "UPDATE management_token SET used = $1 WHERE hash = $2",
                        .int(now.milliseconds),
                        .bytes(hash)
                    )
                }
            }
            return found
        }

        package func revokeManagementToken(_ id: String) throws(DirectoryError) {
            let now = time.now().milliseconds
            try write { connection in
                let changed = try connection.query(
                    "UPDATE management_token SET revoked = coalesce(revoked, $1) WHERE id = $2",
                    .int(now),
                    .looked(id)
                ).changed
                guard changed > 0 else { throw DirectoryError.missing("management token \(id)") }
            }
        }

        private static func managementToken(_ row: PostgresRow) -> ManagementToken? {
            ContainerID(row.text(1)).map { container in
                ManagementToken(
                    id: row.text(0),
                    container: container,
                    name: row.text(2),
                    created: row.timestamp(3),
                    expires: row.optionalTimestamp(4),
                    revoked: row.optionalTimestamp(5),
                    used: row.optionalTimestamp(6)
                )
            }
        }
    }
#endif
