import Foundation
import GRDB
package import Records
package import RelayCore
import RelaySystem
import StoreKit

extension AccountStore {
    // MARK: Accounts

    package func account(_ id: Account.ID) throws(DirectoryError) -> Account? {
        try read { db in
            try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM accounts WHERE id = ?"), arguments: [id.number])
                .map(Self.account)
        }
    }

    package func account(email: String) throws(DirectoryError) -> Account? {
        try read { db in try Self.row(email: email, db).map(Self.account) }
    }

    /// Returns the account with a password that has this address.
    private static func row(email: String, _ db: Database) throws -> Row? {
        try Row.fetchOne(
            db.cachedStatement(sql: "SELECT * FROM accounts WHERE is_dev = 0 AND login = ?"),
            arguments: [AccountRules.canonicalEmail(email)]
        )
    }

    package func devAccount(named name: String) throws(DirectoryError) -> Account {
        if let account = try account(.dev, login: name) { return account }
        try DirectoryRules.devName(name)
        let created = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "INSERT OR IGNORE INTO accounts(is_dev, login, email, created) VALUES (1, ?, ?, ?)",
                arguments: [name, AccountRules.canonicalEmail(name), created]
            )
        }
        guard let account = try account(.dev, login: name) else { throw .missing("dev user \(name)") }
        return account
    }

    package func account(email: String, password: String) throws(DirectoryError) -> Account? {
        let row = try read { db in try Self.row(email: email, db) }
        guard try credentials.matches(password, row.flatMap(Self.passwordHash)), let row else { return nil }
        let account = Self.account(row)
        return account.isDisabled ? nil : account
    }

    package func passwordFingerprint(of account: Account.ID) throws(DirectoryError) -> [UInt8] {
        let salt = try read { db in
            try Data.fetchOne(
                db.cachedStatement(sql: "SELECT salt FROM accounts WHERE id = ? AND salt IS NOT NULL"),
                arguments: [account.number]
            )
        }
        return salt.map { Array($0) } ?? []
    }

    package func accounts() throws(DirectoryError) -> [Account] {
        try read { db in try Row.fetchAll(db, sql: "SELECT * FROM accounts ORDER BY id").map(Self.account) }
    }

    @discardableResult
    package func addAccount(email: String, password: String) throws(DirectoryError) -> Account {
        let login = try checkedLogin(email: email, password: password)
        let hash = try credentials.hashed(password)
        let created = time.now()
        return try write { db in
            guard
                try Int.fetchOne(db, sql: "SELECT 1 FROM accounts WHERE is_dev = 0 AND login = ?", arguments: [login])
                    == nil
            else { throw DirectoryError.exists("user \(login)") }
            try db.execute(
                sql: """
                    INSERT INTO accounts(is_dev, login, email, salt, hash, rounds, block_size, parallelism, created)
                    VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    login, login, Data(hash.salt), Data(hash.hash), hash.cost.rounds, hash.cost.blockSize,
                    hash.cost.parallelism,
                    created.milliseconds,
                ]
            )
            return Account(id: Account.ID(db.lastInsertedRowID), login: .email(login), created: created)
        }
    }

    /// Sets a password, and ends all sessions of the account: the old password may have been known to others.
    ///
    /// An operator with the same address gets it too.
    package func setPassword(_ password: String, of account: Account.ID) throws(DirectoryError) {
        let hash = try credentials.hashed(password)
        try revoke { db in
            try setPassword(hash, of: account, db)
            let login = try String.fetchOne(
                db,
                sql: "SELECT login FROM accounts WHERE id = ? AND is_dev = 0",
                arguments: [account.number]
            )
            if let login { try setPassword(hash, ofOperator: login, db) }
        }
    }

    /// Sets the password of the account alone.
    func setPassword(_ hash: PasswordHash, of account: Account.ID, _ db: Database) throws {
        try db.execute(
            sql: "UPDATE accounts SET salt = ?, hash = ?, rounds = ?, block_size = ?, parallelism = ? WHERE id = ?",
            arguments: [
                Data(hash.salt), Data(hash.hash), hash.cost.rounds, hash.cost.blockSize, hash.cost.parallelism,
                account.number,
            ]
        )
        try endSessions(of: account, in: nil, db)
    }

    package func setDisabled(_ isDisabled: Bool, of account: Account.ID) throws(DirectoryError) {
        try revoke { db in
            try db.execute(
                sql: "UPDATE accounts SET disabled = ? WHERE id = ?",
                arguments: [isDisabled, account.number]
            )
            if isDisabled { try endSessions(of: account, in: nil, db) }
        }
    }

    package func removeAccount(_ account: Account.ID) throws(DirectoryError) {
        try revoke { db in
            let own: StatementArguments = [account.number]
            try db.execute(
                sql: """
                    DELETE FROM push_devices WHERE (container, environment, user) IN (
                        SELECT container, environment, name FROM users WHERE account = ?)
                    """,
                arguments: own
            )
            for table in ["sessions", "quotas", "users"] {
                try db.execute(sql: "DELETE FROM \(table) WHERE account = ?", arguments: own)
            }
            try db.execute(sql: "DELETE FROM accounts WHERE id = ?", arguments: own)
        }
    }

    // MARK: Users of a container

    package func user(of account: Account.ID, in home: ContainerEnvironment) throws(DirectoryError) -> UserID {
        if let known = try read({ db in try Self.userName(of: account, in: home, db) }) { return UserID(known) }
        let fresh = credentials.userName().recordName
        return try write { db in
            try db.execute(
                sql: "INSERT OR IGNORE INTO users(container, environment, account, name) VALUES (?, ?, ?, ?)",
                arguments: [home.container.name, home.environment.rawValue, account.number, fresh]
            )
            guard let name = try Self.userName(of: account, in: home, db) else {
                throw DirectoryError.unavailable("a user record name was drawn twice")
            }
            return UserID(name)
        }
    }

    package func accounts(of users: [UserID], in home: ContainerEnvironment) throws(DirectoryError) -> [UserID: Account]
    {
        try read { db in
            let statement = try db.cachedStatement(
                sql: """
                    SELECT accounts.* FROM users JOIN accounts ON accounts.id = users.account
                    WHERE container = ? AND environment = ? AND users.name = ?
                    """
            )
            var found: [UserID: Account] = [:]
            for user in users {
                found[user] = try Row.fetchOne(
                    statement,
                    arguments: [home.container.name, home.environment.rawValue, user.recordName]
                ).map(Self.account)
            }
            return found
        }
    }

    // MARK: Rows

    func account(_ method: LoginMethod, login: String) throws(DirectoryError) -> Account? {
        try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM accounts WHERE is_dev = ? AND login = ?"),
                arguments: [method.rawValue, login]
            ).map(Self.account)
        }
    }

    private static func userName(of account: Account.ID, in home: ContainerEnvironment, _ db: Database) throws
        -> String?
    {
        try String.fetchOne(
            db.cachedStatement(sql: "SELECT name FROM users WHERE container = ? AND environment = ? AND account = ?"),
            arguments: [home.container.name, home.environment.rawValue, account.number]
        )
    }

    static func account(_ row: Row) -> Account {
        var name = PersonName(given: row["given_name"], family: row["family_name"])
        name.prefix = row["name_prefix"]
        name.middle = row["middle_name"]
        name.suffix = row["name_suffix"]
        name.nickname = row["nickname"]
        return Account(
            id: Account.ID(row["id"]),
            login: LoginMethod(rawValue: row["is_dev"]).login(row["login"]),
            email: row["email"],
            phone: row["phone"],
            name: name,
            isDisabled: row["disabled"],
            created: Timestamp(milliseconds: row["created"])
        )
    }

    private static func passwordHash(_ row: Row) -> PasswordHash? {
        guard let salt = row["salt"] as Data?, let hash = row["hash"] as Data? else { return nil }
        let cost = ScryptCost(rounds: row["rounds"], blockSize: row["block_size"], parallelism: row["parallelism"])
        return PasswordHash(cost: cost, salt: Array(salt), hash: Array(hash))
    }
}

extension AccountStore {
    // MARK: Lookups

    package func profile(
        of user: UserID,
        in home: ContainerEnvironment
    ) throws(DirectoryError) -> UserProfile? {
        try profiles(matching: [.user(user)], in: home, includesDev: true)[.user(user)]
    }

    package func profiles(
        matching lookups: [UserLookup],
        in home: ContainerEnvironment,
        includesDev: Bool
    ) throws(DirectoryError) -> [UserLookup: UserProfile] {
        try read { db in
            var found: [UserLookup: UserProfile] = [:]
            for lookup in lookups where found[lookup] == nil {
                let (condition, text) = Self.condition(lookup)
                found[lookup] = try Row.fetchOne(
                    db.cachedStatement(sql: Self.profileQuery(condition)),
                    arguments: [home.container.name, home.environment.rawValue, text, includesDev]
                ).map(Self.profile)
            }
            return found
        }
    }

    package func profiles(
        of account: Account.ID
    ) throws(DirectoryError) -> [(home: ContainerEnvironment, profile: UserProfile)] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT users.container, users.environment, users.name AS user_name, discoverable, accounts.*
                    FROM users JOIN accounts ON accounts.id = users.account
                    WHERE users.account = ? ORDER BY container, environment
                    """,
                arguments: [account.number]
            ).compactMap { row in Self.home(row).map { (home: $0, profile: Self.profile(row)) } }
        }
    }

    private static func condition(_ lookup: UserLookup) -> (sql: String, text: String) {
        switch lookup {
        case .email(let address): ("accounts.email = ? AND (? OR accounts.is_dev <> 1)", address)
        case .phone(let number): ("accounts.phone = ? AND (? OR accounts.is_dev <> 1)", number)
        // The last argument has no effect here; it only gives all three conditions the same arguments.
        case .user(let user): ("users.name = ? AND ? IS NOT NULL", user.recordName)
        }
    }

    private static func profileQuery(_ condition: String) -> String {
        """
        SELECT users.name AS user_name, discoverable, accounts.*
        FROM accounts JOIN users ON users.account = accounts.id
        WHERE users.container = ? AND users.environment = ? AND \(condition)
        ORDER BY discoverable DESC, is_dev, accounts.id LIMIT 1
        """
    }

    private static func profile(_ row: Row) -> UserProfile {
        UserProfile(user: UserID(row["user_name"]), account: account(row), isDiscoverable: row["discoverable"])
    }

    // MARK: Profile settings

    package func setDiscoverable(
        _ isDiscoverable: Bool,
        user: UserID,
        in home: ContainerEnvironment
    ) throws(DirectoryError) {
        try write { db in
            try db.execute(
                sql: "UPDATE users SET discoverable = ? WHERE container = ? AND environment = ? AND name = ?",
                arguments: [isDiscoverable, home.container.name, home.environment.rawValue, user.recordName]
            )
        }
    }

    package func setName(_ name: PersonName, of account: Account.ID) throws(DirectoryError) {
        try write { db in try Self.write(name, of: account.number, db) }
    }

    package func setPhone(_ phone: String?, of account: Account.ID) throws(DirectoryError) {
        let number = try DirectoryRules.phone(phone)
        try write { db in
            try db.execute(sql: "UPDATE accounts SET phone = ? WHERE id = ?", arguments: [number, account.number])
        }
    }

    private static func write(_ name: PersonName, of account: Int64, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE accounts SET name_prefix = ?, given_name = ?, middle_name = ?, family_name = ?,
                name_suffix = ?, nickname = ? WHERE id = ?
                """,
            arguments: [name.prefix, name.given, name.middle, name.family, name.suffix, name.nickname, account]
        )
    }

    // MARK: Users of foreign issuers

    package func account(for person: ExternalIdentity) throws(DirectoryError) -> Account {
        let login = LoginMethod.text(of: person)
        if let known = try account(.foreign, login: login), known.email == person.email, known.phone == person.phone,
            known.name == person.name
        {
            return known
        }
        let now = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "INSERT OR IGNORE INTO accounts(is_dev, login, created) VALUES (?, ?, ?)",
                arguments: [LoginMethod.foreign.rawValue, login, now]
            )
            guard
                let id = try Int64.fetchOne(
                    db,
                    sql: "SELECT id FROM accounts WHERE is_dev = ? AND login = ?",
                    arguments: [LoginMethod.foreign.rawValue, login]
                )
            else { throw DirectoryError.unavailable("a foreign account vanished") }
            try db.execute(
                sql: "UPDATE accounts SET email = ?, phone = ? WHERE id = ?",
                arguments: [person.email, person.phone, id]
            )
            try Self.write(person.name, of: id, db)
        }
        guard let account = try account(.foreign, login: login) else { throw .missing("foreign user") }
        return account
    }
}

/// Sessions of signed-in users.
extension AccountStore {
    package func session(_ id: Session.ID) throws(DirectoryError) -> Session? {
        try read { db in
            try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM sessions WHERE id = ?"), arguments: [id.data])
                .flatMap(Self.session)
        }
    }

    package func sessions(of account: Account.ID) throws(DirectoryError) -> [Session] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM sessions WHERE account = ? AND revoked IS NULL ORDER BY created DESC",
                arguments: [account.number]
            ).compactMap(Self.session)
        }
    }

    package func noteUse(of sessions: [Session.ID], at now: Timestamp) throws(DirectoryError) {
        try write { db in
            let statement = try db.cachedStatement(sql: "UPDATE sessions SET used = ? WHERE id = ?")
            for session in sessions { try statement.execute(arguments: [now.milliseconds, session.data]) }
        }
    }

    package func removeSessions(
        _ kind: Session.Kind,
        unusedFor age: Duration,
        at now: Timestamp
    ) throws(DirectoryError) {
        try write { db in
            try db.execute(
                sql: """
                    DELETE FROM sessions WHERE kind = ? AND coalesce(revoked, used, created)
                    < min(?, (SELECT max(coalesce(used, created)) FROM sessions)) - ?
                    """,
                arguments: [kind.rawValue, now.milliseconds, age.wholeMilliseconds]
            )
        }
    }

    package func revokeSessions(of account: Account.ID, in home: ContainerEnvironment?) throws(DirectoryError) {
        try revoke { db in try endSessions(of: account, in: home, db) }
    }

    package func addSession(_ session: Session) throws(DirectoryError) {
        try write { db in
            try db.execute(
                sql: """
                    INSERT INTO sessions(id, secret_hash, account, container, environment, kind, created)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    session.id.data, Data(session.secretHash), session.account.number, session.home.container.name,
                    session.home.environment.rawValue, session.kind.rawValue, session.created.milliseconds,
                ]
            )
        }
    }

    package func revokeSession(_ id: Session.ID) throws(DirectoryError) {
        let now = time.now().milliseconds
        try revoke { db in
            try db.execute(
                sql: "UPDATE sessions SET revoked = ? WHERE id = ? AND revoked IS NULL",
                arguments: [now, id.data]
            )
        }
    }

    func endSessions(of account: Account.ID, in home: ContainerEnvironment?, _ db: Database) throws {
        try db.execute(
            sql: """
                UPDATE sessions SET revoked = ?1 WHERE account = ?2 AND revoked IS NULL
                AND (?3 IS NULL OR (container = ?3 AND environment = ?4))
                """,
            arguments: [
                time.now().milliseconds, account.number, home?.container.name, home?.environment.rawValue,
            ]
        )
    }

    private static func session(_ row: Row) -> Session? {
        guard let home = Self.home(row), let kind = Session.Kind(rawValue: row["kind"]) else { return nil }
        return Session(
            id: Session.ID(row["id"] as Data),
            secretHash: Array(row["secret_hash"] as Data),
            account: Account.ID(row["account"]),
            home: home,
            kind: kind,
            created: Timestamp(milliseconds: row["created"]),
            used: (row["used"] as Int64?).map { Timestamp(milliseconds: $0) },
            revoked: Self.revoked(row)
        )
    }
}

