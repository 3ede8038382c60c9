import Foundation
import GRDB
package import Records
package import RelayCore

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
    /// 16 bytes, most significant first.
    var data: Data { withUnsafeBytes(of: number.bigEndian) { Data($0) } }

    init(_ data: Data) { self.init(data.reduce(0) { $0 << 8 | UInt128($1) }) }
}
