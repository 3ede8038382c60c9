import Foundation
import GRDB
import RelayCore

/// Creates files in the layouts of earlier versions, for tests of the migrations.
package enum EarlierLayout {
    /// The number of layouts of a store's file.
    package static var storeVersions: Int { StoreLayout.migrator.migrations.count }

    /// The number of layouts of `relay.sqlite`.
    package static var accountVersions: Int { AccountSchema.version }

    /// Creates a store with the first `version` layouts and a zone of `records` records.
    package static func makeStore(_ path: String, version: Int, records: Int) throws {
        var configuration = Configuration()
        configuration.journalMode = .wal
        // Without page checksums, as in earlier versions.
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let migrator = StoreLayout.migrator
        try migrator.migrate(queue, upTo: migrator.migrations[version - 1])
        try queue.write { database in
            try database.execute(
                sql: """
                    INSERT INTO fact (name, value) VALUES ('epoch', 7);
                    INSERT INTO user (id, name) VALUES
                        (1, '_defaultOwner'), (2, '_0000000000000000000000000000000a');
                    """
            )
            try enterZones(database, lastChange: records + 1)
            try database.execute(
                sql: """
                    INSERT INTO record_type (id, name) VALUES (1, 'Note');
                    INSERT INTO zone_run (zone, run) VALUES (2, 0);
                    """
            )
            for number in 0..<records {
                try database.execute(
                    sql: """
                        INSERT INTO record (change, zone, name, type, deleted, created_at, created_by, created_device,
                            modified_at, modified_by, modified_device, fields)
                        VALUES (?, 2, ?, 1, 0, 1, 2, 1, 1, 2, 1, ?)
                        """,
                    arguments: [number + 2, "r\(number)", Data("{}".utf8)]
                )
            }
        }
        try queue.close()
    }

    /// Inserts the zone of the public database and one of user 2, into the one or two tables of the layout.
    private static func enterZones(_ database: Database, lastChange: Int) throws {
        try database.execute(
            sql: try database.tableExists("zone_row")
                ? """
                INSERT INTO zone_row (id, owner, name, identity) VALUES (1, 1, '_defaultZone', 7), (2, 2, 'Notes', 9);
                INSERT INTO zone_stamp (zone, last_change) VALUES (1, 1), (2, \(lastChange));
                """
                : """
                INSERT INTO zone (id, owner, name, identity, last_change) VALUES
                    (1, 1, '_defaultZone', 7, 1), (2, 2, 'Notes', 9, \(lastChange));
                """
        )
    }

    /// Creates a `relay.sqlite` with the first `version` layouts and one account.
    package static func makeAccounts(_ folder: String, version: Int) throws {
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: folder + "/relay.sqlite", configuration: configuration)
        try queue.write { database in
            try AccountSchema.make(version: version, in: database, key: [1, 2])
            try database.execute(
                sql: "INSERT INTO accounts (is_dev, login, created) VALUES (0, 'eve@example.org', 1)"
            )
        }
        try queue.close()
    }
}
