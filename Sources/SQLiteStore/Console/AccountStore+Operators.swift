import Foundation
import GRDB
import Records
package import RelayCore
import RelaySystem
import StoreKit

/// Operators, who may use the console.
extension AccountStore {
    package func operators() throws(DirectoryError) -> [Operator] {
        try read { db in try Row.fetchAll(db, sql: "SELECT * FROM operators ORDER BY name").map(Self.operator) }
    }

    // MARK: One-time links

    package func makeOperatorLink(for name: String?) throws(DirectoryError) -> String {
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

    package func useOperatorLink(
        _ code: String,
        name: String,
        password: String
    ) throws(DirectoryError) -> Operator {
        let name = try checkedOperatorName(name, link: code, password: password)
        let hash = try credentials.hashed(password)
        let now = time.now().milliseconds
        let user = credentials.userName().recordName
        return try revoke { db in
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
            try setPassword(hash, ofAccount: name, db)
            try db.execute(sql: "DELETE FROM operator_sessions WHERE operator = ?", arguments: [made.id])
            // The operator may have lost access to somebody else, whose passkeys must not remain.
            try db.execute(sql: "DELETE FROM operator_passkeys WHERE operator = ?", arguments: [made.id])
            return made
        }
    }

    // MARK: Passwords

    package func `operator`(name: String, password: String) throws(DirectoryError) -> Operator? {
        let row = try read { db in try Self.row(named: Operator.canonicalName(name) ?? "", db) }
        return try credentials.matches(password, row.map(Self.passwordHash)) ? row.map(Self.operator) : nil
    }

    package func setPassword(
        _ password: String,
        ofOperator id: Int64,
        keeping kept: String
    ) throws(DirectoryError) {
        let hash = try credentials.hashed(password)
        try revoke { db in
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
            let name = try String.fetchOne(db, sql: "SELECT name FROM operators WHERE id = ?", arguments: [id])
            try setPassword(hash, ofAccount: name ?? "", db)
        }
    }

    /// Sets the password of the account with an operator's name, if there is one: both are one sign-in.
    private func setPassword(_ hash: PasswordHash, ofAccount name: String, _ db: Database) throws {
        let number = try Int64.fetchOne(
            db,
            sql: "SELECT id FROM accounts WHERE is_dev = 0 AND login = ?",
            arguments: [AccountRules.canonicalEmail(name) ?? name]
        )
        if let number { try setPassword(hash, of: Account.ID(number), db) }
    }

    /// Sets the password of the operator with an account's address, if there is one, and ends the operator's sessions.
    func setPassword(_ hash: PasswordHash, ofOperator address: String, _ db: Database) throws {
        guard let row = try Self.row(named: Operator.canonicalName(address) ?? "", db) else { return }
        let id: Int64 = row["id"]
        try db.execute(
            sql: "UPDATE operators SET salt = ?, hash = ?, rounds = ?, block_size = ?, parallelism = ? WHERE id = ?",
            arguments: [
                Data(hash.salt), Data(hash.hash), hash.cost.rounds, hash.cost.blockSize, hash.cost.parallelism, id,
            ]
        )
        try db.execute(sql: "DELETE FROM operator_sessions WHERE operator = ?", arguments: [id])
    }

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
        if now > used + DirectoryRules.useInterval {
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

extension AccountStore {
    package func addPasskey(_ passkey: Passkey) throws(DirectoryError) {
        try write { db in
            let count = try Int.fetchOne(
                db,
                sql: "SELECT count(*) FROM operator_passkeys WHERE operator = ?",
                arguments: [passkey.operatorID]
            )
            guard (count ?? 0) < DirectoryRules.mostPasskeys else {
                throw DirectoryError.invalid("You have \(DirectoryRules.mostPasskeys) passkeys. Delete one first.")
            }
            let known = try Bool.fetchOne(
                db,
                sql: "SELECT 1 FROM operator_passkeys WHERE id = ?",
                arguments: [Data(passkey.id)]
            )
            guard known != true else { throw DirectoryError.exists("passkey like this") }
            try db.execute(
                sql: """
                    INSERT INTO operator_passkeys(
                        id, operator, name, algorithm, public_key, host, sign_count, created
                    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    Data(passkey.id), passkey.operatorID, passkey.name, passkey.algorithm, Data(passkey.publicKey),
                    passkey.host, Int64(passkey.signCount), passkey.created.milliseconds,
                ]
            )
        }
    }

    package func passkeys(of id: Int64) throws(DirectoryError) -> [Passkey] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: "SELECT * FROM operator_passkeys WHERE operator = ? ORDER BY created",
                arguments: [id]
            ).map(Self.passkey)
        }
    }

    package func passkey(_ id: [UInt8]) throws(DirectoryError) -> (Passkey, Operator)? {
        let found = try read { db -> (Passkey, Int64)? in
            let row = try Row.fetchOne(
                db,
                sql: "SELECT * FROM operator_passkeys WHERE id = ?",
                arguments: [Data(id)]
            )
            return row.map { (Self.passkey($0), $0["operator"]) }
        }
        guard let found, let person = try operators().first(where: { $0.id == found.1 }) else { return nil }
        return (found.0, person)
    }

    package func usePasskey(_ id: [UInt8], signCount: UInt32) throws(DirectoryError) {
        let now = time.now().milliseconds
        try write { db in
            try db.execute(
                sql: "UPDATE operator_passkeys SET used = ?, sign_count = ? WHERE id = ?",
                arguments: [now, Int64(signCount), Data(id)]
            )
        }
    }

    package func removePasskey(_ id: [UInt8], ofOperator owner: Int64) throws(DirectoryError) {
        try write { db in
            try db.execute(
                sql: "DELETE FROM operator_passkeys WHERE id = ? AND operator = ?",
                arguments: [Data(id), owner]
            )
            guard db.changesCount > 0 else { throw DirectoryError.missing("passkey like this") }
        }
    }

    private static func passkey(_ row: Row) -> Passkey {
        Passkey(
            id: Array(row["id"] as Data),
            operatorID: row["operator"],
            name: row["name"],
            algorithm: row["algorithm"],
            publicKey: Array(row["public_key"] as Data),
            host: row["host"],
            signCount: UInt32(clamping: row["sign_count"] as Int64),
            created: Timestamp(milliseconds: row["created"]),
            used: (row["used"] as Int64?).map(Timestamp.init(milliseconds:))
        )
    }
}

/// The audit log of operators' actions.
extension AccountStore {
    package func note(_ entry: AuditEntry) throws(DirectoryError) {
        try write { db in try Self.insert(entry, db) }
    }

    package func withAuditEntry<Value>(_ entry: AuditEntry, _ body: () throws -> Value) throws -> Value {
        try auditEntryOfNextWrite.run(entry, body) { try note($0) }
    }

    static func insert(_ entry: AuditEntry, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO audit(at, actor, action, container, environment, subject, detail)
                VALUES (?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                entry.at.milliseconds, entry.actor, entry.action, entry.home?.container.name,
                entry.home?.environment.rawValue, entry.subject, entry.detail,
            ]
        )
        guard db.lastInsertedRowID % DirectoryRules.auditTrimInterval == 0 else { return }
        try db.execute(
            sql: "DELETE FROM audit WHERE id <= ?",
            arguments: [db.lastInsertedRowID - DirectoryRules.keptAuditEntries]
        )
    }

    package func auditEntries(
        before number: Int64?,
        with words: String,
        limit: Int
    ) throws(DirectoryError) -> [AuditEntry] {
        try read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT * FROM audit WHERE id < ?1 AND (?2 = '' OR instr(lower(
                        actor || ' ' || action || ' ' || coalesce(container, '') || ' ' || subject), lower(?2)) > 0)
                    ORDER BY id DESC LIMIT ?3
                    """,
                arguments: [number ?? .max, words, limit]
            ).map { row in
                var entry = AuditEntry(
                    at: Timestamp(milliseconds: row["at"]),
                    actor: row["actor"],
                    action: row["action"],
                    subject: row["subject"],
                    detail: row["detail"]
                )
                entry.number = row["id"]
                if let name = row["container"] as String?, let container = ContainerID(name),
                    let environment = Environment(rawValue: row["environment"] ?? "")
                {
                    entry.home = ContainerEnvironment(container, environment)
                }
                return entry
            }
        }
    }
}
