import Foundation
import GRDB
import Synchronization
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A program that is killed at each crash point, and restarted with the files on disk.
@Suite(.timeLimit(.minutes(15))) struct CrashTests {
    let relay: TestRelay

    init() throws { relay = try TestRelay() }

    static let cases = CrashPoint.allCases.flatMap { point in [(point, 1), (point, 2)] }

    @Test(arguments: cases) func aKilledProgramLosesNothing(_ point: CrashPoint, _ pass: Int) async throws {
        let story = try await CrashScenario(relay, relayMoves: !CrashPoint.copying.contains(point))
        let isReached = try await story.run(until: (point, pass))
        // Some crash points are passed only once in the scenario.
        #expect(isReached || pass == 2)
        try await story.check()
    }

    @Test(arguments: [true, false]) func theScenarioSucceedsWithoutACrash(_ relayMoves: Bool) async throws {
        let story = try await CrashScenario(relay, relayMoves: relayMoves)
        #expect(try await !story.run(until: nil))
        try await story.check()
    }
}

extension CrashPoint {
    /// Only reached if the relay cannot move records itself.
    static let copying: Set<CrashPoint> = [.beforeOriginalsGo, .afterOriginalsGo]
}

/// The steps of a user on a phone, each repeated until it succeeds, while a laptop and a participant sync too.
private final class CrashScenario: Sendable {
    private let relay: TestRelay
    private let harness: CrashHarness
    private let laptop: NotesApp
    private let bob: NotesApp
    private let relayMoves: Bool
    private static let large = String(repeating: "large ", count: 200_000)

    init(_ relay: TestRelay, relayMoves: Bool) async throws {
        self.relay = relay
        self.relayMoves = relayMoves
        harness = try CrashHarness()
        laptop = try await NotesApp(relay.device(of: "alice", named: "laptop"))
        bob = try await NotesApp(relay.device(of: "bob@example.org", named: "pc"))
    }

    /// Runs all steps; returns whether the program was killed at the crash point.
    func run(until deadline: (point: CrashPoint, passes: Int)?) async throws -> Bool {
        let steps: [(NotesApp) async throws -> Void] = [write, readAndWrite, share, listAnew, stop]
        var next = 0
        var crashes = 0
        for life in 0..<4 {
            let device = relay.device(of: "alice", named: "phone \(life)")
            var conditions = harness.begin(device, until: life == 0 ? deadline : nil)
            conditions.relayMoves = relayMoves
            var phone: NotesApp? = try await NotesApp(device, harness.folder, conditions)
            while next < steps.count, let app = phone {
                // Errors of a killed program are ignored; those of a running one fail the test.
                do { try await steps[next](app) } catch  where harness.isOver {}
                if harness.isOver { phone = nil } else { next += 1 }
            }
            guard let app = phone else {
                crashes += 1
                continue
            }
            await app.container.close()
            return crashes > 0
        }
        Issue.record("The scenario did not end.")
        return true
    }

    // MARK: Steps, each of which can be repeated

    private func write(_ phone: NotesApp) async throws {
        let context = phone.context()
        if try phone.note == nil {
            let note = SharedNote(id: "trip", title: "Trip")
            try context.insert(note)
            for text in ["1 passport", "2 tickets", "3 gone"] {
                var memo = Memo(text: text, note: note)
                memo.id = RecordName("memo " + text)
                try context.insert(memo)
            }
            try context.save()
        }
        try await phone.sync()
    }

    private func readAndWrite(_ phone: NotesApp) async throws {
        try await laptop.sync()
        let there = laptop.context()
        if try there.object(Memo.self, "memo 4") == nil, let note = try laptop.note {
            var memo = Memo(text: "4 map", note: note)
            memo.id = "memo 4"
            try there.insert(memo)
            try there.save()
            try await laptop.sync()
        }
        let context = phone.context()
        // A value too large for a record field, and a deletion.
        try context.edit(Memo.self, "memo 1 passport") { $0.text = Self.large }
        if try context.object(Memo.self, "memo 3 gone") != nil { try context.delete(Memo.self, id: "memo 3 gone") }
        try context.save()
        try await phone.sync()
    }

    private func share(_ phone: NotesApp) async throws {
        let note = try #require(try phone.note)
        let id = try phone.id(note)
        if try await phone.container.fetchShares(matching: [id])[id] == nil {
            // The next fetch brings a share that was created before a crash and not stored.
            try await phone.sync()
        }
        var share = try await phone.container.fetchShares(matching: [id])[id]
        if share == nil { share = try await phone.container.share([id]).share }
        let known = try #require(share)
        if known.participants.count == 1 {
            known.addParticipant(emailAddress: "bob@example.org", permission: .readWrite)
            try await phone.container.persistUpdatedShare(known, in: phone.mine)
        }
        let link = try #require(known.url)
        try await bob.container.acceptShareInvitations(from: [link], into: bob.others)
        #expect(try bob.context().fetch(Memo.self).count == 3)
        try await phone.sync()
    }

