#if Postgres
    import Records
    package import RelayCore
    import RelaySystem
    import StoreKit

    /// Operators, who may use the console, with their passkeys, and the log of what they do.
    extension PostgresAccounts {
        /// The columns of `operator(_:)`, and the five of the password.
        private static let columns =
            "o.id, o.name, o.user_name, o.created, o.salt, o.hash, o.rounds, o.block_size, o.parallelism"
        private static let password: Int32 = 4

        package func operators() throws(DirectoryError) -> [Operator] {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT \(Self.columns) FROM operator o ORDER BY o.name").map(Self.operator)
            }
        }

        private static func row(
            named name: String,
            _ connection: PostgresConnection
        ) throws(PostgresError) -> PostgresRow? {
            try connection.query("SELECT \(columns) FROM operator o WHERE o.name = $1", .looked(name)).first
        }

        private static func `operator`(_ row: PostgresRow) -> Operator {
            Operator(id: row.int(0), name: row.text(1), user: UserID(row.text(2)), created: row.timestamp(3))
        }

        // MARK: One-time links

        package func makeOperatorLink(for name: String?) throws(DirectoryError) -> String {
            let code = OperatorLink.code(credentials.random.bytes(12))
            let now = time.now()
            let wanted = name.flatMap(Operator.canonicalName)
            try write { connection in
                if let wanted, try Self.row(named: wanted, connection) == nil {
                    throw DirectoryError.missing("operator \(wanted)")
                }
                try connection.query("DELETE FROM operator_link WHERE expires < $1", .int(now.milliseconds))
                try connection.query(
                    "INSERT INTO operator_link (hash, operator, expires) VALUES ($1, $2, $3)",
                    .bytes(CredentialSource.fingerprint(of: code)),
                    .text(wanted),
                    .int((now + OperatorLink.lifetime).milliseconds)
                )
            }
            return code
        }

        package func operatorLink(_ code: String) throws(DirectoryError) -> (isGood: Bool, name: String?) {
            let now = time.now().milliseconds
            return try read { connection throws(PostgresError) in
                let row = try connection.query(
                    "SELECT operator FROM operator_link WHERE hash = $1 AND expires >= $2",
                    .bytes(CredentialSource.fingerprint(of: OperatorLink.canonical(code))),
                    .int(now)
                ).first
                return (row != nil, row?.optionalText(0))
            }
        }

        package func useOperatorLink(
            _ code: String,
            name: String,
            password: String
        ) throws(DirectoryError) -> Operator {
            let name = try checkedOperatorName(name, link: code, password: password)
            let hash = try credentials.hashed(password)
            let now = time.now().milliseconds
            let user = credentials.userName()
            return try revoke { connection in
                // Another use of the link waits here, and then finds none. A mistake below brings it back.
                let link = try connection.query(
                    "DELETE FROM operator_link WHERE hash = $1 AND expires >= $2 RETURNING operator",
                    .bytes(CredentialSource.fingerprint(of: OperatorLink.canonical(code))),
                    .int(now)
                ).first
                guard let link else { throw DirectoryError.missing("link with this code") }
                let known = try Self.row(named: name, connection)
                if let wanted = link.optionalText(0) {
                    guard wanted == name else { throw DirectoryError.invalid("This link is for \(wanted).") }
                } else if known != nil {
                    throw DirectoryError.exists("operator \(name)")
                }
                // Earlier links for this operator, which may have been lost, become invalid.
                try connection.query("DELETE FROM operator_link WHERE operator = $1", .text(name))
                let row = try connection.query(
                    """
                    INSERT INTO operator AS o (name, user_name, created, salt, hash, rounds, block_size, parallelism)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (name) DO UPDATE SET
                    salt = $4, hash = $5, rounds = $6, block_size = $7, parallelism = $8 RETURNING \(Self.columns)
                    """,
                    [.text(name), .text(user.recordName), .int(now)] + hash.values
                ).first
                guard let row else { throw DirectoryError.unavailable("an operator vanished") }
                let made = Self.operator(row)
                try setPassword(hash, ofAccount: name, connection)
                try connection.query("DELETE FROM operator_session WHERE operator = $1", .int(made.id))
                // The operator may have lost access to somebody else, whose passkeys must not remain.
                try connection.query("DELETE FROM operator_passkey WHERE operator = $1", .int(made.id))
                return made
            }
        }

        // MARK: Passwords

        package func `operator`(name: String, password: String) throws(DirectoryError) -> Operator? {
            let row = try read { connection throws(PostgresError) in
                try Self.row(named: Operator.canonicalName(name) ?? "", connection)
            }
            return try credentials.matches(password, row?.passwordHash(Self.password)) ? row.map(Self.operator) : nil
        }

        package func setPassword(
            _ password: String,
            ofOperator id: Int64,
            keeping kept: String
        ) throws(DirectoryError) {
            let hash = try credentials.hashed(password)
            try revoke { connection in
                try Self.setPassword(hash, ofOperator: id, connection)
                try connection.query(
                    "DELETE FROM operator_session WHERE operator = $1 AND hash <> $2",
                    .int(id),
                    .bytes(CredentialSource.fingerprint(of: kept))
                )
                let name = try connection.query("SELECT name FROM operator WHERE id = $1", .int(id)).first?.text(0)
                try setPassword(hash, ofAccount: name ?? "", connection)
            }
        }

        private static func setPassword(
            _ hash: PasswordHash,
            ofOperator id: Int64,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            try connection.query(
                """
                UPDATE operator SET salt = $2, hash = $3, rounds = $4, block_size = $5, parallelism = $6 WHERE id = $1
                """,
                [.int(id)] + hash.values
            )
        }

        /// Sets the password of the account with an operator's name, if there is one: both are one sign-in.
        private func setPassword(
            _ hash: PasswordHash,
            ofAccount name: String,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            let number = try connection.query(
                "SELECT id FROM account WHERE method = 0 AND login = $1",
                .looked(AccountRules.canonicalEmail(name) ?? name)
            ).first?.int(0)
            if let number { try setPassword(hash, of: Account.ID(number), connection) }
        }

        /// Sets the password of the operator with an account's address, if there is one, and ends the operator's sessions.
        func setPassword(
            _ hash: PasswordHash,
            ofOperator address: String,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            guard let row = try Self.row(named: Operator.canonicalName(address) ?? "", connection) else { return }
            try Self.setPassword(hash, ofOperator: row.int(0), connection)
            try connection.query("DELETE FROM operator_session WHERE operator = $1", .int(row.int(0)))
        }

        package func removeOperator(_ name: String) throws(DirectoryError) {
            let name = Operator.canonicalName(name) ?? ""
            try write { connection in
                guard let row = try Self.row(named: name, connection) else {
                    throw DirectoryError.missing("operator \(name)")
                }
                let id = row.int(0)
                var removal = PostgresPipeline()
                removal.add("SELECT 1 FROM operator WHERE id = $1 FOR UPDATE", .int(id))
                removal.add("DELETE FROM operator_session WHERE operator = $1", .int(id))
                removal.add("DELETE FROM operator_passkey WHERE operator = $1", .int(id))
                removal.add("DELETE FROM operator_link WHERE operator = $1", .text(name))
                removal.add("DELETE FROM operator WHERE id = $1", .int(id))
                try connection.run(removal)
            }
        }

        // MARK: Sign-ins

        package func startOperatorSession(_ id: Int64) throws(DirectoryError) -> String {
            let secret = credentials.random.hex(byteCount: 32)
            let now = time.now().milliseconds
            try write { connection in
                try connection.query(
                    "INSERT INTO operator_session (hash, operator, created, used) VALUES ($1, $2, $3, $3)",
                    .bytes(CredentialSource.fingerprint(of: secret)),
                    .int(id),
                    .int(now)
                )
            }
            return secret
        }

        package func operatorSession(
            _ secret: String,
            _ rules: OperatorSessionRules
        ) throws(DirectoryError) -> Operator? {
            let key = CredentialSource.fingerprint(of: secret)
            let row = try read { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT \(Self.columns), s.created, s.used FROM operator_session s
                    JOIN operator o ON o.id = s.operator WHERE s.hash = $1
                    """,
                    .bytes(key)
                ).first
            }
            guard let row else { return nil }
            let now = time.now()
            let used = row.timestamp(10)
            guard rules.isGood(created: row.timestamp(9), used: used, at: now) else {
                try endOperatorSession(secret)
                return nil
            }
            if now > used + DirectoryRules.useInterval {
                try write { connection in
                    try connection.query(
                        "UPDATE operator_session SET used = $1 WHERE hash = $2",
                        .int(now.milliseconds),
                        .bytes(key)
                    )
                }
            }
            return Self.operator(row)
        }

        package func endOperatorSession(_ secret: String) throws(DirectoryError) {
            try write { connection in
                try connection.query(
                    "DELETE FROM operator_session WHERE hash = $1",
                    .bytes(CredentialSource.fingerprint(of: secret))
                )
            }
        }

        // MARK: Passkeys

        private static let passkeyColumns =
            "p.id, p.operator, p.name, p.algorithm, p.public_key, p.host, p.sign_count, p.created, p.used"

        package func addPasskey(_ passkey: Passkey) throws(DirectoryError) {
            try write { connection in
                // One addition at a time, so that the count holds.
                try connection.query("SELECT 1 FROM operator WHERE id = $1 FOR UPDATE", .int(passkey.operatorID))
                let count = try connection.query(
                    "SELECT count(*) FROM operator_passkey WHERE operator = $1",
                    .int(passkey.operatorID)
                ).first?.int(0)
                guard (count ?? 0) < DirectoryRules.mostPasskeys else {
                    throw DirectoryError.invalid("You have \(DirectoryRules.mostPasskeys) passkeys. Delete one first.")
                }
                let added = try connection.query(
                    """
                    INSERT INTO operator_passkey (id, operator, name, algorithm, public_key, host, sign_count, created)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
                    """,
                    .bytes(passkey.id),
                    .int(passkey.operatorID),
                    .text(passkey.name),
                    .int(Int64(passkey.algorithm)),
                    .bytes(passkey.publicKey),
                    .text(passkey.host),
                    .int(Int64(passkey.signCount)),
                    .int(passkey.created.milliseconds)
                ).changed
                guard added > 0 else { throw DirectoryError.exists("passkey like this") }
            }
        }

        package func passkeys(of id: Int64) throws(DirectoryError) -> [Passkey] {
            try read { connection throws(PostgresError) in
                try connection.query(
                    "SELECT \(Self.passkeyColumns) FROM operator_passkey p WHERE p.operator = $1 ORDER BY p.created",
                    .int(id)
                ).map { Self.passkey($0, 0) }
            }
        }

        package func passkey(_ id: [UInt8]) throws(DirectoryError) -> (Passkey, Operator)? {
            try read { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT \(Self.columns), \(Self.passkeyColumns) FROM operator_passkey p
                    JOIN operator o ON o.id = p.operator WHERE p.id = $1
                    """,
                    .bytes(id)
                ).first.map { (Self.passkey($0, 9), Self.operator($0)) }
            }
        }

        package func usePasskey(_ id: [UInt8], signCount: UInt32) throws(DirectoryError) {
            let now = time.now().milliseconds
            try write { connection in
                try connection.query(
                    "UPDATE operator_passkey SET used = $1, sign_count = $2 WHERE id = $3",
                    .int(now),
                    .int(Int64(signCount)),
                    .bytes(id)
                )
            }
        }

        package func removePasskey(_ id: [UInt8], ofOperator owner: Int64) throws(DirectoryError) {
            try write { connection in
                let removed = try connection.query(
                    "DELETE FROM operator_passkey WHERE id = $1 AND operator = $2",
                    .bytes(id),
                    .int(owner)
                ).changed
                guard removed > 0 else { throw DirectoryError.missing("passkey like this") }
            }
        }

        private static func passkey(_ row: PostgresRow, _ first: Int32) -> Passkey {
            Passkey(
                id: row.bytes(first),
                operatorID: row.int(first + 1),
                name: row.text(first + 2),
                algorithm: Int(row.int(first + 3)),
                publicKey: row.bytes(first + 4),
                host: row.text(first + 5),
                signCount: UInt32(clamping: row.int(first + 6)),
                created: row.timestamp(first + 7),
                used: row.optionalTimestamp(first + 8)
            )
        }

        // MARK: Audit log

        package func auditEntries(
            before number: Int64?,
            with words: String,
            limit: Int
        ) throws(DirectoryError) -> [AuditEntry] {
            try read { connection throws(PostgresError) in
                try connection.query(
                    """
                    SELECT id, at, actor, action, container, environment, subject, detail FROM audit
                    WHERE id < $1 AND ($2 = '' OR strpos(lower(
                        actor || ' ' || action || ' ' || coalesce(container, '') || ' ' || subject), lower($2)) > 0)
                    ORDER BY id DESC LIMIT $3
                    """,
                    .int(number ?? .max),
                    .looked(words),
                    .int(Int64(limit))
                ).map { row in
                    var entry = AuditEntry(
                        at: row.timestamp(1),
                        actor: row.text(2),
                        action: row.text(3),
                        home: row.home(4),
                        subject: row.text(6),
                        detail: row.text(7)
                    )
                    entry.number = row.int(0)
                    return entry
                }
            }
        }
    }
#endif
