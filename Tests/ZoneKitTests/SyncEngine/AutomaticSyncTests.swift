import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// Automatic sync: changes are sent at once, fetched on notices, and fetched after an absence.
@Suite(.timeLimit(.minutes(15))) struct AutomaticSyncTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func device(_ name: String) -> SyncedNotes {
        SyncedNotes(relay.device(of: "alice", named: name), isAutomatic: true)
    }

    /// Waits for a condition that is checked after each event of the device's engine.
    ///
    /// The limit exceeds the longest back-off: the longer a device was offline, the longer it waits for its next
    /// attempt.
    private func wait(_ what: String, on notes: SyncedNotes, _ condition: @escaping @Sendable () -> Bool) async throws {
        try await within(.seconds(300), what) { try await notes.signal.until(condition) }
    }

    @Test func aSaveReachesTheOtherDeviceAutomatically() async throws {
        let (phone, laptop) = (device("phone"), device("laptop"))
        phone.addZone()
        phone.write("milk", "Buy milk")
        try await wait("the laptop to show the note", on: laptop) { laptop.texts == ["milk": "Buy milk"] }
        phone.write("milk", "Buy oat milk")
        try await wait("the laptop to show the edit", on: laptop) { laptop.texts == ["milk": "Buy oat milk"] }
        laptop.delete("milk")
        try await wait("the phone to lose the note", on: phone) { phone.texts.isEmpty }
        #expect(phone.contents.withLock { $0.overlaps } + laptop.contents.withLock { $0.overlaps } == 0)
    }

    @Test func anAbsentDeviceCatchesUpAndSendsWhatItWrote() async throws {
        let (phone, laptop) = (device("phone"), device("laptop"))
        phone.addZone()
        phone.write("a", "1")
        try await wait("the laptop to show the note", on: laptop) { laptop.texts == ["a": "1"] }
        laptop.device.network.cut()
        phone.write("b", "2")
        laptop.write("c", "3")
        try await wait("the phone to have sent", on: phone) { phone.engine.state.pendingRecordZoneChanges.isEmpty }
        #expect(laptop.engine.state.pendingRecordZoneChanges == [.saveRecord(laptop.id("c"))])
        laptop.device.network.heal()
        let all = ["a": "1", "b": "2", "c": "3"]
        try await wait("the phone to have everything", on: phone) { phone.texts == all }
        try await wait("the laptop to have everything", on: laptop) { laptop.texts == all }
    }

    /// The state must be delivered at once, since the program may end during the wait.
    @Test(arguments: ["records/modify", "changes/database"])
    func aRetryAfterOfTheRelayIsKeptInTheState(_ operation: String) async throws {
        let device = relay.device(of: "alice", named: "phone")
        device.network.fail(request: 1, of: operation, by: .throttled(retryAfter: .seconds(3600)))
        let phone = SyncedNotes(device, isAutomatic: true)
        phone.addZone()
        phone.write("a", "1")
        try await wait("the wait to be kept", on: phone) {
            let state = phone.saved.flatMap { try? JSONEncoder().encode($0) } ?? Data()
            return String(decoding: state, as: UTF8.self).contains("heldUntil")
        }
    }

    @Test func twoEnginesOnOneConnectionReceiveEachOthersChanges() async throws {
        let mac = relay.device(of: "alice", named: "mac")
        let (first, second) = (SyncedNotes(mac, isAutomatic: true), SyncedNotes(mac, isAutomatic: true))
        first.addZone()
        first.write("a", "1")
        try await wait("the second engine to show the note", on: second) { second.texts == ["a": "1"] }
    }

    /// A sign-in after a sign-out takes effect at once.
    ///
    /// The clock stands still, so the engine cannot poll.
    @Test func aSignInTakesEffectAtOnce() async throws {
        let phone = SyncedNotes(relay.device(of: "alice", named: "phone"))
        phone.addZone()
        phone.write("a", "1")
        try await phone.engine.sendChanges()
        let tablet = relay.device(of: "alice", named: "tablet")
        try await tablet.container.signOut()
        let notes = SyncedNotes(tablet, isAutomatic: true, relay: relay)
        try await within(.seconds(60), "the engine to be refused") {
            while tablet.network.operations.isEmpty {
                try Task.checkCancellation()
                await Task.yield()
            }
        }
        try await tablet.signIn()
        try await within(.seconds(60), "the note") { try await notes.signal.until { notes.texts == ["a": "1"] } }
        phone.write("b", "2")
        try await phone.engine.sendChanges()
        try await within(.seconds(60), "a notice") { try await notes.signal.until { notes.texts.count == 2 } }
    }

    /// The zone is busy for ten minutes, which is longer than any wait in this test.
    @Test func aBusyZoneDoesNotDelayOtherZones() async throws {
        let phone = device("phone")
        phone.device.network.fail(request: 1, of: "records/modify", by: SyncedNotes.busyZone)
        phone.addZone()
        phone.write("a", "1")
        try await wait("the zone to be found busy", on: phone) {
            phone.log.contains("sentRecordZoneChanges(0 saved, 1 failed, 0 deleted, 0 failed)")
        }
        phone.write("text", as: CKRecord.ID(recordName: "other", zoneID: CKRecordZone.ID(zoneName: "Other")))
        try await wait("the other zone's record to be sent", on: phone) {
            phone.engine.state.pendingRecordZoneChanges == [.saveRecord(phone.id("a"))]
        }
    }

    @Test func aRefusedRecordDoesNotBlockOthers() async throws {
        let phone = device("phone")
        phone.addZone()
        phone.write("too long \(String(repeating: "x", count: 300))", "its name is refused")
        for number in 0..<20 { phone.write("n\(number)", "\(number)") }
        try await wait("the rest to be sent", on: phone) { phone.engine.state.pendingRecordZoneChanges.isEmpty }
        let reader = SyncedNotes(relay.device(of: "alice", named: "reader"))
        try await reader.engine.fetchChanges()
        #expect(reader.texts.count == 20)
    }
}

