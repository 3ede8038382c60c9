import Dispatch
import Foundation
import Records
import RelayCore
import RelaySystem
import SQLiteStore
import Synchronization
import TestSupport
import Testing

/// Unused assets are removed while the same assets are uploaded again.
@Suite struct AssetSweepTests {
    private final class Counters: Sendable {
        let names = Atomic<UInt64>(0)
        /// The number of files that were renamed to their final names, or are about to be.
        let arrivals = Atomic<Int>(0)
    }

    /// A client that was told that its upload succeeded can save the asset.
    @Test func anAssetUploadedAgainDuringItsRemovalIsKept() throws {
        let place = FileManager.default.temporaryDirectory.appendingPathComponent("zonecast-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: place) }
        let counters = Counters()
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        var disk = DiskCalls.system
        disk.sync = { _ in 0 }
        disk.rename = { path, target in
            counters.arrivals.add(1, ordering: .relaxed)
            return rename(path, target)
        }
        let folder = AssetFolder(folder: place + "/assets", disk: disk) {
            counters.names.add(1, ordering: .relaxed).newValue
        }
        @Sendable func begin() throws -> any AssetUpload {
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
            let before = counters.arrivals.load(ordering: .relaxed)
            DispatchQueue.concurrentPerform(iterations: 2) { part in
                if part == 0 {
                    _ = try? begin().finish()
                } else {
                    for _ in 0..<50_000 where counters.arrivals.load(ordering: .relaxed) == before {}
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
