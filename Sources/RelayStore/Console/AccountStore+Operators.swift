import Crypto
import Foundation
import GRDB
import Records
package import RelayCore

/// Operators, who may use the console.
extension AccountStore {
    package func operators() throws(DirectoryError) -> [Operator] {
        try read { db in try Row.fetchAll(db, sql: "SELECT * FROM operators ORDER BY name").map(Self.operator) }
    }

    // MARK: One-time links

    /// Creates a one-time link and returns its code, which is not stored.
    ///
    /// The link sets a new password for the named operator, or creates a new operator.
    package func makeOperatorLink(for name: String? = nil) throws(DirectoryError) -> String {
        let code = OperatorLink.code(random.bytes(12))
        let now = time.now()
        let wanted = name.flatMap(Operator.canonicalName)
        try write { db in
            if let wanted {
                guard try Self.row(named: wanted, db) != nil else { throw DirectoryError.missing("operator \(wanted)") }
            }
            try db.execute(sql: "DELETE FROM operator_links WHERE expires < ?", arguments: [now.milliseconds])
            try db.execute(
                sql: "INSERT INTO operator_links(hash, operator, expires) VALUES (?, ?, ?)",
                arguments: [Self.hash(code), wanted, (now + OperatorLink.lifetime).milliseconds]
            )
        }
        return code
    }

    /// Returns whether a link's code is valid, and for which operator.
    package func operatorLink(_ code: String) throws(DirectoryError) -> (isGood: Bool, name: String?) {
        let now = time.now().milliseconds
        return try read { db in
            let row = try Row.fetchOne(
                db,
                sql: "SELECT operator FROM operator_links WHERE hash = ? AND expires >= ?",
                arguments: [Self.hash(OperatorLink.canonical(code)), now]
            )
            return (row != nil, row?["operator"])
        }
    }

    /// Uses up a link: creates an operator, or sets an operator's password and ends their sessions and passkeys.
    package func useOperatorLink(
        _ code: String,
        name: String,
        password: String
    ) throws(DirectoryError) -> Operator {
        guard let name = Operator.canonicalName(name) else {
            throw .invalid("Choose a name of 1 to 128 bytes, such as your e-mail address.")
        }
        let hash = try hashed(password)
        let now = time.now().milliseconds
        let user = "_" + random.hex(byteCount: 16)
        return try write { db in
            let key = Self.hash(OperatorLink.canonical(code))
            guard
                let link = try Row.fetchOne(
                    db,
                    sql: "SELECT operator FROM operator_links WHERE hash = ? AND expires >= ?",
                    arguments: [key, now]
                )
            else { throw DirectoryError.missing("link with this code") }
            let known = try Self.row(named: name, db)
            if let wanted = link["operator"] as String? {
                guard wanted == name else { throw DirectoryError.invalid("This link is for \(wanted).") }
            } else if known != nil {
                throw DirectoryError.exists("operator \(name)")
            }
            // Earlier links for this operator, which may have been lost, become invalid.
            try db.execute(sql: "DELETE FROM operator_links WHERE hash = ? OR operator = ?", arguments: [key, name])
            try db.execute(
                sql: """
                    INSERT INTO operators(name, user_name, salt, hash, rounds, block_size, parallelism, created)
                    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (name) DO UPDATE SET
                    salt = ?3, hash = ?4, rounds = ?5, block_size = ?6, parallelism = ?7
                    """,
                arguments: [
                    name, user, Data(hash.salt), Data(hash.hash), hash.cost.rounds, hash.cost.blockSize,
                    hash.cost.parallelism, now,
                ]
            )
            guard let row = try Self.row(named: name, db) else {
                throw DirectoryError.unavailable("an operator vanished")
            }
            let made = Self.operator(row)
            try db.execute(sql: "DELETE FROM operator_sessions WHERE operator = ?", arguments: [made.id])
            // The operator may have lost access to somebody else, whose passkeys must not remain.
            try db.execute(sql: "DELETE FROM operator_passkeys WHERE operator = ?", arguments: [made.id])
            return made
        }
    }

    // MARK: Passwords

    /// Returns the operator if the password is correct; an unknown name takes the same time.
    package func `operator`(name: String, password: String) throws(DirectoryError) -> Operator? {
        let row = try read { db in try Self.row(named: Operator.canonicalName(name) ?? "", db) }
        let stored =
            row.map(Self.passwordHash) ?? PasswordHash(cost: cost, salt: random.bytes(16), hash: random.bytes(32))
        let cut = String(decoding: password.utf8.prefix(AccountRules.passwordLength.upperBound), as: UTF8.self)
        let isRight = try Self.wrapping { try stored.matches(cut) }
        return isRight ? row.map(Self.operator) : nil
    }

