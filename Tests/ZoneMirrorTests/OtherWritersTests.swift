import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Programs without this module that write to a store's file through their own SQLite connections.
@Suite(.timeLimit(.minutes(15))) struct OtherWritersTests {
    let relay: TestRelay
    let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func phone() async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: "phone"), folder: folder)
    }

    private func laptop() async throws -> Mirrored { try await Mirrored(relay.device(of: "alice", named: "laptop")) }

    private func program(_ file: String = "private.sqlite") throws -> DatabaseQueue {
        try DatabaseQueue(path: folder.url.appendingPathComponent(file).path)
    }

    /// Deletes the folder through the API, without a mirror.
    private func deleteFolder(_ mirror: Mirrored) async throws {
        let zoneID = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        try await mirror.device.privateDatabase.deleteRecord(withID: CKRecord.ID(recordName: "f", zoneID: zoneID))
    }

    /// An `INSERT OR FAIL` statement fails halfway while unresolved links are being resolved.
    @Test func aStatementThatFailsHalfwayDoesNotStopTracking() async throws {
        let (phone, laptop) = (try await phone(), try await laptop())
        let context = laptop.context()
        let folder = Folder(id: "f", name: "F")
        try context.insert(folder)
        for name in ["a", "b"] {
            var note = Note(id: RecordName(name), title: name)
            note.folder = ToOne(folder)
            try context.insert(note)
        }
        try context.save()
        try await laptop.sync()
        try await deleteFolder(laptop)
        try await phone.sync()
        let program = try program()
        try await program.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE UNIQUE INDEX own ON Note(folder)")
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "INSERT OR FAIL INTO Folder(id, name) VALUES ('f', 'made here')")
            }
            try db.execute(sql: "UPDATE Note SET title = 'changed' WHERE id = 'a'")
        }
        try program.close()
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.titles == ["a": "changed", "b": "b"])
        #expect(try laptop.context().fetch(Folder.self).map(\.name) == ["made here"])
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// A row replaces another by its primary key, or by the program's own unique index with the documented pragma.
    @Test func aReplacedRowIsSent() async throws {
        let (phone, laptop) = (try await phone(), try await laptop())
        try phone.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"))
        try await phone.sync()
        let program = try program()
        try await program.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT OR REPLACE INTO Note(id, title) VALUES ('a', 'anew')")
            try db.execute(
                sql: """
                    PRAGMA recursive_triggers = ON;
                    CREATE UNIQUE INDEX own ON Note(title);
                    INSERT OR REPLACE INTO Note(id, title) VALUES ('c', '2');
                    """
            )
        }
        try program.close()
        try await phone.sync()
        try await laptop.sync()
        #expect(try laptop.titles == ["a": "anew", "c": "2"])
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// Resolving links is not a change, whichever program creates the target.
    @Test func resolvedLinksAreNotSent() async throws {
        let (phone, laptop) = (try await phone(), try await laptop())
        var note = Note(id: "n", title: "1")
        note.folder = ToOne(Folder(id: "f", name: ""))
        let context = laptop.context()
        try context.insert(Folder(id: "f", name: "F"))
        try context.insert(note)
        try context.save()
        try await laptop.sync()
        try context.delete(Folder.self, id: "f")
        try context.save()
        try await phone.sync()
        try await deleteFolder(laptop)
        try await phone.sync()
        let program = try program()
        try await program.write { try $0.execute(sql: "INSERT INTO Folder(id, name) VALUES ('f', 'anew')") }
        try program.close()
        #expect(try phone.context().object(Note.self, "n")?.folder.target == "f")
        #expect(try await phone.container.pendingExports(phone.store).map(\.entity) == ["Folder"])
        try await phone.sync()
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }
}