extension Session.ID {
    var data: Data { Data(bytes) }
}

extension AccountStore {
    package func issuers(of container: ContainerID) throws(DirectoryError) -> [TokenIssuer] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM issuers WHERE container = ? ORDER BY issuer",
                arguments: [container.name]
            ).compactMap(Self.issuer)
        }
    }

    package func issuer(named name: String, of container: ContainerID) throws(DirectoryError) -> TrustedIssuer? {
        try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM issuers WHERE container = ? AND issuer = ?"),
                arguments: [container.name, name]
            ).flatMap { row in
                Self.issuer(row).map { TrustedIssuer(issuer: $0, revision: UInt64(bitPattern: row["revision"])) }
            }
        }
    }

    package func issuers() throws(DirectoryError) -> [TokenIssuer] {
        try read { db in
            try Row.fetchAll(db, sql: "SELECT * FROM issuers ORDER BY container, issuer").compactMap(Self.issuer)
        }
    }

    package func putIssuer(_ issuer: TokenIssuer) throws(DirectoryError) {
        guard try hasContainer(issuer.container) else { throw .missing("container \(issuer.container)") }
        let columns = IssuerColumns(issuer)
        try revoke { db in
            try db.execute(
                sql: """
                    INSERT OR REPLACE INTO issuers(container, issuer, audiences, algorithms, keys_url, keys_file,
                        claims, trusts_contacts, created, revision)
                    SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, revocations + 1 FROM relay
                    """,
                arguments: [
                    issuer.container.name, issuer.issuer, columns.audiences, columns.algorithms, columns.keysURL,
                    columns.keysFile, columns.claims, issuer.trustsContacts, issuer.created.milliseconds,
                ]
            )
        }
    }

    package func removeIssuer(_ issuer: String, of container: ContainerID) throws(DirectoryError) {
        let now = time.now().milliseconds
        try revoke { db in
            try db.execute(
                sql: "DELETE FROM issuers WHERE container = ? AND issuer = ?",
                arguments: [container.name, issuer]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("issuer \(issuer)") }
            try db.execute(
                sql: """
                    UPDATE sessions SET revoked = ?1 WHERE container = ?2 AND revoked IS NULL AND account IN (
                        SELECT id FROM accounts WHERE is_dev = ?3 AND substr(login, 1, length(?4) + 1) = ?4 || char(10)
                    )
                    """,
                arguments: [now, container.name, LoginMethod.foreign.rawValue, issuer]
            )
        }
    }

    private static func issuer(_ row: Row) -> TokenIssuer? {
        guard let container = ContainerID(row["container"]) else { return nil }
        return IssuerColumns(
            audiences: row["audiences"],
            algorithms: row["algorithms"],
            keysURL: row["keys_url"],
            keysFile: row["keys_file"],
            claims: row["claims"]
        ).issuer(
            row["issuer"],
            of: container,
            trustsContacts: row["trusts_contacts"],
            created: Timestamp(milliseconds: row["created"])
        )
    }
}

