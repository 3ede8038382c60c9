import Foundation
import GRDB
package import Records
package import RelayCore

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
        guard AccountRules.isDevName(name) else {
            throw .invalid("A dev user's name is 1 to 64 letters, digits, '.', '_', '-', '@' or '+'.")
        }
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
        // Truncated, not refused: the response to an oversized password must not depend on the account.
        let word = String(decoding: password.utf8.prefix(AccountRules.passwordLength.upperBound), as: UTF8.self)
        // An unknown address is checked against a random hash: the same work, and the same time.
        let stored =
            row.flatMap(Self.passwordHash)
            ?? PasswordHash(cost: cost, salt: random.bytes(16), hash: random.bytes(32))
        guard try Self.wrapping({ try stored.matches(word) }), let row else { return nil }
        let account = Self.account(row)
        return account.isDisabled ? nil : account
    }

    package func passwordMark(of account: Account.ID) throws(DirectoryError) -> [UInt8] {
        let salt = try read { db in
            try Data.fetchOne(
                db.cachedStatement(sql: "SELECT salt FROM accounts WHERE id = ? AND salt IS NOT NULL"),
                arguments: [account.number]
            )
        }
        return salt.map { Array($0) } ?? []
    }

    /// Returns all accounts, in the order of their creation.
    package func accounts() throws(DirectoryError) -> [Account] {
        try read { db in try Row.fetchAll(db, sql: "SELECT * FROM accounts ORDER BY id").map(Self.account) }
    }

    /// Throws if the address is taken or is not an address, or if the password has a wrong length.
    @discardableResult
    package func addAccount(email: String, password: String) throws(DirectoryError) -> Account {
        if let objection = EmailAddress.objection(to: email) { throw .invalid(objection) }
        guard let login = AccountRules.canonicalEmail(email) else {
            throw .invalid("\(email) is not an e-mail address.")
        }
        let hash = try hashed(password)
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
    package func setPassword(_ password: String, of account: Account.ID) throws(DirectoryError) {
        let hash = try hashed(password)
        try revoke { db in
            try db.execute(
                sql: "UPDATE accounts SET salt = ?, hash = ?, rounds = ?, block_size = ?, parallelism = ? WHERE id = ?",
                arguments: [
                    Data(hash.salt), Data(hash.hash), hash.cost.rounds, hash.cost.blockSize, hash.cost.parallelism,
                    account.number,
                ]
            )
            try endSessions(of: account, in: nil, db)
        }
    }

    /// Disables or enables an account; disabling ends all of its sessions, and enabling restores none.
    package func setDisabled(_ isDisabled: Bool, of account: Account.ID) throws(DirectoryError) {
        try revoke { db in
            try db.execute(
                sql: "UPDATE accounts SET disabled = ? WHERE id = ?",
                arguments: [isDisabled, account.number]
            )
            if isDisabled { try endSessions(of: account, in: nil, db) }
        }
    }

    /// Deletes an account, its sessions and its devices; its user names in containers are not used again.
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
        let fresh = "_" + random.hex(byteCount: 16)
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

    func account(_ way: LoginWay, login: String) throws(DirectoryError) -> Account? {
        try read { db in
            try Row.fetchOne(
                db.cachedStatement(sql: "SELECT * FROM accounts WHERE is_dev = ? AND login = ?"),
                arguments: [way.rawValue, login]
            ).map(Self.account)
        }
    }

    func hashed(_ password: String) throws(DirectoryError) -> PasswordHash {
        let allowed = AccountRules.passwordLength
        guard allowed.contains(password.utf8.count) else {
            throw .invalid(
                "A password has at least \(allowed.lowerBound) characters and at most \(allowed.upperBound) bytes."
            )
        }
        return try Self.wrapping { try PasswordHash(of: password, salt: random.bytes(16), cost: cost) }
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
            login: LoginWay(rawValue: row["is_dev"]).login(row["login"]),
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

/// The kind of a login, as stored in the file.
struct LoginWay: RawRepresentable {
    /// The column `is_dev`.
    var rawValue: Int

    static let email = LoginWay(rawValue: 0)
    static let dev = LoginWay(rawValue: 1)
    /// Issuer, a line feed, subject.
    static let foreign = LoginWay(rawValue: 2)

    func login(_ text: String) -> Account.Login {
        switch rawValue {
        case Self.dev.rawValue: return .dev(text)
        case Self.foreign.rawValue:
            let parts = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            return .foreign(issuer: parts.first ?? "", subject: parts.count > 1 ? parts[1] : "")
        default: return .email(text)
        }
    }
}
