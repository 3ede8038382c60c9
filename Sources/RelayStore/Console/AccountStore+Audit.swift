import GRDB
import Records
package import RelayCore
import Synchronization

/// The audit log of operators' actions.
extension AccountStore {
    /// Only about this many of the newest entries are kept.
    private static let kept = 100_000

    package func note(_ entry: AuditEntry) throws(DirectoryError) {
        try write { db in try Self.insert(entry, db) }
    }

    /// Runs `body`, whose first write adds the entry to the audit log in the same transaction.
    ///
    /// Nothing is thus done that the log lacks, and if the disk has no room for the entry, the action fails too. If
    /// `body` writes nothing here, the entry is added afterwards. Must be called by one thread that has the store to
    /// itself.
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

    /// Returns at most `limit` entries, newest first.
    ///
    /// Only entries before `number` that contain `words` in their actor, action, container or subject.
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
