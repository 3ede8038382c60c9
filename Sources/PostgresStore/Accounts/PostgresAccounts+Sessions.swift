#if Postgres
    package import Records
    package import RelayCore
    import StoreKit

    /// Sessions of signed-in users, token issuers, and limits of users and containers.
    extension PostgresAccounts {
        private static let sessions = """
            SELECT id, secret_hash, account, container, environment, kind, created, used, revoked FROM session
            """

        package func session(_ id: Session.ID) throws(DirectoryError) -> Session? {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.sessions) WHERE id = $1", .bytes(id.bytes)).first.flatMap(Self.session)
            }
        }

        package func sessions(of account: Account.ID) throws(DirectoryError) -> [Session] {
            try read { connection throws(PostgresError) in
                try connection.query(
                    "\(Self.sessions) WHERE account = $1 AND revoked IS NULL ORDER BY created DESC",
                    .int(account.number)
                ).compactMap(Self.session)
            }
        }

        package func noteUse(of sessions: [Session.ID], at now: Timestamp) throws(DirectoryError) {
            guard !sessions.isEmpty else { return }
            // Sorted by number, so that two relays never wait for each other.
            let ids = sessions.sorted { $0.number < $1.number }.map(\.bytes)
            try write { connection in
                var updates = PostgresPipeline()
                for id in ids {
                    updates.add(
                        "UPDATE session SET used = $1 WHERE id = $2 AND (used IS NULL OR used < $1)",
                        .int(now.milliseconds),
                        .bytes(id)
                    )
                }
                try connection.run(updates)
            }
        }

        package func removeSessions(
            _ kind: Session.Kind,
            unusedFor age: Duration,
            at now: Timestamp
        ) throws(DirectoryError) {
            try write { connection in
                try connection.query(
                    """
                    DELETE FROM session WHERE kind = $1 AND coalesce(revoked, used, created)
                    < least($2, (SELECT max(coalesce(used, created)) FROM session)) - $3
                    """,
                    .int(Int64(kind.rawValue)),
                    .int(now.milliseconds),
                    .int(age.wholeMilliseconds)
                )
            }
        }

        package func revokeSessions(
            of account: Account.ID,
            in home: ContainerEnvironment?
        ) throws(DirectoryError) {
            try revoke { connection in try endSessions(of: account, in: home, connection) }
        }

        package func addSession(_ session: Session) throws(DirectoryError) {
            try write { connection in
                try connection.query(
                    """
                    INSERT INTO session (id, secret_hash, account, container, environment, kind, created)
                    VALUES ($1, $2, $3, $4, $5, $6, $7)
                    """,
                    .bytes(session.id.bytes),
                    .bytes(session.secretHash),
                    .int(session.account.number),
                    .text(session.home.container.name),
                    .text(session.home.environment.rawValue),
                    .int(Int64(session.kind.rawValue)),
                    .int(session.created.milliseconds)
                )
            }
        }

        package func revokeSession(_ id: Session.ID) throws(DirectoryError) {
            let now = time.now().milliseconds
            try revoke { connection in
                try connection.query(
                    "UPDATE session SET revoked = $1 WHERE id = $2 AND revoked IS NULL",
                    .int(now),
                    .bytes(id.bytes)
                )
            }
        }

        func endSessions(
            of account: Account.ID,
            in home: ContainerEnvironment?,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            try connection.query(
                """
                UPDATE session SET revoked = $1 WHERE account = $2 AND revoked IS NULL
                AND ($3 IS NULL OR (container = $3 AND environment = $4))
                """,
                .int(time.now().milliseconds),
                .int(account.number),
                .text(home?.container.name),
                .text(home?.environment.rawValue)
            )
        }

        private static func session(_ row: PostgresRow) -> Session? {
            guard let home = row.home(3), let kind = Session.Kind(rawValue: Int(row.int(5))) else { return nil }
            return Session(
                id: Session.ID(row.borrowedBytes(0)),
                secretHash: row.bytes(1),
                account: Account.ID(row.int(2)),
                home: home,
                kind: kind,
                created: row.timestamp(6),
                used: row.optionalTimestamp(7),
                revoked: row.optionalTimestamp(8)
            )
        }

        // MARK: Issuers

        private static let issuers = """
            SELECT container, name, audiences, algorithms, keys_url, keys_file, claims, trusts_contacts, created, revision
            FROM issuer
            """

        package func issuers(of container: ContainerID) throws(DirectoryError) -> [TokenIssuer] {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.issuers) WHERE container = $1 ORDER BY name", .text(container.name))
                    .compactMap(Self.issuer)
            }
        }

        package func issuer(named name: String, of container: ContainerID) throws(DirectoryError) -> TrustedIssuer? {
            try read { connection throws(PostgresError) in
                let row = try connection.query(
                    "\(Self.issuers) WHERE container = $1 AND name = $2",
                    .text(container.name),
                    .looked(name)
                ).first
                guard let row, let issuer = Self.issuer(row) else { return nil }
                return TrustedIssuer(issuer: issuer, revision: row.unsigned(9))
            }
        }

        package func issuers() throws(DirectoryError) -> [TokenIssuer] {
            try read { connection throws(PostgresError) in
                try connection.query("\(Self.issuers) ORDER BY container, name").compactMap(Self.issuer)
            }
        }

        package func putIssuer(_ issuer: TokenIssuer) throws(DirectoryError) {
            let columns = IssuerColumns(issuer)
            try revoke { connection in
                try Self.require(issuer.container, connection)
                // The number of this change, which `revoke` takes at the end: no other transaction can take it before.
                let revocations = try connection.query("SELECT revocations FROM relay FOR UPDATE").first?.int(0) ?? 0
                try connection.query(
                    """
                    INSERT INTO issuer (container, name, audiences, algorithms, keys_url, keys_file, claims,
                    trusts_contacts, created, revision) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
                    ON CONFLICT (container, name) DO UPDATE SET audiences = $3, algorithms = $4, keys_url = $5,
                    keys_file = $6, claims = $7, trusts_contacts = $8, created = $9, revision = $10
                    """,
                    .text(issuer.container.name),
                    .text(issuer.issuer),
                    .text(columns.audiences),
                    .text(columns.algorithms),
                    .text(columns.keysURL),
                    .text(columns.keysFile),
                    .text(columns.claims),
                    .bool(issuer.trustsContacts),
                    .int(issuer.created.milliseconds),
                    .int(revocations + 1)
                )
            }
        }

        package func removeIssuer(_ issuer: String, of container: ContainerID) throws(DirectoryError) {
            let now = time.now().milliseconds
            try revoke { connection in
                let removed = try connection.query(
                    "DELETE FROM issuer WHERE container = $1 AND name = $2",
                    .text(container.name),
                    .looked(issuer)
                ).changed
                guard removed > 0 else { throw DirectoryError.missing("issuer \(issuer)") }
                try connection.query(
                    """
                    UPDATE session SET revoked = $1 WHERE container = $2 AND revoked IS NULL AND account IN (
                        SELECT id FROM account WHERE method = 2 AND starts_with(login, $3 || chr(10))
                    )
                    """,
                    .int(now),
                    .text(container.name),
                    .text(issuer)
                )
            }
        }

        private static func issuer(_ row: PostgresRow) -> TokenIssuer? {
            guard let container = ContainerID(row.text(0)) else { return nil }
            return IssuerColumns(
                audiences: row.text(2),
                algorithms: row.text(3),
                keysURL: row.optionalText(4),
                keysFile: row.optionalText(5),
                claims: row.text(6)
            ).issuer(row.text(1), of: container, trustsContacts: row.bool(7), created: row.timestamp(8))
        }

        // MARK: Quotas

        package func setPrivateQuota(_ bytes: Int64?, of account: Account.ID) throws(DirectoryError) {
            try write { connection in
                if let bytes {
                    try connection.query(
                        """
                        INSERT INTO quota (account, private_bytes) VALUES ($1, $2)
                        ON CONFLICT (account) DO UPDATE SET private_bytes = $2
                        """,
                        .int(account.number),
                        .int(bytes)
                    )
                } else {
                    try connection.query("DELETE FROM quota WHERE account = $1", .int(account.number))
                }
            }
        }

        package func privateQuota(of account: Account.ID) throws(DirectoryError) -> Int64? {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT private_bytes FROM quota WHERE account = $1", .int(account.number))
                    .first?.int(0)
            }
        }

        package func setQuota(_ quota: ContainerQuota, of home: ContainerEnvironment) throws(DirectoryError) {
            let place: [PostgresValue] = [.text(home.container.name), .text(home.environment.rawValue)]
            try write { connection in
                try Self.require(home.container, connection)
                try connection.query(
                    "DELETE FROM container_quota WHERE container = $1 AND environment = $2",
                    place
                )
                guard !quota.isEmpty else { return }
                try connection.query(
                    "INSERT INTO container_quota VALUES ($1, $2, $3, $4, $5, $6)",
                    place + [
                        .int(quota.privateBytes), .int(quota.publicRecords), .int(quota.publicAssets),
                        .int(quota.publicTransfer),
                    ]
                )
            }
        }

        private static let containerQuotas = """
            SELECT container, environment, private_bytes, public_records, public_assets, public_transfer
            FROM container_quota
            """

        package func quota(of home: ContainerEnvironment) throws(DirectoryError) -> ContainerQuota {
            try read { connection throws(PostgresError) in
                try connection.query(
                    "\(Self.containerQuotas) WHERE container = $1 AND environment = $2",
                    .text(home.container.name),
                    .text(home.environment.rawValue)
                ).first.map(Self.quota) ?? ContainerQuota()
            }
        }

        package func ownQuotas() throws(DirectoryError) -> QuotaOverrides {
            try read { connection throws(PostgresError) in
                var queries = PostgresPipeline()
                queries.add(
                    """
                    SELECT u.container, u.environment, u.name, q.private_bytes
                    FROM quota q JOIN container_user u ON u.account = q.account
                    """
                )
                queries.add(Self.containerQuotas)
                let rows = try connection.run(queries)
                var quotas = QuotaOverrides()
                for row in rows[0] {
                    guard let home = row.home(0) else { continue }
                    quotas.users[home, default: [:]][UserID(row.text(2))] = row.int(3)
                }
                for row in rows[1] {
                    if let home = row.home(0) { quotas.containers[home] = Self.quota(row) }
                }
                return quotas
            }
        }

        private static func quota(_ row: PostgresRow) -> ContainerQuota {
            ContainerQuota(
                privateBytes: row.optionalInt(2),
                publicRecords: row.optionalInt(3),
                publicAssets: row.optionalInt(4),
                publicTransfer: row.optionalInt(5)
            )
        }
    }
#endif
