import Foundation
import GRDB
import Records
import RelayCore
import SQLiteStore
import TestSupport
import Testing

/// A write-ahead log that was damaged after it was flushed is distinguished from one that a power failure cut off.
@Suite struct WALCheckTests {
    private let folder = ScratchFolder()
    private var path: String { folder.path + "/a.sqlite" }
    private static let frame = 24 + 4_096

    init() throws {
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
    }

    private func withQueue(_ body: (DatabaseQueue) throws -> Void) throws {
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: CheckedVFS.address(of: path), configuration: configuration)
        defer { try? queue.close() }
        try body(queue)
    }

    private func insert(_ count: Int, in queue: DatabaseQueue) throws {
        for number in 0..<count {
            try queue.write { database in
                try database.execute(sql: "CREATE TABLE IF NOT EXISTS t (n INTEGER, s TEXT)")
                try database.execute(
                    sql: "INSERT INTO t VALUES (?, ?)",
                    arguments: [number, String(repeating: "x", count: 3_000)]
                )
            }
        }
    }

    /// Returns the log of some commits, as it is while the file is open.
    private func log(commits: Int) throws -> Data {
        var log = Data()
        try withQueue { queue in
            try insert(commits, in: queue)
            log = FileManager.default.contents(atPath: path + "-wal") ?? Data()
        }
        return log
    }

    private func check(_ log: Data) throws -> WALCheck {
        let copy = folder.path + "/copy.sqlite"
        try log.write(to: URL(fileURLWithPath: copy + "-wal"))
        return try #require(try WALCheck(ofFile: copy))
    }

    @Test func anIntactLogPassesTheCheck() throws {
        let log = try log(commits: 6)
        let found = try check(log)
        #expect(found.goodFrames == log.count / Self.frame && found.goodFrames > 8)
        #expect(!found.isDamaged)
    }

    /// Pages are written to the log before their transaction ends, and again if they change once more.
    @Test func aTransactionLargerThanTheCacheLeavesAnIntactLog() throws {
        try withQueue { queue in
            try queue.write { database in
                try database.execute(sql: "PRAGMA cache_size = 4")
                try database.execute(sql: "CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT)")
            }
            for text in ["a", "b"] {
                try queue.write { database in
                    for letter in [text, text + text] {
                        for number in 0..<200 {
                            try database.execute(
                                sql: "INSERT OR REPLACE INTO t VALUES (?, ?)",
                                arguments: [number, String(repeating: letter, count: 1_500)]
                            )
                        }
                    }
                }
            }
            let log = FileManager.default.contents(atPath: path + "-wal") ?? Data()
            let found = try check(log)
            #expect(!found.isDamaged && found.goodFrames > 100)
            // Another connection reads the log's pages, not those in the first connection's cache.
            let other = try DatabaseQueue(path: CheckedVFS.address(of: path))
            let rows = try other.read { database in
                try String.fetchAll(database, sql: "SELECT DISTINCT s FROM t")
            }
            #expect(rows == [String(repeating: "bb", count: 1_500)])
            #expect(try other.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        }
    }

    @Test func aLogCutOffByAPowerFailureIsNotDamaged() throws {
        let log = try log(commits: 6)
        // The last commit reached the disk only in part: it is cut short, or sectors of it are missing.
        #expect(try !check(log.dropLast(100)).isDamaged)
        for missing in [1, 2] {
            var torn = log
            let end = torn.count - (missing - 1) * Self.frame
            torn.replaceSubrange(end - Self.frame..<end, with: Data(count: Self.frame))
            #expect(try !check(torn).isDamaged)
        }
        #expect(try !check(log + Data(count: 1 << 20)).isDamaged)
    }

    @Test(arguments: 0..<24) func aByteThatChangedLaterIsDetected(seed: Int) throws {
        let log = try log(commits: 8)
        var damaged = log
        // In a frame of the first commits.
        let place = 32 + (seed % 3) * Self.frame + (seed * 523) % Self.frame
        damaged[damaged.startIndex + place] ^= 1 << (seed % 8)
        let found = try check(damaged)
        #expect(found.isDamaged && found.lostCommits >= 4, "byte \(place): \(found)")
        #expect(found.goodFrames == seed % 3)
    }

    /// A disk loses whole blocks, and a block lies across two frames.
    @Test(arguments: [512, 4_096]) func aLostBlockIsDetected(size: Int) throws {
        let log = try log(commits: 12)
        for block in 1..<(log.count / 2 / size) {
            for lost in [Data(count: size), Data((0..<size).map { UInt8(truncatingIfNeeded: $0 &* 131 + 7) })] {
                var damaged = log
                damaged.replaceSubrange(block * size..<(block + 1) * size, with: lost)
                // Pages have unused space, where a block of zeros changes nothing.
                #expect(try check(damaged).isDamaged == (damaged != log), "block \(block) of \(size) bytes")
            }
        }
    }

    @Test func aDamagedHeaderIsDetected() throws {
        let log = try log(commits: 4)
        for place in 0..<32 {
            var damaged = log
            damaged[damaged.startIndex + place] ^= 1 << (place % 8)
            #expect(try check(damaged).isDamaged, "byte \(place)")
        }
        #expect(try check(Data(count: 32) + log.dropFirst(32)).isDamaged)
        // Before the first frame there is nothing to lose.
        let copy = folder.path + "/begun.sqlite"
        try Data(count: 32).write(to: URL(fileURLWithPath: copy + "-wal"))
        #expect(try WALCheck(ofFile: copy) == nil)
    }

    @Test func framesFromBeforeTheLogRestartedAreIgnored() throws {
        try withQueue { queue in
            try insert(8, in: queue)
            try queue.inDatabase { _ = try $0.checkpoint(.restart) }
            try queue.write { try $0.execute(sql: "UPDATE t SET n = n + 1 WHERE n = 1") }
            let found = try check(FileManager.default.contents(atPath: path + "-wal") ?? Data())
            #expect(found.goodFrames > 0 && found.goodFrames < 8)
            #expect(!found.isDamaged)
        }
    }

    @Test func aStoreWithADamagedLogIsNotOpened() throws {
        let damaged = folder.path + "/damaged.sqlite"
        do {
            let store = try SQLiteStore(.file(path: path), draw: { 7 })
            defer { store.close() }
            for ending in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + ending, toPath: damaged + ending)
            }
        }
        // A copy of a running store's files opens, because its log is complete.
        try SQLiteStore(.file(path: damaged), draw: { 7 }).close()
        let log = try log(commits: 8)
        var bytes = log
        bytes[bytes.startIndex + 5_000] ^= 1
        try bytes.write(to: URL(fileURLWithPath: damaged + "-wal"))
        #expect(throws: (any Error).self) { try SQLiteStore(.file(path: damaged), draw: { 7 }) }
        #expect(DamageLog.places(of: damaged) == ["a page in the log of damaged.sqlite"])
        // The check changed nothing.
        #expect(FileManager.default.contents(atPath: damaged + "-wal") == bytes)
    }

    /// SQLite would treat the file as a new one and discard its log.
    @Test func anEmptiedStoreIsNotRecreated() throws {
        try SQLiteStore(.file(path: path), draw: { 7 }).close()
        #expect(!FileManager.default.fileExists(atPath: path + ".new"))
        try Data().write(to: URL(fileURLWithPath: path))
        #expect(throws: (any Error).self) { try SQLiteStore(.file(path: path), draw: { 7 }) }
        try log(commits: 2).write(to: URL(fileURLWithPath: folder.path + "/b.sqlite-wal"))
        #expect(throws: (any Error).self) {
            try SQLiteStore(.file(path: folder.path + "/b.sqlite"), draw: { 7 })
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/b.sqlite"))
    }

    /// Devices would take all its records for deleted.
    @Test func aMissingStoreIsNotRecreated() throws {
        let container = try #require(ContainerID("iCloud.org.example"))
        let home = ContainerEnvironment(container, .development)
        let file = "\(folder.path)/containers/\(container.name)/development.sqlite"
        func use() throws {
            let stores = StoreFolder(folder: folder.path, draw: { 7 })
            defer { stores.close() }
            _ = try stores.store(of: home)
        }
        _ = try AccountStore(folder: folder.path)
        try use()
        try use()
        for ending in ["", "-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file + ending) }
        #expect(throws: RelayError.self) { try use() }
        #expect(!FileManager.default.fileExists(atPath: file))
        let stores = StoreFolder(folder: folder.path, draw: { 7 })
        #expect(stores.isThere(home))
        let fault = try #require(try StoreCheck.faults(in: folder.path).first)
        let way =
            "is missing or empty; to start with an empty store, remove stores-here/iCloud.org.example.development"
        #expect("\(fault)".hasSuffix(way))
        // The operator asks for an empty store.
        let mark = "\(folder.path)/stores-here/iCloud.org.example.development"
        try FileManager.default.removeItem(atPath: mark)
        try use()
        // The same applies if the whole container is gone, or all containers, as when a disk is not mounted.
        for lost in [(file as NSString).deletingLastPathComponent, folder.path + "/containers"] {
            try FileManager.default.removeItem(atPath: lost)
            #expect(throws: RelayError.self) { try use() }
            #expect(!FileManager.default.fileExists(atPath: file))
            #expect(try StoreCheck.faults(in: folder.path).map { "\($0)".hasSuffix(way) } == [true])
            try FileManager.default.removeItem(atPath: mark)
            try use()
        }
    }

    /// If a command wrote into such a log, the loss would be hidden.
    @Test func anAccountStoreWithADamagedLogIsNotOpened() throws {
        let accounts = try AccountStore(folder: folder.path)
        let file = folder.path + "/relay.sqlite"
        for number in 0..<8 {
            try accounts.addContainer(try #require(ContainerID("iCloud.org.example.c\(number)")))
        }
        let other = folder.path + "/other"
        try FileManager.default.createDirectory(atPath: other, withIntermediateDirectories: true)
        for ending in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: file + ending, toPath: "\(other)/relay.sqlite\(ending)")
        }
        _ = try AccountStore(folder: other)
        var log = try #require(FileManager.default.contents(atPath: file + "-wal"))
        log[log.startIndex + 5_000] ^= 1
        try log.write(to: URL(fileURLWithPath: other + "/relay.sqlite-wal"))
        #expect(throws: DirectoryError.damaged("relay.sqlite")) { try AccountStore(folder: other) }
    }

    /// A page in the log is damaged while the store is open.
    @Test func damagedLogPageIsNotServed() throws {
        let copy = folder.path + "/copy.sqlite"
        try withQueue { queue in
            try insert(8, in: queue)
            for ending in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: path + ending, toPath: copy + ending)
            }
        }
        var configuration = Configuration()
        configuration.readonly = true
        let reader = try DatabaseQueue(path: CheckedVFS.address(of: copy), configuration: configuration)
        #expect(try reader.read { try Int.fetchOne($0, sql: "SELECT sum(length(s)) FROM t") } == 24_000)
        let log = try #require(FileHandle(forUpdatingAtPath: copy + "-wal"))
        let size = try log.seekToEnd()
        // In the text of every frame, current or superseded.
        for number in 0..<Int(size) / Self.frame {
            try log.seek(toOffset: UInt64(32 + number * Self.frame + 24 + 3_500))
            try log.write(contentsOf: Data("damage".utf8))
        }
        try log.close()
        #expect(throws: DatabaseError.self) {
            let second = try DatabaseQueue(path: CheckedVFS.address(of: copy), configuration: configuration)
            _ = try second.read { try Int.fetchOne($0, sql: "SELECT sum(length(s)) FROM t") }
        }
        #expect(DamageLog.places(of: copy).first?.hasSuffix("of copy.sqlite-wal") == true)
    }
}
