import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import TestSupport
import Testing

@Suite struct FileLayoutTests {
    private let folder = ScratchFolder()
    private let home: ContainerEnvironment
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

    private func set(version: Int, of path: String) throws {
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: path))
        try queue.write { try $0.execute(sql: "PRAGMA user_version = \(version)") }
        try queue.close()
    }

    private static func sentence(_ version: Int) -> String {
        "its layout \(version) is older than 13, the first of a released zonecast: export its data with the build that wrote it, or start with a new data folder"
    }

    // MARK: The first released layout

    /// A different fingerprint means that existing files lack a change: make it a migration instead.
    ///
    /// Until the first release, `tables` and these numbers may be changed together with `baseline`.
    @Test(
        "the tables of the first layout stay as they are",
        arguments: [("development.sqlite", "cb555fc9a102c2da"), ("relay.sqlite", "cc446e1c79de3965")]
    )
    func tables(file: String, fingerprint: String) throws {
        let queue = try DatabaseQueue()
        let statements = try queue.inDatabase { database in
            try FileLayout(tables: FileLayout.of(file).tables).migrate(database)
            #expect(try Int.fetchOne(database, sql: "PRAGMA user_version") == 13)
            return try String.fetchAll(database, sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        }
        #expect(schemaFingerprint(statements) == fingerprint)
    }

    // MARK: Other versions

    @Test("accounts with an older layout are refused, and the file stays as it is", arguments: [0, 1, 12])
    func olderAccounts(version: Int) throws {
        let path = folder.path + "/relay.sqlite"
        try set(version: version, of: path)
        let before = FileManager.default.contents(atPath: path)
        do {
            _ = try AccountStore(folder: folder.path)
            Issue.record("The file was opened.")
        } catch {
            #expect(error == .unavailable("relay.sqlite: \(Self.sentence(version))."))
        }
        #expect(FileManager.default.contents(atPath: path) == before)
        #expect(try FolderLayout.ofAccounts(in: folder.path).file.error?.description == Self.sentence(version))
    }

    @Test("a store with an older layout is refused, and the file stays as it is", arguments: [0, 12])
    func olderStore(version: Int) throws {
        try set(version: version, of: store)
        let before = FileManager.default.contents(atPath: store)
        let refusal = #expect(throws: RelayError.self) { try use() }
        #expect(refusal?.code == .tryAgainLater && refusal?.reason.contains("unreleased version") == true)
        let schemas = SchemaFolder(folder: folder.path, container: home.container)
        let error = #expect(throws: DirectoryError.self) { try schemas.schema(of: .development) }
        #expect(error == .unavailable("\(store): \(Self.sentence(version))."))
        #expect(FileManager.default.contents(atPath: store) == before)
        #expect(FolderLayout.ofStores(in: folder.path).map(\.error?.description) == [Self.sentence(version)])
    }

    @Test("no backup of a folder with an older file is made, verified or restored", arguments: [true, false])
    func backups(isStore: Bool) throws {
        let (now, backups) = (Timestamp(milliseconds: 1), folder.path + "/backups")
        let backup = try Backup.create(of: folder.path, in: backups, now: now)
        let file = isStore ? "containers/iCloud.org.example/development.sqlite" : "relay.sqlite"
        for data in [folder.path, backup.path] { try set(version: 12, of: "\(data)/\(file)") }
        let words = "cannot be used: \(Self.sentence(12))."
        let refusal = #expect(throws: BackupFailure.self) { try Backup.create(of: folder.path, in: backups, now: now) }
        #expect(refusal?.description == "\(folder.path)/\(file) \(words)")
        let (checksum, bytes) = try BackupFiles.checksum(of: "\(backup.path)/\(file)")
        let manifest = "\(backup.path)/manifest.json"
        let wanted = try #require(backup.manifest.files.first { $0.path == file })
        let text = try String(contentsOfFile: manifest, encoding: .utf8)
            .replacing(wanted.checksum, with: checksum).replacing("\(wanted.bytes)", with: "\(bytes)")
        try text.write(toFile: manifest, atomically: true, encoding: .utf8)
        let older = try Backup(at: backup.path)
        #expect(older.verify() == ["\(file): \(Self.sentence(12))."])
        let target = ScratchFolder()
        let error = #expect(throws: BackupFailure.self) { try older.restore(to: target.path, now: now, draw: { 7 }) }
        #expect(error?.description == "\(backup.path)/\(file) \(words)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: target.path).isEmpty)
    }

    // MARK: Later layouts

    @Test("a file gets the migrations that it lacks, all or none") func migrations() throws {
        let first = FileLayout(tables: "CREATE TABLE a (x)")
        let (y, z) = ("ALTER TABLE a ADD COLUMN y", "ALTER TABLE a ADD COLUMN z")
        let broken = FileLayout(tables: first.tables, migrations: [y, "ALTER TABLE b ADD COLUMN z"])
        let third = FileLayout(tables: first.tables, migrations: [y, z])
        let queue = try DatabaseQueue()
        try queue.inDatabase { database in
            try first.migrate(database) { try $0.execute(sql: "INSERT INTO a VALUES (1)") }
            #expect(throws: DatabaseError.self) { try broken.migrate(database) }
            #expect(try database.columns(in: "a").map(\.name) == ["x"] && first.version(of: database) == 13)
            try third.migrate(database) { _ in Issue.record("The file is not empty.") }
            #expect(try database.columns(in: "a").map(\.name) == ["x", "y", "z"] && third.version(of: database) == 15)
            let error = #expect(throws: LayoutError.self) { try first.migrate(database) }
            #expect(error?.isNewer == true)
            #expect(error?.description.contains("layout 15, and this version knows 13") == true)
            #expect(try Int.fetchOne(database, sql: "SELECT x FROM a") == 1)
        }
        let fresh = try DatabaseQueue()
        try fresh.inDatabase { database in
            try third.migrate(database)
            #expect(try database.columns(in: "a").map(\.name) == ["x", "y", "z"] && third.version(of: database) == 15)
        }
    }
}
