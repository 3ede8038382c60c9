import GRDB
import Records
package import RelayCore
import Synchronization

/// What was done by those who run the relay.
extension AccountStore {
    /// Entries older than the newest of so many are forgotten now and then.
    private static let kept = 100_000

    package func note(_ entry: AuditEntry) throws(DirectoryError) {
        try write { db in try Self.insert(entry, db) }
    }

    /// Runs `body`, whose first write notes the entry in its own commit: nothing is done that the log lacks, and a disk that
    /// has no room for the entry has not done it either.
    ///
    /// For one thread that has the store to itself. Where `body` writes nothing here, the entry is noted behind it.
    package func noting<Value>(_ entry: AuditEntry, _ body: () throws -> Value) throws -> Value {
        noteOfNextWrite.withLock { $0 = entry }
        defer { _ = takeNote() }
        let value = try body()
        if let entry = takeNote() { try note(entry) }
        return value
    }

    func takeNote() -> AuditEntry? {
        noteOfNextWrite.withLock { entry in
            defer { entry = nil }
            return entry
        }
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
        guard db.lastInsertedRowID % 1_000 == 0 else { return }
        try db.execute(
            sql: "DELETE FROM audit WHERE id <= ?",
            arguments: [db.lastInsertedRowID - Int64(Self.kept)]
        )
    }

    /// The newest first, `limit` at most: those before `number` that have `words` in their actor, action, container or
    /// subject.
    package func auditEntries(
        before number: Int64? = nil,
        with words: String = "",
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
