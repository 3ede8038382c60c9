import Dispatch
import Foundation
import Records
import RelayCore
import RelayStore
import Synchronization
import TestSupport
import Testing

/// Assets that nobody uses are removed while others come.
@Suite struct AssetSweepTests {
    private final class Marks: Sendable {
        let names = Atomic<UInt64>(0)
        /// Files that were given their names, or are about to be.
        let arrivals = Atomic<Int>(0)
    }

    /// Whoever was told that the upload is here can save it.
    @Test func whatComesAgainWhileTheOldOneIsRemovedStays() throws {
        let place = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: place) }
        let marks = Marks()
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        var disk = DiskCalls.system
        disk.sync = { _ in 0 }
        disk.rename = { path, target in
            marks.arrivals.add(1, ordering: .relaxed)
            return rename(path, target)
        }
        let folder = AssetFolder(folder: place + "/assets", disk: disk) {
            marks.names.add(1, ordering: .relaxed).newValue
        }
        @Sendable func begin() throws -> any AssetIntake {
            let intake = try folder.begin()
            try intake.take([1, 2, 3])
            return intake
        }
        let hash = try begin().finish().hash
        let limit = Timestamp(milliseconds: 1_000_000_000_000)
        var lost = 0
        for _ in 0..<1_000 {
            let file = try #require(folder.file(of: hash))
            let old = [timeval](repeating: timeval(tv_sec: 1, tv_usec: 0), count: 2)
            #expect(utimes(file.path, old) == 0)
            let before = marks.arrivals.load(ordering: .relaxed)
            DispatchQueue.concurrentPerform(iterations: 2) { part in
                if part == 0 {
                    _ = try? begin().finish()
                } else {
                    for _ in 0..<50_000 where marks.arrivals.load(ordering: .relaxed) == before {}
                    folder.remove(hash, ifBefore: limit)
                }
            }
            guard folder.file(of: hash) == nil else { continue }
            lost += 1
            _ = try begin().finish()
        }
        #expect(lost == 0)
    }
}
