import Foundation
import GRDB
import Testing

@testable import RelayStore

/// Migration of a file from before shared hierarchies recorded the former change and type of records that moved or
/// left.
@Suite struct LastSeenTests {
    @Test func anEarlierFileIsMigrated() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appending(path: "store.sqlite").path
        let migrator = StoreLayout.migrator
        let version = try #require(migrator.migrations.firstIndex(of: "21 last seen"))
        try EarlierLayout.makeStore(path, version: version, records: 3)
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        try queue.write { database in
            // A record at its own position, one that entered with an ancestor, and one that has left.
            try database.execute(
                sql: """
                    INSERT INTO share (id, zone, name, root, guid, public_permission) VALUES (1, 2, 's', 'r0', 'g', 1);
                    INSERT INTO share_entry (share, name, zone, change, gone) VALUES
                        (1, 'r0', 2, 2, 0), (1, 'r1', 2, 100, 0), (1, 'r2', 2, 101, 1);
                    """
            )
        }
        try migrator.migrate(queue)
        let rows = try queue.read { database in
            try Row.fetchAll(database, sql: "SELECT name, change, record, type FROM share_entry ORDER BY name")
        }
        #expect(rows.map { $0["name"] as String } == ["r0", "r1", "r2"])
        #expect(rows.map { $0["change"] as Int } == [2, 100, 101])
        #expect(rows.map { $0["record"] as Int? } == [nil, 3, nil])
        #expect(rows.map { $0["type"] as Int? } == [nil, nil, 1])
    }
}