/// The public database, followed by polling.
@Suite(.timeLimit(.minutes(15))) struct PublicDatabasePollerTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private final class Board: Sendable {
        let texts = Mutex<[String: String]>([:])
        let state = Mutex<PublicDatabasePoller.State?>(nil)
        let applied = Mutex(0)
        let ended: AsyncStream<Void>
        private let end: AsyncStream<Void>.Continuation

        init() { (ended, end) = AsyncStream.makeStream() }

        func take(_ event: PublicDatabasePoller.Event) {
            switch event {
            case .fetchedRecords(let records):
                applied.withLock { $0 += records.count }
                for record in records { texts.withLock { $0[record.recordID.recordName] = record["text"] } }
            case .stateUpdate(let state): self.state.withLock { $0 = state }
            case .failed, .ended: break
            }
            if case .ended = event { end.yield() }
        }
    }

    private func poller(_ board: Board, from state: PublicDatabasePoller.State? = nil) -> PublicDatabasePoller {
        PublicDatabasePoller(
            database: relay.device(of: "alice").publicDatabase,
            recordTypes: ["Post"],
            state: state
        ) { board.take($0) }
    }

    private func post(_ name: String, _ text: String) async throws {
        let record = CKRecord(recordType: "Post", recordID: CKRecord.ID(recordName: name))
        record["text"] = text
        _ = try await relay.device(of: "bob").publicDatabase.modifyRecords(
            saving: [record],
            deleting: [],
            savePolicy: .allKeys
        )
    }

    private func polled(_ board: Board) async throws {
        try await TimedStream(board.ended).next("the poll to end") { $0 }
    }

    @Test func theFirstPollFetchesEverythingAndLaterPollsOnlyChanges() async throws {
        for number in 0..<250 { try await post("p\(number)", "text \(number)") }
        let board = Board()
        let poller = poller(board)
        await poller.start()
        try await polled(board)
        #expect(board.texts.withLock { $0.count } == 250)
        relay.clock.advance(by: .seconds(60))
        try await post("p7", "changed")
        try await post("new", "new")
        await poller.pollNow()
        try await polled(board)
        #expect(board.texts.withLock { $0["p7"] } == "changed")
        #expect(board.texts.withLock { $0["new"] } == "new")
        #expect(board.applied.withLock { $0 } == 252, "unchanged records were not delivered again")
        await poller.stop()
    }

    /// If the poller advanced past the failed record, it would never ask for it again.
    @Test func aRecordThatTheRelayCouldNotReadIsFetchedAgain() async throws {
        try await post("a", "1")
        let device = relay.device(of: "alice")
        let body = """
            {"records":[{"recordName":"a","serverErrorCode":"INTERNAL_ERROR","reason":"broken"},\
            {"recordName":"b","recordType":"Post","recordChangeTag":"t","fields":{},\
            "modified":{"timestamp":99999999999999}}]}
            """
        device.network.fail(request: 1, of: "records/query", by: .answered(status: 200, body: body))
        let board = Board()
        let poller = PublicDatabasePoller(database: device.publicDatabase, recordTypes: ["Post"]) { board.take($0) }
        await poller.start()
        try await polled(board)
        await poller.pollNow()
        try await polled(board)
        #expect(board.texts.withLock { $0["a"] } == "1")
        await poller.stop()
    }

    @Test func theStateSurvivesARestart() async throws {
        try await post("a", "1")
        let first = Board()
        let before = poller(first)
        await before.start()
        try await polled(first)
        await before.stop()
        let kept = try JSONEncoder().encode(try #require(first.state.withLock { $0 }))
        let state = try JSONDecoder().decode(PublicDatabasePoller.State.self, from: kept)
        let second = Board()
        let after = poller(second, from: state)
        await after.start()
        try await polled(second)
        #expect(second.applied.withLock { $0 } == 0)
        await after.stop()
    }
}