/// Storage limits of individual users and containers that differ from the configuration.
extension AccountStore {
    package func setPrivateQuota(_ bytes: Int64?, of account: Account.ID) throws(DirectoryError) {
        try write { db in
            if let bytes {
                try db.execute(
                    sql: """
                        INSERT INTO quotas(account, private_bytes) VALUES (?1, ?2)
                        ON CONFLICT (account) DO UPDATE SET private_bytes = ?2
                        """,
                    arguments: [account.number, bytes]
                )
            } else {
                try db.execute(sql: "DELETE FROM quotas WHERE account = ?", arguments: [account.number])
            }
        }
    }

    package func privateQuota(of account: Account.ID) throws(DirectoryError) -> Int64? {
        try read { db in
            try Int64.fetchOne(
                db,
                sql: "SELECT private_bytes FROM quotas WHERE account = ?",
                arguments: [account.number]
            )
        }
    }

    package func setQuota(_ quota: ContainerQuota, of home: ContainerEnvironment) throws(DirectoryError) {
        guard try hasContainer(home.container) else { throw .missing("container \(home.container)") }
        let place: StatementArguments = [home.container.name, home.environment.rawValue]
        try write { db in
            try db.execute(
                sql: "DELETE FROM container_quotas WHERE container = ? AND environment = ?",
                arguments: place
            )
            guard !quota.isEmpty else { return }
            try db.execute(
                sql: "INSERT INTO container_quotas VALUES (?, ?, ?, ?, ?, ?)",
                arguments: place + [
                    quota.privateBytes, quota.publicRecords, quota.publicAssets, quota.publicTransfer,
                ]
            )
        }
    }

