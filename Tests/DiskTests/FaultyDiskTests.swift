import DiskTrials
import Foundation
import GRDB
import RelaySystem
import SQLiteStore
import Testing

/// Tests the simulated disk itself: it must lose what a real disk may lose, or tests that use it prove nothing.
@Suite struct FaultyDiskTests {
    private let folder: DiskFolder

    init() throws { folder = try DiskFolder() }

    /// Commits three transactions with one row each, cuts the power and returns the rows that survive.
    private func survivors(_ cut: PowerCut, pragma: String) throws -> [Int] {
        let name = UUID().uuidString
        let (data, left) = ("\(folder.path)/\(name)", "\(folder.path)/\(name)-left")
        for path in [data, left] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
        let disk = FaultyDisk(folder: data)
        defer { disk.detach() }
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: data + "/a.sqlite", configuration: configuration)
        try queue.inDatabase { try $0.execute(sql: "PRAGMA synchronous = FULL; CREATE TABLE t (n INTEGER)") }
        try queue.inDatabase { try $0.execute(sql: "PRAGMA synchronous = \(pragma)") }
        for number in 1...3 { try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [number]) } }
        try disk.cutPower(cut, leaving: left)
        let rest = try DatabaseQueue(path: left + "/a.sqlite")
        #expect(try rest.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
        return try rest.read { try Int.fetchAll($0, sql: "SELECT n FROM t ORDER BY n") }
    }

    @Test func flushedDataSurvivesEveryPowerCut() throws {
        for cut in [PowerCut.keepsNothing, .keepsSome(seed: 1), .keepsAll] {
            #expect(try survivors(cut, pragma: "FULL") == [1, 2, 3])
        }
    }

    @Test func unflushedDataIsLost() throws {
        #expect(try survivors(.keepsNothing, pragma: "NORMAL") == [])
        #expect(try survivors(.keepsAll, pragma: "NORMAL") == [1, 2, 3])
        let some = try (1...30).map { try survivors(.keepsSome(seed: $0), pragma: "NORMAL").count }
        #expect(some.contains { $0 < 3 }, "no sector was lost in thirty cuts")
    }

    @Test func aFailedFlushDiscardsItsPendingWrites() throws {
        let disk = FaultyDisk(folder: folder.path)
        defer { disk.detach() }
        let calls = disk.calls
        let descriptor = calls.open(folder.path + "/file", O_CREAT | O_WRONLY)
        defer { close(descriptor) }
        let parent = calls.open(folder.path, O_RDONLY)
        defer { close(parent) }
        func write(_ text: String) { _ = Array(text.utf8).withUnsafeBytes { calls.write(descriptor, $0) } }
        write("first")
        #expect(calls.sync(descriptor) == 0)
        disk.arm(.init([.sync], number: 1, .fails))
        write("second")
        #expect(calls.sync(descriptor) == -1 && errno == EIO)
        #expect(calls.sync(descriptor) == 0)
        #expect(calls.sync(parent) == 0)
        let left = try DiskFolder()
        try disk.cutPower(.keepsNothing, leaving: left.path)
        #expect(FileManager.default.contents(atPath: left.path + "/file") == Data("first".utf8))
    }

    @Test func aFileNameIsLostUntilItsFolderIsFlushed() throws {
        let disk = FaultyDisk(folder: folder.path)
        defer { disk.detach() }
        let calls = disk.calls
        #expect(calls.makeFolder(folder.path + "/in") == 0)
        let descriptor = calls.open(folder.path + "/in/file", O_CREAT | O_WRONLY)
        defer { close(descriptor) }
        #expect(calls.sync(descriptor) == 0)
        func isThere() throws -> Bool {
            let left = try DiskFolder()
            try disk.cutPower(.keepsNothing, leaving: left.path)
            return FileManager.default.fileExists(atPath: left.path + "/in/file")
        }
        #expect(try !isThere())
        for path in ["/in", ""] {
            let parent = calls.open(folder.path + path, O_RDONLY)
            defer { close(parent) }
            #expect(calls.sync(parent) == 0)
            #expect(try isThere() == path.isEmpty)
        }
    }
}