    /// Sets a password, and ends all sessions of the operator but `kept`: others may have known the old password.
    package func setPassword(
        _ password: String,
        ofOperator id: Int64,
        keeping kept: String
    ) throws(DirectoryError) {
        let hash = try hashed(password)
        try write { db in
            try db.execute(
                sql: """
                    UPDATE operators SET salt = ?, hash = ?, rounds = ?, block_size = ?, parallelism = ? WHERE id = ?
                    """,
                arguments: [
                    Data(hash.salt), Data(hash.hash), hash.cost.rounds, hash.cost.blockSize, hash.cost.parallelism, id,
                ]
            )
            try db.execute(
                sql: "DELETE FROM operator_sessions WHERE operator = ? AND hash <> ?",
                arguments: [id, Self.hash(kept)]
            )
        }
    }

    /// Removes an operator with all sessions, passkeys and links, each of which would give access again.
    package func removeOperator(_ name: String) throws(DirectoryError) {
        let name = Operator.canonicalName(name) ?? ""
        try write { db in
            guard let row = try Self.row(named: name, db) else { throw DirectoryError.missing("operator \(name)") }
            let id: Int64 = row["id"]
            try db.execute(sql: "DELETE FROM operator_sessions WHERE operator = ?", arguments: [id])
            try db.execute(sql: "DELETE FROM operator_passkeys WHERE operator = ?", arguments: [id])
            try db.execute(sql: "DELETE FROM operator_links WHERE operator = ?", arguments: [name])
            try db.execute(sql: "DELETE FROM operators WHERE id = ?", arguments: [id])
        }
    }

    // MARK: Sign-ins

    /// Signs an operator in; returns the secret for the browser's cookie, which is not stored.
    package func startOperatorSession(_ id: Int64) throws(DirectoryError) -> String {
        let secret = random.hex(byteCount: 32)
        let now = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "INSERT INTO operator_sessions(hash, operator, created, used) VALUES (?, ?, ?, ?)",
                arguments: [Self.hash(secret), id, now, now]
            )
        }
        return secret
    }

    /// Returns the operator of a session if it is valid; records its use once a minute.
    package func operatorSession(
        _ secret: String,
        _ rules: OperatorSessionRules
    ) throws(DirectoryError) -> Operator? {
        let key = Self.hash(secret)
        let found = try read { db in
            try Row.fetchOne(
                db.cachedStatement(
                    sql: """
                        SELECT o.*, s.created AS begun, s.used FROM operator_sessions s
                        JOIN operators o ON o.id = s.operator WHERE s.hash = ?
                        """
                ),
                arguments: [key]
            )
        }
        guard let found else { return nil }
        let now = time.now()
        let used = Timestamp(milliseconds: found["used"])
        guard rules.isGood(created: Timestamp(milliseconds: found["begun"]), used: used, at: now) else {
            try endOperatorSession(secret)
            return nil
        }
        if now > used + .seconds(60) {
            try write { db in
                try db.execute(
                    sql: "UPDATE operator_sessions SET used = ? WHERE hash = ?",
                    arguments: [now.milliseconds, key]
                )
            }
        }
        return Self.operator(found)
    }

    package func endOperatorSession(_ secret: String) throws(DirectoryError) {
        try write { db in
            try db.execute(sql: "DELETE FROM operator_sessions WHERE hash = ?", arguments: [Self.hash(secret)])
        }
    }

    // MARK: Rows

    private static func hash(_ text: String) -> Data { Data(SHA256.hash(data: Array(text.utf8))) }

    private static func row(named name: String, _ db: Database) throws -> Row? {
        try Row.fetchOne(db.cachedStatement(sql: "SELECT * FROM operators WHERE name = ?"), arguments: [name])
    }

    private static func `operator`(_ row: Row) -> Operator {
        Operator(
            id: row["id"],
            name: row["name"],
            user: UserID(row["user_name"]),
            created: Timestamp(milliseconds: row["created"])
        )
    }

    private static func passwordHash(_ row: Row) -> PasswordHash {
        PasswordHash(
            cost: ScryptCost(rounds: row["rounds"], blockSize: row["block_size"], parallelism: row["parallelism"]),
            salt: Array(row["salt"] as Data),
            hash: Array(row["hash"] as Data)
        )
    }
}