    /// Discards all change tokens, so that every zone is listed from the beginning.
    private func listAnew(_ phone: NotesApp) async throws {
        let zone = CKRecordZone.ID(
            zoneName: try #require(try await phone.container.fetchShares(in: phone.mine).first)
                .recordID.zoneID.zoneName
        )
        try await phone.container.forgetTokens(in: phone.mine)
        _ = try? await laptop.device.privateDatabase.deleteRecord(
            withID: CKRecord.ID(recordName: "memo 2 tickets", zoneID: zone)
        )
        try await phone.sync()
    }

    private func stop(_ phone: NotesApp) async throws {
        if let share = try await phone.container.fetchShares(in: phone.mine).first {
            try await phone.container.stopSharing(share, in: phone.mine)
        }
        try await phone.sync()
    }

    // MARK: The end

    /// Checks that no device has lost or duplicated objects.
    func check() async throws {
        let device = relay.device(of: "alice", named: "phone at the end")
        let phone = try await NotesApp(device, harness.folder, harness.begin(device, until: nil))
        for _ in 0..<2 { for app in [phone, laptop, bob] { try await app.sync() } }
        for app in [phone, laptop] {
            let memos = try app.context().fetch(Memo.self, sortedBy: .ascending(\.text))
            #expect(memos.map(\.id) == ["memo 4", "memo 1 passport"])
            #expect(memos.map(\.text) == ["4 map", Self.large])
            #expect(memos.allSatisfy { $0.note.target == "trip" })
            #expect(try app.context().fetch(SharedNote.self).map(\.title) == ["Trip"])
            #expect(try await app.container.fetchShares(in: app.mine).isEmpty)
            #expect(try await app.container.pendingExportCount(app.mine) == 0)
            #expect(try await app.container.rejectedWrites(app.mine).isEmpty)
        }
        #expect(try bob.context().fetch(Memo.self).isEmpty)
        let zones = try await device.privateDatabase.allRecordZones().filter { $0.zoneID.zoneName != "_defaultZone" }
        #expect(zones.map(\.zoneID.zoneName) == ["com.apple.coredata.cloudkit.zone"])
        let page = try await device.privateDatabase.recordZoneChanges(inZoneWith: zones[0].zoneID, since: nil)
        #expect(page.modificationResultsByID.count == 3)
    }
}

/// A folder of stores that survives the programs which open it, each killed at a crash point that the test chooses.
///
/// A kill copies the files in their current state at the crash point, also within a transaction, and disconnects the
/// device from the network. Further actions of the killed program have no effect. The next program starts with the
/// copies, without the old program's memory.
final class CrashHarness: Sendable {
    /// The error thrown at the crash point after the files were copied.
    struct Killed: Error {}

    private struct State {
        var folder: TemporaryFolder
        /// The crash point that ends the current run, and the number of passes until then.
        var deadline: (point: CrashPoint, passes: Int)?
        var network: TestNetwork?
        /// The files at the time of the last kill.
        var remains: TemporaryFolder?
        var passed: [CrashPoint: Int] = [:]
    }

    private let state: Mutex<State>

    init() throws { state = Mutex(State(folder: try TemporaryFolder())) }

    /// The current folder of the stores.
    var folder: URL { state.withLock { $0.folder.url } }

    /// How often a crash point was passed in all runs.
    func passes(_ point: CrashPoint) -> Int { state.withLock { $0.passed[point] ?? 0 } }

    /// Whether the current run was killed.
    var isOver: Bool { state.withLock { $0.remains != nil } }

    /// Starts another run with the files on disk.
    ///
    /// - Parameters:
    ///   - device: A new device for this run.
    ///   - deadline: The crash point that ends the run; `nil` for none.
    /// - Returns: The conditions for opening the run's container.
    func begin(_ device: TestDevice, until deadline: (point: CrashPoint, passes: Int)?) -> MirrorConditions {
        state.withLock { state in
            if let remains = state.remains { state.folder = remains }
            state.remains = nil
            state.deadline = deadline
            state.network = device.network
        }
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        conditions.crashPoint = { [weak self] point in try self?.pass(point) }
        return conditions
    }

    private func pass(_ point: CrashPoint) throws {
        try state.withLock { state in
            state.passed[point, default: 0] += 1
            // A killed program stops at its next crash point.
            if state.remains != nil { throw Killed() }
            guard let deadline = state.deadline, deadline.point == point else { return }
            state.deadline?.passes -= 1
            guard state.deadline?.passes == 0 else { return }
            let copy = try TemporaryFolder()
            let files = FileManager.default
            // The shared memory file belongs to a running program; the next program recreates it from the WAL.
            for name in try files.contentsOfDirectory(atPath: state.folder.url.path) where !name.hasSuffix("-shm") {
                try files.copyItem(
                    at: state.folder.url.appendingPathComponent(name),
                    to: copy.url.appendingPathComponent(name)
                )
            }
            state.remains = copy
            state.network?.cut()
            throw Killed()
        }
    }
}
