import Dispatch
import Foundation
import Synchronization
import ZoneKit
import ZoneTesting

/// Measures an ordinary application test: two users with two devices each, a shared zone, and one change by each user.
///
/// Runs in its own process: the CPU time of an otherwise idle process is the most reliable measure.
enum TwoUsers {
    /// The cost of the cheapest run; other load on the machine makes the other runs more expensive.
    struct Cost: Sendable {
        /// CPU time.
        var milliseconds: Double
        /// The same in units of a fixed piece of work, which makes the value independent of the CPU's speed.
        var pieces: Double
    }

    /// Runs the test `times` times, alternating with the fixed piece of work that it is compared to.
    static func measure(_ times: Int) -> Cost? {
        let result = Mutex<Cost?>(nil)
        let done = DispatchSemaphore(value: 0)
        Task {
            // The first run initializes what a process creates once, so it is not measured.
            var isGood = false
            do { isGood = try await test() } catch { print("It failed: \(error)") }
            var (cheapest, piece) = (Double.infinity, Double.infinity)
            for _ in 0..<times where isGood {
                let start = ProcessorTime.now
                isGood = (try? await test()) ?? false
                let middle = ProcessorTime.now
                isGood = isGood && pieceOfWork() == 5_000
                cheapest = min(cheapest, middle - start)
                piece = min(piece, ProcessorTime.now - middle)
            }
            let cost = isGood ? Cost(milliseconds: cheapest * 1000, pieces: cheapest / piece) : nil
            result.withLock { $0 = cost }
            done.signal()
        }
        done.wait()
        return result.withLock { $0 }
    }

    /// Creates strings and looks them up in a dictionary, which is typical work of a relay and its clients.
    private static func pieceOfWork() -> Int {
        var table: [String: Int] = [:]
        for number in 0..<20_000 { table["name \(number % 5_000)", default: 0] += number }
        return table.count
    }

    /// Returns `true` if both users see both records.
    private static func test() async throws -> Bool {
        let relay = try TestRelay()
        let (alice, bob) = (relay.device(of: "alice"), relay.device(of: "bob"))
        let zone = try await alice.privateDatabase.save(CKRecordZone(zoneName: "Ours")).zoneID
        let share = CKShare(recordZoneID: zone)
        share.publicPermission = .readWrite
        try await alice.privateDatabase.save(share)
        guard let url = share.url else { return false }
        try await bob.container.accept(try await bob.container.shareMetadata(for: url))
        let laptop = relay.device(of: "alice", named: "laptop")
        let tablet = relay.device(of: "bob", named: "tablet")
        let (writer, reader) = (Listener(laptop.privateDatabase), Listener(tablet.sharedDatabase))
        try await relay.settle()
        try await alice.privateDatabase.save(CKRecord(recordType: "Note", zoneID: zone))
        guard let shared = reader.zones.first else {
            print("The other user did not receive the zone.")
            return false
        }
        try await bob.sharedDatabase.save(CKRecord(recordType: "Note", zoneID: shared))
        try await relay.settle()
        let (first, second) = (writer.records.count, reader.records.count)
        if first != 2 || second != 2 { print("One device has \(first) notes, the other \(second); expected 2.") }
        return first == 2 && second == 2
    }

    /// An engine whose delegate records the zones and records that it fetches.
    private final class Listener: CKSyncEngineDelegate {
        private let heard = Mutex<(zones: Set<CKRecordZone.ID>, records: Set<CKRecord.ID>)>(([], []))
        private let engine = Mutex<CKSyncEngine?>(nil)

        init(_ database: CKDatabase) {
            let made = CKSyncEngine(.init(database: database, stateSerialization: nil, delegate: self))
            engine.withLock { $0 = made }
        }

        var zones: Set<CKRecordZone.ID> { heard.withLock { $0.zones } }
        var records: Set<CKRecord.ID> { heard.withLock { $0.records } }

        func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
            switch event {
            case .fetchedDatabaseChanges(let changes):
                heard.withLock { $0.zones.formUnion(changes.modifications.map(\.zoneID)) }
            case .fetchedRecordZoneChanges(let changes):
                let notes = changes.modifications.map(\.record).filter { $0.recordType == "Note" }
                heard.withLock { $0.records.formUnion(notes.map(\.recordID)) }
            default: break
            }
        }

        func nextRecordZoneChangeBatch(
            _ context: CKSyncEngine.SendChangesContext,
            syncEngine: CKSyncEngine
        ) async -> CKSyncEngine.RecordZoneChangeBatch? { nil }
    }
}

/// The CPU time of this process in seconds.
enum ProcessorTime {
    static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
