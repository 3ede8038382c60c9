import Foundation
import GRDB
import Records
import SyncCore
import Synchronization
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Files of other versions of the library.
@Suite(.timeLimit(.minutes(15))) struct StoreVersionTests {
    private let relay: TestRelay
    private let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func open() async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
    }

    /// A different fingerprint means that existing files lack a change: make it a migration instead.
    ///
    /// Until the first release, the tables and this number may be changed together.
    @Test("the mirror's tables of this version stay as they are") func tables() throws {
        let statements = try DatabaseQueue().write { db in
            try StoreTables.create(db, name: "")
            return try String.fetchAll(db, sql: "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        }
        #expect(StoreTables.version == 2)
        #expect(schemaFingerprint(statements) == "d824c2b35a6e28af")
    }

    @Test(
        "a file of another version is refused and keeps its unsent changes",
        arguments: [(nil, "no released version"), (0, "no released version"), (3, "Use the newer version again")],
    )
    func otherVersions(version: Int?, words: String) async throws {
        let before = try await open()
        try before.save(Note(id: "a", title: "unsent"))
        let file = try #require(before.container.database(of: before.store))
        try await file.write { try State.set($0, .version, version) }
        await before.container.close()
        do {
            _ = try await open()
            Issue.record("The store was opened.")
        } catch let error as MirrorError {
            #expect(error.code == .unsupportedStoreVersion(version ?? 0))
            #expect(error.explanation.hasPrefix("private.sqlite has layout \(version ?? 0), "), "\(error)")
            #expect(error.explanation.contains(words), "\(error)")
        }
        let left = try DatabaseQueue(path: folder.url.appendingPathComponent("private.sqlite").path)
        try await left.write { db in
            #expect(try String.fetchAll(db, sql: "SELECT oid FROM mirror_outbox") == ["a"])
            try State.set(db, .version, 2)
        }
        try left.close()
        let phone = try await open()
        #expect(try await phone.container.pendingExportCount(phone.store) == 1)
        try await phone.sync()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    // MARK: Version 1

    private struct Item: SyncedRecord, Equatable {
        var id = RecordName()
        var word = ""

        init() {}
    }

    /// Writes the file of version 1 and returns its path.
    private func writeVersion1() throws -> String {
        let path = folder.url.appendingPathComponent("items.sqlite").path
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            // Unfinished transactions reach the WAL, as those of a large file do.
            try db.execute(sql: "PRAGMA cache_size = 1")
        }
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.write { try $0.execute(sql: storeOfVersion1) }
        try pool.close()
        return path
    }

    private static let states = [
        "awaited": "awaited", "back": "outdated", "copying": "copying", "creating": "creating", "deleted": "synced",
        "edited": "synced", "gone": "invisible", "locked": "locked", "moving": "moving", "new": "new",
        "outdated": "outdated", "synced": "synced", "unknown": "synced",
    ]

    /// Opens a converted file, or one that is to be converted, and checks that nothing is lost.
    private func check(_ path: String, isMirrored: Bool) throws {
        let url = URL(filePath: path)
        let cloud = isMirrored ? CloudOptions(container: relay.device(of: "alice").container, scope: .private) : nil
        let file = try StoreFile(
            StoreDescription(url: url, cloud: cloud),
            model: MirrorModel(Item.self),
            path: path
        )
        try file.pool.write { db in
            #expect(try State.number(db, .version) == 2)
            let new = try DatabaseQueue().write { new in
                try StoreTables.create(new, name: "")
                return try Self.columns(new)
            }
            let columns = try Self.columns(db)
            #expect(new.isSubset(of: columns))
            #expect(columns.subtracting(new) == ["mirror_outbox.isAttempted", "mirror_record.isLocked"])
            let records = try Row.fetchAll(db, sql: "SELECT name, state, tag FROM mirror_record")
            let states = Dictionary(records.map { ($0[0] as String, $0[1] as String) }) { $1 }
            #expect(states == Self.states)
            for record in records {
                let hasVersion = ZoneMirror.RecordState(rawValue: record[1])?.hasVersion == true
                #expect((record[2] as String?) == (hasVersion ? "t1" : nil), "\(record)")
            }
            let moves = try Row.fetchAll(db, sql: "SELECT name, tag FROM mirror_move ORDER BY name")
            #expect(moves == [["name": "copying", "tag": nil], ["name": "moving", "tag": "t1"]])
            let unsent = ["edited", "deleted", "unsent", "new", "creating", "moving", "copying", "back"]
            #expect(try OutboxRow.all(db).map(\.oid) == unsent)
            #expect(try OutboxRow.find(db, "edited")?.state == .waiting)
            #expect(try OutboxRow.find(db, "deleted")?.operation == .delete)
            #expect(try KnownRecord.find(db, oid: "edited")?.serverFields() == ["CD_word": .string("x")])
            // The triggers know which deletions the relay must learn of.
            let gone = ["unsent", "new", "creating", "moving", "outdated"]
            for name in gone { try db.execute(sql: "DELETE FROM Item WHERE id = ?", arguments: [name]) }
            #expect(try gone.filter { try OutboxRow.find(db, $0) != nil } == ["creating", "moving", "outdated"])
        }
    }

    /// The columns and indexes of the mirror's tables.
    private static func columns(_ db: Database) throws -> Set<String> {
        try String.fetchSet(
            db,
            sql: """
                SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c
                WHERE t.type = 'table' AND t.name LIKE 'mirror\\_%' ESCAPE '\\'
                UNION SELECT sql FROM sqlite_schema WHERE type = 'index' AND name LIKE 'mirror\\_%' ESCAPE '\\'
                """
        )
    }

    @Test("a file of version 1 is converted when it is opened", arguments: [true, false])
    func conversion(isMirrored: Bool) throws { try check(try writeVersion1(), isMirrored: isMirrored) }

    @Test("a kill at any statement of the conversion loses nothing") func killedConversion() throws {
        let path = try writeVersion1()
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA cache_size = 1") }
        let pool = try DatabasePool(path: path, configuration: configuration)
        let remains = Mutex<[TemporaryFolder]>([])
        try pool.write { db in
            db.trace { _ in
                guard let copy = try? TemporaryFolder() else { return }
                for end in ["", "-wal"] {
                    let target = copy.url.appendingPathComponent("items.sqlite" + end)
                    try? FileManager.default.copyItem(at: URL(filePath: path + end), to: target)
                }
                remains.withLock { $0.append(copy) }
            }
            try StoreTables.create(db, name: "items.sqlite")
            db.trace(options: [])
        }
        try pool.close()
        let folders = remains.withLock { $0 }
        #expect(folders.count > 10)
        for folder in folders {
            try check(folder.url.appendingPathComponent("items.sqlite").path, isMirrored: true)
        }
        try check(path, isMirrored: true)
    }

    @Test("a device goes on from a file of version 1 where it was") func conversionInUse() async throws {
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        let before = try await open()
        for id in ["a", "b", "c"] { try before.save(Note(id: RecordName(id), title: id)) }
        for mirror in [before, laptop] { try await mirror.sync() }
        let context = before.context()
        try context.edit(Note.self, "a") { $0.title = "edited" }
        try context.delete(Note.self, id: "b")
        try context.insert(Note(id: "d", title: "new"))
        try context.save()
        before.device.network.fail(request: 1, of: "records/modify", by: .losesAnswer)
        await #expect(throws: MirrorError.self) { try await before.container.sendChanges() }
        let there = laptop.context()
        try there.edit(Note.self, "c") { $0.title = "theirs" }
        try there.save()
        try await laptop.sync()
        await before.container.close()
        let file = try DatabaseQueue(path: folder.url.appendingPathComponent("private.sqlite").path)
        try await file.write { try Self.returnToVersion1($0) }
        try file.close()
        let after = try await open()
        for mirror in [after, laptop, after] { try await mirror.sync() }
        for mirror in [after, laptop] {
            #expect(try mirror.titles == ["a": "edited", "c": "theirs", "d": "new"])
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// Writes a file of this version as version 1 has written it.
    private static func returnToVersion1(_ db: Database) throws {
        try db.execute(
            sql: """
                ALTER TABLE mirror_record ADD COLUMN isLocked INTEGER NOT NULL DEFAULT 0;
                ALTER TABLE mirror_outbox ADD COLUMN isAttempted INTEGER NOT NULL DEFAULT 0;
                CREATE TABLE mirror_departed(zone INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY(zone, name));
                UPDATE mirror_outbox SET isAttempted = 1
                WHERE oid IN (SELECT oid FROM mirror_record WHERE state IN ('creating', 'copying'));
                UPDATE mirror_record SET tag = '0' WHERE state = 'outdated';
                UPDATE mirror_record SET tag = '00' WHERE state = 'awaited';
                DROP INDEX mirror_record_state;
                """
        )
        try RecordTable.replaceInTriggers(
            db,
            RecordTable.deletionIsUnsent,
            by: RecordTable.deletionIsUnsentByFlags
        )
        try db.execute(sql: "ALTER TABLE mirror_record DROP COLUMN state")
        try State.set(db, .version, 1)
    }
}