    package func quota(of home: ContainerEnvironment) throws(DirectoryError) -> ContainerQuota {
        try read { db in
            let row = try Row.fetchOne(
                db,
                sql: "SELECT * FROM container_quotas WHERE container = ? AND environment = ?",
                arguments: [home.container.name, home.environment.rawValue]
            )
            return row.map(Self.quota) ?? ContainerQuota()
        }
    }

    package func ownQuotas() throws(DirectoryError) -> QuotaOverrides {
        try read { db in
            let rows = try Row.fetchAll(
                db,
                sql: """
                    SELECT u.container, u.environment, u.name, q.private_bytes
                    FROM quotas q CROSS JOIN users u ON u.account = q.account
                    """
            )
            var quotas = QuotaOverrides()
            for row in rows {
                guard let home = Self.home(row) else { continue }
                quotas.users[home, default: [:]][UserID(row["name"])] = row["private_bytes"]
            }
            for row in try Row.fetchAll(db, sql: "SELECT * FROM container_quotas") {
                if let home = Self.home(row) { quotas.containers[home] = Self.quota(row) }
            }
            return quotas
        }
    }

    private static func quota(_ row: Row) -> ContainerQuota {
        ContainerQuota(
            privateBytes: row["private_bytes"],
            publicRecords: row["public_records"],
            publicAssets: row["public_assets"],
            publicTransfer: row["public_transfer"]
        )
    }
}
