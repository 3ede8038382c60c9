import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// An album, possibly in another; deleting it deletes its pictures but not its labels.
private struct Album: SyncedRecord {
    var id = RecordName()
    var name = ""
    var parent = ToOne<Album>(inverse: "children")
    var twin = ToOne<Album>(inverse: "twin")
    var children = ToMany<Album>(inverse: "parent", deleteRule: .cascade)
    var pictures = ToMany<Picture>(inverse: "album", deleteRule: .cascade)
    var notes = ToMany<Remark>(inverse: "album")
    var labels = ToMany<Label>(inverse: "albums")
    var frame = ToOne<Picture>(inverse: "framed")
}

private struct Picture: SyncedRecord {
    var id = RecordName()
    var album = ToOne<Album>(inverse: "pictures")
    var framed = ToMany<Album>(inverse: "frame", deleteRule: .cascade)
}

private struct Remark: SyncedRecord {
    var id = RecordName()
    var album = ToOne<Album>(inverse: "notes")
}

private struct Label: SyncedRecord {
    var id = RecordName()
    var albums = ToMany<Album>(inverse: "labels")
}

/// Changes by SQL are tracked by their effect, whatever the form of the statement.
@Suite(.timeLimit(.minutes(15))) struct PlainSQLTests {
    private let relay: TestRelay
    private let folder: TemporaryFolder
    private let phone: Mirrored
    private let laptop: Mirrored

    init() async throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
        let model = MirrorModel(Album.self, Picture.self, Remark.self, Label.self)
        phone = try await Mirrored(relay.device(of: "alice", named: "phone"), model: model, folder: folder)
        laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"), model: model)
        let context = phone.context()
        let top = Album(id: "top", name: "old")
        var below = Album(id: "below", name: "below")
        below.parent = ToOne(top)
        var lowest = Album(id: "lowest", name: "lowest")
        lowest.parent = ToOne(below)
        let label = Label(id: "label")
        for album in [top, below, lowest] { try context.insert(album) }
        try context.insert(label)
        for album in [top, lowest] {
            try context.insert(Picture(id: RecordName("picture of \(album.id)"), album: ToOne(album)))
            try context.insert(Remark(id: RecordName("remark on \(album.id)"), album: ToOne(album)))
            try context.link(album, \.labels, label)
        }
        try context.save()
        for mirror in [phone, laptop] { try await mirror.sync() }
    }

    /// How a program may open the file.
    enum SQLWriter: CaseIterable {
        case container
        case ownRecursive
        case own
    }

    private func write(_ writer: SQLWriter, _ sql: String) async throws {
        if writer == .container {
            try await #require(phone.container.database(of: phone.store)).write { try $0.execute(sql: sql) }
            return
        }
        let program = try DatabaseQueue(path: folder.url.appendingPathComponent("private.sqlite").path)
        try await program.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA recursive_triggers = \(writer == .own ? "OFF" : "ON")")
            try db.execute(sql: sql)
        }
        try program.close()
    }

    private func syncAll() async throws {
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
    }

    /// All objects with their links.
    private func tree(_ mirror: Mirrored) throws -> [String] {
        let context = mirror.context()
        let albums = try context.fetch(Album.self)
        var lines = albums.map { "\($0.id) < \($0.parent.target?.text ?? "-") = \($0.twin.target?.text ?? "-")" }
        lines += try context.fetch(Picture.self).map { "\($0.id) < \($0.album.target?.text ?? "-")" }
        lines += try context.fetch(Remark.self).map { "\($0.id) < \($0.album.target?.text ?? "-")" }
        for album in albums {
            lines += try context.related(to: album, \.labels).map { "\(album.id) ~ \($0.id)" }
        }
        return lines.sorted()
    }

    private func name(_ mirror: Mirrored) throws -> String? { try mirror.context().object(Album.self, "top")?.name }

    static let replacements = [
        "REPLACE INTO Album(id, name) VALUES ('top', 'new')",
        "INSERT OR REPLACE INTO Album(id, name) SELECT 'top', 'new'",
        "INSERT OR REPLACE INTO Album(rowid, id, name) SELECT rowid, id, 'new' FROM Album WHERE id = 'top'",
        "REPLACE INTO Album(id, name) VALUES ('top', 'first'), ('top', 'new')",
        "INSERT INTO Album(id, name) VALUES ('top', 'new') ON CONFLICT(id) DO UPDATE SET name = excluded.name",
        "UPDATE Album SET name = s.b FROM (SELECT 'top' AS a, 'new' AS b) AS s WHERE id = s.a",
        "UPDATE OR REPLACE Album SET name = 'new' WHERE id = 'top'",
        "INSERT OR IGNORE INTO Album(id, name) VALUES ('top', 'not'); UPDATE Album SET name = 'new' WHERE id = 'top'",
        """
        CREATE TABLE inbox(a, b);
        CREATE TRIGGER own AFTER INSERT ON inbox BEGIN REPLACE INTO Album(id, name) VALUES (new.a, new.b); END;
        INSERT INTO inbox VALUES ('top', 'new');
        """,
        """
        CREATE VIEW seen AS SELECT id, name FROM Album;
        CREATE TRIGGER own INSTEAD OF INSERT ON seen BEGIN REPLACE INTO Album(id, name) VALUES (new.id, new.name); END;
        INSERT INTO seen VALUES ('top', 'new');
        """,
        """
        CREATE TRIGGER own AFTER INSERT ON Album BEGIN UPDATE Album SET name = 'new' WHERE id = new.id; END;
        REPLACE INTO Album(id, name) VALUES ('top', 'first');
        """,
    ]

    @Test(
        "a parent row replaced under its ID is updated and keeps its children",
        arguments: replacements,
        SQLWriter.allCases
    )
    func aReplacedParentKeepsItsChildren(_ sql: String, _ writer: SQLWriter) async throws {
        let before = try tree(phone)
        let token = try await phone.container.currentHistoryToken()
        try await write(writer, sql)
        #expect(try tree(phone) == before)
        let changes = try await phone.container.history(after: token).flatMap(\.changes)
        #expect(
            Set(changes.map { "\($0.object) \($0.kind) \($0.updatedProperties)" }) == [#"Album/top update ["name"]"#]
        )
        #expect(try await phone.container.pendingExports(phone.store).map(\.entity) == ["Album"])
        try await syncAll()
        for mirror in [phone, laptop] {
            #expect(try name(mirror) == "new")
            #expect(try tree(mirror) == before)
        }
    }

    @Test("a replaced row loses the links and values that the statement omits", arguments: SQLWriter.allCases)
    func valuesOmittedByAReplacementAreRemoved(_ writer: SQLWriter) async throws {
        try await write(writer, "UPDATE Album SET twin = 'top' WHERE id = 'lowest'")
        try await syncAll()
        #expect(try tree(laptop).contains("top < - = lowest"))
        try await write(writer, "REPLACE INTO Album(id, parent) VALUES ('lowest', 'below')")
        try await syncAll()
        for mirror in [phone, laptop] {
            #expect(try tree(mirror).contains("top < - = -") && tree(mirror).contains("lowest < below = -"))
            #expect(try mirror.context().object(Album.self, "lowest")?.name == "")
        }
    }

    @Test("a replaced pair row stays a pair", arguments: SQLWriter.allCases)
    func aReplacedPairStays(_ writer: SQLWriter) async throws {
        let before = try tree(phone)
        let pairs = try #require(phone.container.database(of: phone.store))
        #expect(try await pairs.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM Album_labels") } == 2)
        try await write(writer, "REPLACE INTO Album_labels SELECT * FROM Album_labels")
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        try await syncAll()
        for mirror in [phone, laptop] { #expect(try tree(mirror) == before) }
    }

    @Test("a row deleted and inserted again by two statements loses its children", arguments: SQLWriter.allCases)
    func aDeletionBeforeAnInsertionRemovesTheChildren(_ writer: SQLWriter) async throws {
        try await write(
            writer,
            """
            INSERT OR IGNORE INTO Album(id) VALUES ('top');
            REPLACE INTO Album(id, name) VALUES ('top', 'first');
            DELETE FROM Album WHERE id = 'top';
            REPLACE INTO Album(id, name) VALUES ('top', 'new');
            """
        )
        try await syncAll()
        for mirror in [phone, laptop] {
            #expect(try name(mirror) == "new")
            #expect(try tree(mirror) == ["remark on lowest < -", "remark on top < -", "top < - = -"])
        }
    }

    @Test(
        "a replacement skipped by the program's own trigger changes nothing and hides no later deletion",
        arguments: SQLWriter.allCases
    )
    func aSkippedReplacementHidesNothing(_ writer: SQLWriter) async throws {
        // The program's own triggers that were created before the mirror's triggers run after them.
        await phone.container.close()
        let own = """
            CREATE TRIGGER own BEFORE INSERT ON Album WHEN new.name = 'skip' BEGIN SELECT RAISE(IGNORE); END;
            UPDATE mirror_state SET v = '' WHERE k = 'layout';
            """
        try await write(.own, own)
        let model = MirrorModel(Album.self, Picture.self, Remark.self, Label.self)
        let again = try await Mirrored(phone.device, model: model, folder: folder)
        try await write(.own, "REPLACE INTO Album(id, name) VALUES ('top', 'skip')")
        try await write(writer == .container ? .own : writer, "DELETE FROM Album WHERE id = 'top'")
        for mirror in [again, laptop] { try await mirror.sync() }
        #expect(try laptop.context().object(Album.self, "top") == nil)
    }

    @Test("a rejected replacement changes nothing", arguments: SQLWriter.allCases)
    func aRejectedReplacementChangesNothing(_ writer: SQLWriter) async throws {
        let before = try tree(phone)
        for sql in [
            "INSERT INTO Album(id, name) VALUES ('top', 'new')", "INSERT OR FAIL INTO Album(id) VALUES ('top')",
            "INSERT OR ABORT INTO Album(id) VALUES ('top')", "INSERT OR ROLLBACK INTO Album(id) VALUES ('top')",
            "CREATE TEMP TRIGGER own AFTER INSERT ON Album BEGIN SELECT RAISE(ABORT, 'no'); END; REPLACE INTO Album(id) VALUES ('top')",
        ] {
            let error = await #expect(throws: DatabaseError.self) { try await write(writer, sql) }
            #expect(error?.resultCode == .SQLITE_CONSTRAINT)
        }
        try await write(writer, "INSERT INTO Album(id, name) VALUES ('top', 'new') ON CONFLICT DO NOTHING")
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
        #expect(try tree(phone) == before && name(phone) == "old")
    }

    @Test("a deletion cascades to every level of a tree and to linked objects", arguments: SQLWriter.allCases)
    func aDeletionCascadesToEveryLevel(_ writer: SQLWriter) async throws {
        try await write(writer, "DELETE FROM Album WHERE id = 'top'")
        try await syncAll()
        for mirror in [phone, laptop] {
            #expect(try tree(mirror) == ["remark on lowest < -", "remark on top < -"])
        }
    }

    @Test("a deletion cascades through a cycle of entities", arguments: SQLWriter.allCases)
    func aDeletionCascadesThroughACycle(_ writer: SQLWriter) async throws {
        try await write(
            writer,
            """
            INSERT INTO Picture(id, album) VALUES ('p', 'lowest');
            INSERT INTO Album(id, frame) VALUES ('a', 'p'), ('other', NULL);
            INSERT INTO Picture(id, album) VALUES ('q', 'a'), ('r', 'other');
            INSERT INTO Album(id, frame) VALUES ('b', 'q');
            INSERT INTO Remark(id, album) VALUES ('s', 'b');
            UPDATE Album SET frame = 'r' WHERE id = 'other';
            """
        )
        try await syncAll()
        try await write(writer, "DELETE FROM Album WHERE id = 'below'")
        try await syncAll()
        for mirror in [phone, laptop] {
            #expect(try Set(mirror.context().fetch(Album.self).map(\.id.text)) == ["top", "other"])
            #expect(try Set(mirror.context().fetch(Picture.self).map(\.id.text)) == ["picture of top", "r"])
            #expect(try mirror.context().object(Remark.self, "s")?.album.target == nil)
        }
        try await write(writer, "DELETE FROM Album WHERE id = 'other'")
        try await syncAll()
        for mirror in [phone, laptop] {
            #expect(try mirror.context().fetch(Album.self).map(\.id) == ["top"])
            #expect(try mirror.context().fetch(Picture.self).map(\.id) == ["picture of top"])
        }
    }

    @Test("changing a one-to-one link ends both former links", arguments: SQLWriter.allCases)
    func changingAOneToOneLinkEndsBothFormerLinks(_ writer: SQLWriter) async throws {
        try await write(
            writer,
            """
            INSERT INTO Album(id) VALUES ('a'), ('b'), ('c'), ('d');
            UPDATE Album SET twin = 'b' WHERE id = 'a'; UPDATE Album SET twin = 'd' WHERE id = 'c';
            UPDATE Album SET twin = 'd' WHERE id = 'a';
            """
        )
        try await syncAll()
        for mirror in [phone, laptop] {
            let twins = try tree(mirror).filter { $0.contains("=") && $0.count < 10 }
            #expect(twins == ["a < - = d", "b < - = -", "c < - = -", "d < - = a"])
        }
    }

    @Test(
        "a row that REPLACE removes because of the program's own unique index is deleted",
        arguments: SQLWriter.allCases
    )
    func aDisplacedRowIsDeleted(_ writer: SQLWriter) async throws {
        await phone.container.close()
        try await write(.own, "CREATE UNIQUE INDEX own ON Album(name COLLATE NOCASE, parent)")
        let model = MirrorModel(Album.self, Picture.self, Remark.self, Label.self)
        let again = try await Mirrored(phone.device, model: model, folder: folder)
        let writer = writer == .container ? SQLWriter.own : writer
        try await write(writer, "INSERT OR IGNORE INTO Album(id, name, parent) VALUES ('x', 'Lowest', 'below')")
        #expect(try again.context().object(Album.self, "x") == nil)
        try await write(writer, "INSERT OR REPLACE INTO Album(id, name, parent) VALUES ('x', 'LOWEST', 'below')")
        try await write(writer, "INSERT INTO Album(id, name, parent) VALUES ('z', 'zed', 'below')")
        for mirror in [again, laptop] { try await mirror.sync() }
        #expect(try Set(laptop.context().fetch(Album.self).map(\.id.text)) == ["top", "below", "x", "z"])
        try await write(writer, "UPDATE OR REPLACE Album SET name = 'ZED' WHERE id = 'x'")
        for mirror in [again, laptop, again] { try await mirror.sync() }
        for mirror in [again, laptop] {
            #expect(try Set(mirror.context().fetch(Album.self).map(\.name)) == ["old", "below", "ZED"])
            #expect(try mirror.context().fetch(Picture.self).map(\.id) == ["picture of top"])
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        try await write(writer, "DROP INDEX own")
        try await write(writer, "REPLACE INTO Album(id, name, parent) VALUES ('y', 'zed', 'below')")
        #expect(try again.context().object(Album.self, "x") != nil)
    }
}

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
