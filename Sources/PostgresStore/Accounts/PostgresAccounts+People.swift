#if Postgres
    package import Records
    package import RelayCore
    import RelaySystem
    import StoreKit

    /// Accounts and their users in containers.
    extension PostgresAccounts {
        /// The columns that `account(_:from:)` reads, and the five of the password.
        private static let columns = """
            a.id, a.method, a.login, a.email, a.phone, a.name_prefix, a.given_name, a.middle_name, a.family_name, \
            a.name_suffix, a.nickname, a.disabled, a.created, a.salt, a.hash, a.rounds, a.block_size, a.parallelism
            """
        /// Their number.
        private static let width: Int32 = 18
        private static let password: Int32 = 13

        // MARK: Accounts

        package func account(_ id: Account.ID) throws(DirectoryError) -> Account? {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT \(Self.columns) FROM account a WHERE a.id = $1", .int(id.number))
                    .first.map { Self.account($0) }
            }
        }

        package func account(email: String) throws(DirectoryError) -> Account? {
            try account(.email, login: AccountRules.canonicalEmail(email))?.account
        }

        /// Returns the account that signs in so, and its password.
        private func account(
            _ method: LoginMethod,
            login: String?
        ) throws(DirectoryError) -> (account: Account, password: PasswordHash?)? {
            guard let login else { return nil }
            return try read { connection throws(PostgresError) in
                try connection.query(
                    "SELECT \(Self.columns) FROM account a WHERE a.method = $1 AND a.login = $2",
                    .int(Int64(method.rawValue)),
                    .looked(login)
                ).first.map { (Self.account($0), $0.passwordHash(Self.password)) }
            }
        }

        package func devAccount(named name: String) throws(DirectoryError) -> Account {
            if let known = try account(.dev, login: name) { return known.account }
            try DirectoryRules.devName(name)
            let created = time.now().milliseconds
            try write { connection in
                try connection.query(
                    "INSERT INTO account (method, login, email, created) VALUES (1, $1, $2, $3) ON CONFLICT DO NOTHING",
                    .text(name),
                    .text(AccountRules.canonicalEmail(name)),
                    .int(created)
                )
            }
            guard let made = try account(.dev, login: name) else { throw .missing("dev user \(name)") }
            return made.account
        }

        package func account(email: String, password: String) throws(DirectoryError) -> Account? {
            let found = try account(.email, login: AccountRules.canonicalEmail(email))
            guard try credentials.matches(password, found?.password), let account = found?.account else { return nil }
            return account.isDisabled ? nil : account
        }

        package func passwordFingerprint(of account: Account.ID) throws(DirectoryError) -> [UInt8] {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT salt FROM account WHERE id = $1", .int(account.number))
                    .first?.optionalBytes(0) ?? []
            }
        }

        package func accounts() throws(DirectoryError) -> [Account] {
            try read { connection throws(PostgresError) in
                try connection.query("SELECT \(Self.columns) FROM account a ORDER BY a.id").map { Self.account($0) }
            }
        }

        @discardableResult
        package func addAccount(email: String, password: String) throws(DirectoryError) -> Account {
            let login = try checkedLogin(email: email, password: password)
            let hash = try credentials.hashed(password)
            let created = time.now()
            return try write { connection in
                let row = try connection.query(
                    """
                    INSERT INTO account (method, login, email, created, salt, hash, rounds, block_size, parallelism)
                    VALUES (0, $1, $1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id
                    """,
                    [.text(login), .int(created.milliseconds)] + hash.values
                ).first
                guard let row else { throw DirectoryError.exists("user \(login)") }
                return Account(id: Account.ID(row.int(0)), login: .email(login), created: created)
            }
        }

        /// Sets a password, and ends all sessions of the account: the old password may have been known to others.
        ///
        /// An operator with the same address gets it too.
        package func setPassword(_ password: String, of account: Account.ID) throws(DirectoryError) {
            let hash = try credentials.hashed(password)
            try revoke { connection in
                try setPassword(hash, of: account, connection)
                let login = try connection.query(
                    "SELECT login FROM account WHERE id = $1 AND method = 0",
                    .int(account.number)
                ).first?.text(0)
                if let login { try setPassword(hash, ofOperator: login, connection) }
            }
        }

        /// Sets the password of the account alone.
        func setPassword(
            _ hash: PasswordHash,
            of account: Account.ID,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            try connection.query(
                """
                UPDATE account SET salt = $2, hash = $3, rounds = $4, block_size = $5, parallelism = $6 WHERE id = $1
                """,
                [.int(account.number)] + hash.values
            )
            try endSessions(of: account, in: nil, connection)
        }

        package func setDisabled(_ isDisabled: Bool, of account: Account.ID) throws(DirectoryError) {
            try revoke { connection in
                try connection.query(
                    "UPDATE account SET disabled = $1 WHERE id = $2",
                    .bool(isDisabled),
                    .int(account.number)
                )
                if isDisabled { try endSessions(of: account, in: nil, connection) }
            }
        }

        package func removeAccount(_ account: Account.ID) throws(DirectoryError) {
            try revoke { connection in
                var removal = PostgresPipeline()
                // No other relay can add a row that refers to the account from now on.
                removal.add("SELECT 1 FROM account WHERE id = $1 FOR UPDATE", .int(account.number))
                removal.add(
                    """
                    DELETE FROM push_device d USING container_user u WHERE u.account = $1
                    AND d.container = u.container AND d.environment = u.environment AND d.user_name = u.name
                    """,
                    .int(account.number)
                )
                for table in ["session", "quota", "container_user"] {
                    removal.add("DELETE FROM \(table) WHERE account = $1", .int(account.number))
                }
                removal.add("DELETE FROM account WHERE id = $1", .int(account.number))
                try connection.run(removal)
            }
        }

        // MARK: Users of a container

        package func user(of account: Account.ID, in home: ContainerEnvironment) throws(DirectoryError) -> UserID {
            let place: [PostgresValue] = [
                .text(home.container.name), .text(home.environment.rawValue), .int(account.number),
            ]
            let select =
                "SELECT name FROM container_user WHERE container = $1 AND environment = $2 AND account = $3"
            let known = try read { connection throws(PostgresError) in
                try connection.query(select, place).first?.text(0)
            }
            if let known { return UserID(known) }
            let fresh = credentials.userName()
            return try write { connection in
                try connection.query(
                    """
                    INSERT INTO container_user (container, environment, account, name) VALUES ($1, $2, $3, $4)
                    ON CONFLICT (container, environment, account) DO NOTHING
                    """,
                    place + [.text(fresh.recordName)]
                )
                // Another relay may have been first.
                return UserID(try connection.query(select, place).first?.text(0) ?? fresh.recordName)
            }
        }

        package func accounts(
            of users: [UserID],
            in home: ContainerEnvironment
        ) throws(DirectoryError) -> [UserID: Account] {
            let names = users.map(\.recordName).filter { !$0.utf8.contains(0) }
            return try read { connection throws(PostgresError) in
                let rows = try connection.query(
                    """
                    SELECT \(Self.columns), u.name FROM unnest($3::text[]) AS n (name)
                    CROSS JOIN \(LookUp.rows(of: "container_user", where: Self.userNamed("n.name"))) u
                    CROSS JOIN \(LookUp.rows(of: "account", where: "id = u.account")) a
                    """,
                    .text(home.container.name),
                    .text(home.environment.rawValue),
                    .texts(names)
                )
                var found: [UserID: Account] = [:]
                for row in rows { found[UserID(row.text(Self.width))] = Self.account(row) }
                return found
            }
        }

        /// The condition of the user of the container `$1` in the environment `$2` that has a name.
        private static func userNamed(_ name: String) -> String {
            "container = $1 AND environment = $2 AND name = \(name)"
        }

        // MARK: Lookups

        package func profile(of user: UserID, in home: ContainerEnvironment) throws(DirectoryError) -> UserProfile? {
            try profiles(matching: [.user(user)], in: home, includesDev: true)[.user(user)]
        }

        package func profiles(
            matching lookups: [UserLookup],
            in home: ContainerEnvironment,
            includesDev: Bool
        ) throws(DirectoryError) -> [UserLookup: UserProfile] {
            guard !lookups.isEmpty else { return [:] }
            return try read { connection throws(PostgresError) in
                var queries = PostgresPipeline()
                for lookup in lookups {
                    let (users, text) = Self.users(lookup)
                    queries.add(
                        """
                        SELECT \(Self.columns), u.name, u.discoverable FROM \(users)
                        ORDER BY u.discoverable DESC, a.method, a.id LIMIT 1
                        """,
                        .text(home.container.name),
                        .text(home.environment.rawValue),
                        .looked(text),
                        .bool(includesDev)
                    )
                }
                var found: [UserLookup: UserProfile] = [:]
                for (lookup, rows) in zip(lookups, try connection.run(queries)) {
                    found[lookup] = rows.first.map(Self.profile)
                }
                return found
            }
        }

        /// Returns the items of `FROM` for a look-up, accounts `a` and users `u`, and its text `$3`.
        private static func users(_ lookup: UserLookup) -> (sql: String, text: String) {
            func accounts(_ column: String) -> String {
                """
                \(LookUp.rows(of: "account", where: "\(column) = $3 AND ($4 OR method <> 1)")) a
                JOIN \(LookUp.rows(of: "container_user", where: "account = a.id")) u
                ON u.container = $1 AND u.environment = $2
                """
            }
            switch lookup {
            case .email(let address): return (accounts("email"), address)
            case .phone(let number): return (accounts("phone"), number)
            case .user(let user):
                // The last parameter has no effect here; it only gives all three the same parameters.
                let users = """
                    \(LookUp.rows(of: "container_user", where: "\(userNamed("$3")) AND $4 IS NOT NULL")) u
                    CROSS JOIN \(LookUp.rows(of: "account", where: "id = u.account")) a
                    """
                return (users, user.recordName)
            }
        }

        package func profiles(
            of account: Account.ID
        ) throws(DirectoryError) -> [(home: ContainerEnvironment, profile: UserProfile)] {
            try read { connection throws(PostgresError) in
                let rows = try connection.query(
                    """
                    SELECT \(Self.columns), u.name, u.discoverable, u.container, u.environment
                    FROM container_user u JOIN account a ON a.id = u.account
                    WHERE u.account = $1 ORDER BY u.container, u.environment
                    """,
                    .int(account.number)
                )
                return rows.compactMap { row in
                    row.home(Self.width + 2).map { (home: $0, profile: Self.profile(row)) }
                }
            }
        }

        // MARK: Profile settings

        package func setDiscoverable(
            _ isDiscoverable: Bool,
            user: UserID,
            in home: ContainerEnvironment
        ) throws(DirectoryError) {
            try write { connection in
                try connection.query(
                    "UPDATE container_user SET discoverable = $1 WHERE container = $2 AND environment = $3 AND name = $4",
                    .bool(isDiscoverable),
                    .text(home.container.name),
                    .text(home.environment.rawValue),
                    .looked(user.recordName)
                )
            }
        }

        package func setName(_ name: PersonName, of account: Account.ID) throws(DirectoryError) {
            try write { connection in try Self.write(name, of: account.number, connection) }
        }

        package func setPhone(_ phone: String?, of account: Account.ID) throws(DirectoryError) {
            let number = try DirectoryRules.phone(phone)
            try write { connection in
                try connection.query(
                    "UPDATE account SET phone = $1 WHERE id = $2",
                    .text(number),
                    .int(account.number)
                )
            }
        }

        private static func write(
            _ name: PersonName,
            of account: Int64,
            _ connection: PostgresConnection
        ) throws(PostgresError) {
            try connection.query(
                """
                UPDATE account SET name_prefix = $2, given_name = $3, middle_name = $4, family_name = $5,
                name_suffix = $6, nickname = $7 WHERE id = $1
                """,
                .int(account),
                .text(name.prefix),
                .text(name.given),
                .text(name.middle),
                .text(name.family),
                .text(name.suffix),
                .text(name.nickname)
            )
        }

        // MARK: Users of foreign issuers

        package func account(for person: ExternalIdentity) throws(DirectoryError) -> Account {
            let login = LoginMethod.text(of: person)
            if let known = try account(.foreign, login: login)?.account, known.email == person.email,
                known.phone == person.phone, known.name == person.name
            {
                return known
            }
            let now = time.now().milliseconds
            try write { connection in
                let row = try connection.query(
                    """
                    INSERT INTO account (method, login, email, phone, created) VALUES (2, $1, $2, $3, $4)
                    ON CONFLICT (method, login) DO UPDATE SET email = $2, phone = $3 RETURNING id
                    """,
                    .text(login),
                    .text(person.email),
                    .text(person.phone),
                    .int(now)
                ).first
                guard let row else { throw DirectoryError.unavailable("a foreign account vanished") }
                try Self.write(person.name, of: row.int(0), connection)
            }
            guard let account = try account(.foreign, login: login)?.account else { throw .missing("foreign user") }
            return account
        }

        // MARK: Rows

        private static func account(_ row: PostgresRow) -> Account {
            var name = PersonName(given: row.optionalText(6), family: row.optionalText(8))
            name.prefix = row.optionalText(5)
            name.middle = row.optionalText(7)
            name.suffix = row.optionalText(9)
            name.nickname = row.optionalText(10)
            return Account(
                id: Account.ID(row.int(0)),
                login: LoginMethod(rawValue: Int(row.int(1))).login(row.text(2)),
                email: row.optionalText(3),
                phone: row.optionalText(4),
                name: name,
                isDisabled: row.bool(11),
                created: row.timestamp(12)
            )
        }

        private static func profile(_ row: PostgresRow) -> UserProfile {
            UserProfile(user: UserID(row.text(width)), account: account(row), isDiscoverable: row.bool(width + 1))
        }
    }
#endif
