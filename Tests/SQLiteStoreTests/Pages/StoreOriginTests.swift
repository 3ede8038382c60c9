import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import TestSupport
import Testing

/// A file in a store's place that is no store, or of a later version, is not changed.
@Suite struct StoreOriginTests {
    private let folder = ScratchFolder()
    private let home: ContainerEnvironment
    private var accounts: String { folder.path + "/relay.sqlite" }
    private var store: String { folder.path + "/containers/iCloud.org.example/development.sqlite" }

    init() throws {
        home = ContainerEnvironment(try #require(ContainerID("iCloud.org.example")), .development)
        _ = try AccountStore(folder: folder.path)
        try use()
    }

    private func use() throws {
        let stores = StoreFolder(folder: folder.path, draw: { 7 })
        defer { stores.close() }
        _ = try stores.store(of: home)
    }

    private func put(_ sql: String, at path: String) throws {
        for ending in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: path + ending) }
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: sql) }
        try queue.close()
    }

    private func tables(_ path: String) throws -> [String] {
        try DatabaseQueue(path: path).read { database in
            try String.fetchAll(database, sql: "SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    }

    /// Devices would take all their zones for deleted.
    @Test(arguments: ["letter", "grdb_migrations"]) func noStoreIsCreatedInAnotherProgramsFile(table: String) throws {
        try put("CREATE TABLE \(table) (identifier TEXT); INSERT INTO \(table) VALUES ('v1')", at: store)
        let refusal = #expect(throws: RelayError.self) { try use() }
        #expect(refusal?.code == .internalError)
        #expect(try tables(store) == [table])
        let place = try #require(DamageLog.places(of: store).first)
        #expect(place.contains("is not a relay's store"))
        #expect(place.hasSuffix("remove it and stores-here/iCloud.org.example.development"))
        #expect(try StoreCheck.faults(in: folder.path).map(\.what) == [place])
        // The operator follows the message's instructions for starting with an empty store.
        try FileManager.default.removeItem(atPath: store)
        try FileManager.default.removeItem(atPath: "\(folder.path)/stores-here/iCloud.org.example.development")
        try use()
    }

    /// A later version may have tables that contradict this version's writes.
    @Test func aStoreOfALaterVersionIsNotChanged() throws {
        let later = try DatabaseQueue(path: CheckedVFS.address(of: store))
        let version = try later.read { try Int.fetchOne($0, sql: "PRAGMA user_version") ?? 0 }
        try later.write { try $0.execute(sql: "PRAGMA user_version = 99") }
        let refusal = #expect(throws: RelayError.self) { try use() }
        #expect(refusal?.code == .tryAgainLater && refusal?.reason.contains("later version") == true)
        try later.write { try $0.execute(sql: "PRAGMA user_version = \(version)") }
        try later.close()
        try use()
    }

    /// Otherwise no token would be valid, and everyone who signs in again would be a new user.
    @Test func noAccountStoreIsCreatedInAnotherProgramsFile() throws {
        try put("CREATE TABLE letter (text TEXT)", at: accounts)
        #expect(throws: DirectoryError.self) { try AccountStore(folder: folder.path) }
        #expect(try tables(accounts) == ["letter"])
    }
}
