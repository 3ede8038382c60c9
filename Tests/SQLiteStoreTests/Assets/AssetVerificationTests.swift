import Foundation
import RelayCore
import RelaySystem
import SQLiteStore
import Synchronization
import TestSupport
import Testing

/// Detection of asset files that changed on disk.
@Suite struct AssetIntegrityTests {
    private final class Names: Sendable {
        let last = Atomic<UInt64>(0)
    }

    private let place = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)")
    private let names = Names()

    /// Returns a folder object without cached results, as a new process has it.
    private func folder() -> AssetFolder {
        AssetFolder(folder: place.path + "/assets") { [names] in names.last.add(1, ordering: .relaxed).newValue }
    }

    private func put(into folder: AssetFolder) throws -> AssetHash {
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        let intake = try folder.begin()
        try intake.take(Array("content".utf8))
        return try intake.finish().hash
    }

    /// Changes a byte as a faulty disk would: the file's times stay the same.
    private func damage(_ file: AssetFile) throws {
        var facts = stat()
        try #require(stat(file.path, &facts) == 0)
        let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: file.path))
        try handle.write(contentsOf: Data("C".utf8))
        try handle.close()
        #if canImport(Darwin)
            let times = [facts.st_atimespec, facts.st_mtimespec]
        #else
            let times = [facts.st_atim, facts.st_mtim]
        #endif
        #expect(utimensat(AT_FDCWD, file.path, times, 0) == 0)
    }

    @Test func aFileOfAnEarlierProcessIsVerifiedBeforeUse() async throws {
        defer { try? FileManager.default.removeItem(at: place) }
        let hash = try put(into: folder())
        let file = try #require(folder().file(of: hash))
        #expect(try await folder().isSound(file, of: hash))
        try damage(file)
        let later = folder()
        #expect(try await !later.isSound(file, of: hash))
        later.renew(hash)
        #expect(try await !later.isSound(file, of: hash))
        _ = try put(into: later)
        #expect(try await later.isSound(file, of: hash))
        #expect(try await folder().isSound(file, of: hash))
    }

    @Test func aFileIsVerifiedOnce() async throws {
        defer { try? FileManager.default.removeItem(at: place) }
        let hash = try put(into: folder())
        let file = try #require(folder().file(of: hash))
        let known = folder()
        #expect(try await known.isSound(file, of: hash))
        known.renew(hash)
        // A folder object that reads the file now detects the damage.
        let renewed = try #require(folder().file(of: hash))
        try damage(renewed)
        #expect(try await known.isSound(file, of: hash))
        #expect(try await !folder().isSound(file, of: hash))
    }
}
