import GRDB
import Records
import RelayCore
import SQLiteStore
import Testing

@Suite struct OperatorStoreTests {
    private func entry(_ subject: String) -> AuditEntry {
        AuditEntry(at: Timestamp(milliseconds: 1), actor: "command line", action: "container.create", subject: subject)
    }

    /// If the disk is full between the two, a token would exist that was never shown.
    @Test func aChangeAndItsAuditEntryShareACommit() throws {
        let store = try AccountStore(inMemory: ())
        let first = try #require(ContainerID("iCloud.org.example.first"))
        let second = try #require(ContainerID("iCloud.org.example.second"))
        try store.withAuditEntry(entry("first")) { try store.addContainer(first) }
        try store.writer.write { try $0.execute(sql: "ALTER TABLE audit RENAME TO lost") }
        #expect(throws: DirectoryError.self) {
            try store.withAuditEntry(entry("second")) { try store.addContainer(second) }
        }
        #expect(try store.containers().map(\.container) == [first])
        // A later write does not commit it either.
        try store.addContainer(second)
        #expect(try store.containers().map(\.container) == [first, second])
    }
}
