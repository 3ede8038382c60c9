import Foundation
import GRDB
package import Records
package import RelayCore
import StoreKit

extension StorageReport {
    /// Reads the file; an environment that has not been used is empty, and no file is created for it.
    ///
    /// - Parameters:
    ///   - folder: the data folder.
    ///   - home: the container and environment.
    ///   - month: the month of `sent`.
    ///   - count: the maximum number of `owners`.
    /// - Throws: `DirectoryError` if the file cannot be used.
    package init(folder: String, home: ContainerEnvironment, month: CalendarMonth, naming count: Int) throws {
        self.init()
        let path = StoreFolder.path(of: home, in: folder)
        guard FileManager.default.fileExists(atPath: path) else { return }
        do {
            let connections = try StoreConnections(.file(path: path))
            defer { connections.close() }
            try connections.read { database in
                let reader = SQLiteReader(database, names: StoreNames(), schema: Schema())
                publicUse = try reader.committedUse(of: Zone.publicOwner)
                users = try reader.committedUserCount()
                sent = try reader.transfer(in: month)
                owners = try Self.owners(count, database)
            }
        } catch {
            throw DirectoryError(error, in: path)
        }
    }

    /// Returns the size of one user's private database and the number of its zones; 0 if the environment is unused.
    package static func use(
        of user: UserID,
        in home: ContainerEnvironment,
        folder: String
    ) throws -> (bytes: Int64, zones: Int) {
        let path = StoreFolder.path(of: home, in: folder)
        guard FileManager.default.fileExists(atPath: path) else { return (0, 0) }
        do {
            let connections = try StoreConnections(.file(path: path))
            defer { connections.close() }
            return try connections.read { database in
                let reader = SQLiteReader(database, names: StoreNames(), schema: Schema())
                let zones = try reader.liveZones(of: user)
                return (try reader.committedUse(of: user).total, zones.count)
            }
        } catch {
            throw DirectoryError(error, in: path)
        }
    }

    /// Returns the names of the live records in a user's default zone, which has no feed to list them by.
    package static func defaultZoneNames(
        of user: UserID,
        in home: ContainerEnvironment,
        folder: String
    ) throws -> [String] {
        try names(
            """
            SELECT r.name FROM user u JOIN zone z ON z.owner = u.id JOIN record r ON r.zone = z.id
            WHERE u.name = ? AND z.name = ? AND z.deleted = 0 AND r.deleted = 0 ORDER BY r.name
            """,
            [user.recordName, ZoneID.defaultName],
            in: home,
            folder
        )
    }

    /// Returns the names of a user's live records in the public database, including that of type `Users`.
    package static func publicNames(
        madeBy user: UserID,
        in home: ContainerEnvironment,
        folder: String
    ) throws -> [String] {
        try names(
            """
            SELECT r.name FROM user u JOIN record r ON r.created_by = u.id
            WHERE u.name = ? AND r.zone = 1 AND r.deleted = 0 ORDER BY r.name
            """,
            [user.recordName],
            in: home,
            folder
        )
    }

    private static func names(
        _ sql: String,
        _ arguments: StatementArguments,
        in home: ContainerEnvironment,
        _ folder: String
    ) throws -> [String] {
        let path = StoreFolder.path(of: home, in: folder)
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        do {
            let connections = try StoreConnections(.file(path: path))
            defer { connections.close() }
            return try connections.read { try String.fetchAll($0, sql: sql, arguments: arguments) }
        } catch {
            throw DirectoryError(error, in: path)
        }
    }

    private static func owners(_ count: Int, _ database: Database) throws -> [Owner] {
        let statement = try SQL(
            """
            SELECT u.name, sum(z.record_bytes), sum(z.asset_bytes), count(*) FROM zone z JOIN user u ON u.id = z.owner
            WHERE z.deleted = 0 AND z.owner <> 1 GROUP BY z.owner
            ORDER BY sum(z.record_bytes) + sum(z.asset_bytes) DESC, u.name LIMIT ?
            """,
            in: database
        )
        statement.bind(1, Int64(count))
        defer { statement.reset() }
        var owners: [Owner] = []
        while try statement.step() {
            owners.append(
                Owner(
                    user: UserID(statement.text(0)),
                    use: StorageUse(records: statement.int(1), assets: statement.int(2)),
                    zones: Int(statement.int(3))
                )
            )
        }
        return owners
    }
}
