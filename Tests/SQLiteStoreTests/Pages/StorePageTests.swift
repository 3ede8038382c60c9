import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import Synchronization
import TestSupport
import Testing

/// A store's file: the checksums of its pages, and changes by other programs.
@Suite struct StorePageTests {
    private let folder = ScratchFolder()
    private var path: String { folder.path + "/store.sqlite" }
    private let zone = ZoneID("Notes", owner: UserID("_00000000000000000000000000000001"))

    init() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
    }

    /// Counts detected damage.
    private final class Damage: Sendable {
        let count = Mutex(0)
        func met() { count.withLock { $0 += 1 } }
    }

    private func open(_ path: String, _ damage: Damage = Damage()) throws -> SQLiteStore {
        try SQLiteStore(.file(path: path), draw: { UInt64.random(in: .min ... .max) }, onDamage: { damage.met() })
    }

    private func save(_ names: [String], _ text: String, in store: SQLiteStore) async throws {
        let stamp = StoredRecord.Stamp(
            at: Timestamp(milliseconds: 1),
            by: UserID(zone.owner.recordName),
            device: DeviceFingerprint(bits: 1)
        )
        try await store.write(touching: zone.owner) { [zone] writer throws(RelayError) in
            if try writer.zone(zone) == nil { _ = try writer.makeZone(zone, by: "phone") }
            guard let zone = try writer.zone(zone) else { throw .zoneNotFound }
            let before = try writer.records(named: names, in: zone)
            if try writer.schema.types["Note"] == nil { try writer.define(["Note": RecordType()]) }
            let records = names.map {
                StoredRecord(
                    name: $0,
                    type: "Note",
                    change: writer.takeChangeNumber(),
                    created: stamp,
                    modified: stamp,
                    fields: Array(text.utf8)
                )
            }
            try writer.put(records, replacing: before, in: zone, by: "phone")
        }
    }

    private func texts(_ store: SQLiteStore) throws -> [String: String] {
        Dictionary(
            uniqueKeysWithValues: try store.content().rows.map { ($0.name, String(decoding: $0.fields, as: UTF8.self)) }
        )
    }

    private static let names = (0..<300).map { "record \($0)" }

    private func fill() async throws {
        let store = try open(path)
        try await save(Self.names, #"{"a":"one"}"#, in: store)
        // Longer than a page.
        try await save(["long"], String(repeating: "long ", count: 4_000), in: store)
        store.close()
    }

    private func bytes(_ path: String) -> [UInt8] { [UInt8](FileManager.default.contents(atPath: path) ?? Data()) }

    @Test func everyPageOfANewStoreHasAChecksum() async throws {
        try await fill()
        let file = bytes(path)
        #expect(file.count > 10 * 4_096 && file[20] == 8)
        for number in 1...file.count / 4_096 {
            let page = Array(file[(number - 1) * 4_096..<number * 4_096])
            #expect(page.withUnsafeBytes { PageChecksum.verdict(on: $0, number: number) } == .good, "page \(number)")
        }
        #expect(try StoreCheck.faults(in: folder.path) == [])
    }

    /// For example a file that `.recover` of the program `sqlite3` has written.
    @Test func aFileWithoutChecksumsWorksAndStaysUnchanged() async throws {
        do {
            var configuration = Configuration()
            configuration.journalMode = .wal
            let old = try DatabaseQueue(path: path, configuration: configuration)
            try old.inDatabase { try StoreLayout.file.migrate($0) }
            try old.close()
        }
        try await fill()
        let store = try open(path)
        #expect(try texts(store).count == 301)
        try await save(["again"], "{}", in: store)
        store.close()
        #expect(bytes(path)[20] == 0)
        let plain = try DatabaseQueue(path: path)
        #expect(try await plain.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
    }

    @Test func anotherProgramMayReadCheckpointAndVacuumTheFile() async throws {
        try await fill()
        func expectReadable() async throws {
            let store = try open(path)
            #expect(try texts(store).count == 301)
            store.close()
        }
        // After a crash, the first program that closes the file writes the log back, whether the relay or another one.
        let crashed = folder.path + "/crashed.sqlite"
        do {
            let store = try open(path)
            try await save(Self.names, #"{"a":"two"}"#, in: store)
            for ending in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + ending, toPath: crashed + ending)
            }
            store.close()
        }
        let reader = try DatabaseQueue(path: crashed)
        #expect(try await reader.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM record") } == 301)
        try reader.close()
        #expect(!FileManager.default.fileExists(atPath: crashed + "-wal"))
        let store = try open(crashed)
        #expect(try texts(store)["record 7"] == #"{"a":"two"}"#)
        try await save(Self.names, #"{"a":"three"}"#, in: store)
        #expect(try texts(store)["record 7"] == #"{"a":"three"}"#)
        store.close()

        let vacuuming = try DatabaseQueue(path: path)
        try await vacuuming.vacuum()
        try vacuuming.close()
        try await expectReadable()
    }

    @Test func anotherProgramsChangesAreRefused() async throws {
        try await fill()
        let other = try DatabaseQueue(path: path)
        try await other.write { try $0.execute(sql: "UPDATE record SET fields = x'7b7d' WHERE name = 'record 9'") }
        try other.close()
        let damage = Damage()
        #expect(throws: (any Error).self) {
            let store = try open(path, damage)
            defer { store.close() }
            _ = try texts(store)
        }
        // The operator is told to vacuum the file.
        let vacuuming = try DatabaseQueue(path: path)
        try await vacuuming.vacuum()
        try vacuuming.close()
        let store = try open(path)
        #expect(try texts(store)["record 9"] == "{}")
        store.close()
    }

    /// Whichever page is damaged, results are correct or the read is refused and reported.
    @Test(arguments: 1...12) func flippedBitIsNeverServed(seed: Int) async throws {
        try await fill()
        var file = bytes(path)
        let page = seed % 6 == 0 ? 0 : (seed * 7_919) % (file.count / 4_096)
        let place = page * 4_096 + (page == 0 ? [20, 60, 3_000][seed % 3] : (seed * 104_729) % 4_096)
        file[place] ^= 1 << (seed % 8)
        try Data(file).write(to: URL(fileURLWithPath: path))
        let found = try StoreCheck.faults(in: Self.copied(path, in: folder.path))
        #expect(found.count == 1, "page \(page + 1), byte \(place % 4_096)")
        let damage = Damage()
        do {
            let store = try open(path, damage)
            defer { store.close() }
            let texts = try texts(store)
            for name in Self.names { #expect(texts[name] == #"{"a":"one"}"#) }
            #expect(texts["long"]?.count == 20_000)
        } catch let error as DatabaseError {
            // This reads below the store's error handling, which turns these errors into those for clients.
            #expect(error.extendedResultCode == .SQLITE_IOERR_DATA || error.resultCode == .SQLITE_NOTADB, "\(error)")
        }
    }

    /// SQLite fills the missing end of a file with zeros; the checksum is what is missing first.
    @Test(arguments: [1, 8, 1_000, 4_000]) func aTruncatedPageIsNeverServed(missing: Int) async throws {
        try await fill()
        let file = bytes(path)
        try Data(file.dropLast(missing)).write(to: URL(fileURLWithPath: path))
        let found = try StoreCheck.faults(in: Self.copied(path, in: folder.path))
        #expect(found.map(\.what) == ["page \(file.count / 4_096)"])
        let damage = Damage()
        #expect(throws: DatabaseError.self) {
            let store = try open(path, damage)
            defer { store.close() }
            let texts = try texts(store)
            #expect(texts["long"]?.count == 20_000 && texts["long"]?.contains("\0") == false)
        }
        #expect(DamageLog.places(of: path) == ["page \(file.count / 4_096)"])
    }

    /// Copies the file into a data folder's layout, for the store check.
    private static func copied(_ path: String, in folder: String) throws -> String {
        let data = folder + "/data"
        let place = data + "/containers/iCloud.org.example.a"
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: path, toPath: place + "/development.sqlite")
        return data
    }

    @Test func aRequestThatNeedsADamagedPageIsRefusedAndReported() async throws {
        try await fill()
        var file = bytes(path)
        let names = try await DatabaseQueue(path: path).read {
            try Int.fetchAll($0, sql: "SELECT pageno FROM dbstat WHERE name = 'record' AND pagetype = 'leaf'")
        }
        let page = try #require(names.first)
        file[page * 4_096 - 2_000] ^= 0x40
        try Data(file).write(to: URL(fileURLWithPath: path))
        let damage = Damage()
        let store = try open(path, damage)
        defer { store.close() }
        #expect(throws: RelayError.self) {
            try store.read { [zone] reader throws(RelayError) in
                guard let zone = try reader.zone(zone) else { return }
                _ = try reader.records(named: Self.names, in: zone)
            }
        }
        #expect(damage.count.withLock { $0 } > 0)
        #expect(DamageLog.places(of: path) == ["page \(page)"])
        // A write that needs the page is refused too; others succeed.
        await #expect(throws: RelayError.self) { try await save(Self.names, "{}", in: store) }
        try await save(["new"], "{}", in: store)
    }
}
