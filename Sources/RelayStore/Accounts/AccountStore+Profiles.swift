import Foundation
import GRDB
package import Records
package import RelayCore

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

    /// Sets or, with `nil`, removes the telephone number of an account.
    ///
    /// Throws `invalid` if the text cannot be a telephone number.
    package func setPhone(_ phone: String?, of account: Account.ID) throws(DirectoryError) {
        if let objection = phone.flatMap(PhoneNumber.objection) { throw .invalid(objection) }
        let number = phone.flatMap(AccountRules.canonicalPhone)
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

    package func account(for person: ForeignPerson) throws(DirectoryError) -> Account {
        let login = person.issuer + "\n" + person.subject
        if let known = try account(.foreign, login: login), known.email == person.email, known.phone == person.phone,
            known.name == person.name
        {
            return known
        }
        let now = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "INSERT OR IGNORE INTO accounts(is_dev, login, created) VALUES (?, ?, ?)",
                arguments: [LoginWay.foreign.rawValue, login, now]
            )
            guard
                let id = try Int64.fetchOne(
                    db,
                    sql: "SELECT id FROM accounts WHERE is_dev = ? AND login = ?",
                    arguments: [LoginWay.foreign.rawValue, login]
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
