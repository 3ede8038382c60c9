import Foundation
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

/// Engines whose work is interrupted or limited to a part: the rest must still be completed.
@Suite(.timeLimit(.minutes(15))) struct InterruptionTests {
    private let relay: TestRelay
    private let device: TestDevice

    init() throws {
        relay = try TestRelay()
        device = relay.device(of: "alice", named: "phone")
    }

    private var refusal: TestNetwork.Fault {
        .answered(status: 403, body: #"{"uuid":"test","serverErrorCode":"ACCESS_DENIED","reason":"No."}"#)
    }

    // MARK: Cancelled tasks

    /// The send was cancelled before any request, so it must report an error.
    @Test func aCancelledSendReportsOperationCancelled() async throws {
        let phone = Ledger(device)
        try await phone.engine.sendChanges()
        phone.write("milk")
        let engine = phone.engine
        let send = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await engine.sendChanges()
        }
        await #expect(performing: { try await send.value }, throws: { $0.is(.operationCancelled) })
        #expect(phone.pending == ["milk"])
        try await engine.sendChanges()
        #expect(phone.pending.isEmpty)
    }

    @Test func automaticSyncSendsWhatACancelledSendLeft() async throws {
        relay.limits.itemsPerRequest = 2
        let phone = Ledger(device, isAutomatic: true)
        try await relay.settle()
        device.network.cut()
        for number in 0..<6 { phone.write("n\(number)") }
        await relay.advance(by: .seconds(1))
        device.network.heal()
        let engine = phone.engine
        let send = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await engine.sendChanges()
        }
        _ = await send.result
        try await relay.settle()
        #expect(phone.pending.isEmpty)
    }

    // MARK: Partial sends

    @Test func automaticSyncSendsWhatAPartialSendLeft() async throws {
        let phone = Ledger(device, isAutomatic: true)
        try await relay.settle()
        device.network.cut()
        phone.write("a")
        phone.write("b")
        await relay.advance(by: .seconds(1))
        device.network.heal()
        try await phone.engine.sendChanges(.init(scope: .recordIDs([phone.id("a")])))
        try await relay.settle()
        #expect(phone.pending.isEmpty)
    }

    // MARK: Terminated programs

    /// A program that is killed before it learns that its zone was refused must learn it after the next launch.
    @Test func aZoneWithAnUndeliveredResultIsPendingInTheEarlierState() async throws {
        let phone = Ledger(device)
        device.network.fail(request: 1, of: "zones/modify", by: refusal)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        let before = try #require(phone.state(before: "sentDatabaseChanges"))
        let relaunched = Ledger(device, from: before, zones: 0)
        #expect(relaunched.engine.state.pendingDatabaseChanges.map(\.zoneID) == [phone.zone])
        // After the event was delivered, it is up to the program to add the zone again.
        let after = Ledger(device, from: phone.last, zones: 0)
        #expect(after.engine.state.pendingDatabaseChanges.isEmpty)
    }

    /// The program may save the state while the result of a record save waits to be delivered.
    @Test func aRecordWithAnUndeliveredResultIsPendingInTheEarlierState() async throws {
        let phone = Ledger(device)
        try await phone.engine.sendChanges()
        phone.write("milk")
        let (asked, answer) = (Gate(), Gate())
        device.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer {
                asked.open()
                await answer.wait()
            }
        )
        let engine = phone.engine
        let send = Task { try await engine.sendChanges() }
        await asked.wait()
        // One event blocks; another change asks for a state update; then the answer arrives.
        let (isHeld, goesOn) = (Gate(), Gate())
        phone.hold(at: "willFetchChanges") {
            isHeld.open()
            await goesOn.wait()
        }
        let fetch = Task { try await engine.fetchChanges() }
        await isHeld.wait()
        phone.write("bread")
        for _ in 0..<1_000 { await Task.yield() }
        answer.open()
        for _ in 0..<100_000 where phone.pending.contains("milk") { await Task.yield() }
        #expect(phone.pending == ["bread"])
        goesOn.open()
        try await fetch.value
        try await send.value
        let before = try #require(phone.state(before: "sentRecordZoneChanges(1 saved"))
        let relaunched = Ledger(device, from: before, zones: 0)
        #expect(relaunched.pending.contains("milk"))
        #expect(Ledger(device, from: phone.last, zones: 0).pending.isEmpty)
    }

    // MARK: Accounts

    /// An expired sign-in does not tell who the user is, so pending changes of the user must stay.
    @Test func anExpiredSignInKeepsPendingChanges() async throws {
        try await device.signIn()
        let phone = Ledger(device)
        try await phone.engine.sendChanges()
        device.network.cut()
        phone.write("milk")
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        device.network.heal()
        try await device.expireSignIn()
        let relaunched = Ledger(device, from: phone.last, zones: 0)
        await #expect(
            performing: { try await relaunched.engine.sendChanges() },
            throws: { $0.is(.notAuthenticated) }
        )
        #expect(relaunched.pending == ["milk"])
        #expect(relaunched.state(before: "accountChange") == nil)
        try await device.signIn()
        try await relaunched.engine.sendChanges()
        #expect(relaunched.pending.isEmpty)
        // An explicit sign-out reports an account change.
        try await device.container.signOut()
        await #expect(throws: CKError.self) { try await relaunched.engine.sendChanges() }
        #expect(relaunched.state(before: "accountChange(signOut") != nil)
    }

    /// Subscriptions belong to an account: the first user's subscription does not serve the next user.
    @Test func theNextUserReceivesChangesToo() async throws {
        let phone = Ledger(device, isAutomatic: true)
        try await relay.settle()
        try await device.container.signIn(.dev(user: "bob"))
        try await relay.settle()
        let tablet = relay.device(of: "bob", named: "tablet").privateDatabase
        try await tablet.save(CKRecordZone(zoneID: phone.zone))
        try await tablet.save(CKRecord(recordType: "Note", recordID: phone.id("bob's")))
        try await relay.settle()
        #expect(phone.records == ["bob's"])
    }

    /// The next user's changes are valid even if the last request of the previous user is still running.
    @Test func changesOfTheNextUserAreSentAtOnce() async throws {
        let phone = Ledger(device, isAutomatic: true)
        try await relay.settle()
        device.network.fail(request: 1, of: "records/modify", by: .slow(.seconds(60)))
        phone.write("alice's")
        await relay.advance(by: .seconds(30))
        phone.onAccountChange { phone in
            phone.addZone()
            phone.write("bob's")
        }
        try await device.container.signIn(.dev(user: "bob"))
        try await relay.settle()
        #expect(phone.pending.isEmpty)
        let tablet = relay.device(of: "bob", named: "tablet").privateDatabase
        #expect(try await tablet.record(for: phone.id("bob's")).recordType == "Note")
    }

    /// A relay that was restored from a backup may lack a subscription that was created later.
    @Test func aLostSubscriptionIsCreatedAgain() async throws {
        let phone = Ledger(device, isAutomatic: true)
        try await relay.settle()
        let tablet = relay.device(of: "alice", named: "tablet").privateDatabase
        for subscription in try await tablet.allSubscriptions() {
            _ = try await tablet.deleteSubscription(withID: subscription.subscriptionID)
        }
        device.network.dropSockets()
        try await relay.settle()
        await relay.advance(by: .seconds(120))
        try await tablet.save(CKRecord(recordType: "Note", recordID: phone.id("news")))
        try await relay.settle()
        #expect(phone.records == ["news"])
    }
}

/// A relay that was down for a long time and is available again.
@Suite(.timeLimit(.minutes(15))) struct OutageTests {
    let relay: TestRelay
    let device: TestDevice

    init() throws {
        var options = TestRelay.Options()
        options.storage = .temporaryFolder
        relay = try TestRelay(options)
        device = relay.device(of: "alice", named: "phone")
    }

    /// The number of ready frames that the device has received.
    private var readyCount: Int { device.network.frames.count { $0.contains("\"ready\"") } }

    /// The device's back-off may have reached a minute by then.
    ///
    /// Without a reconnect it would see later changes only after it.
    @Test func theNoticeSocketReconnectsAsSoonAsAnyRequestSucceeds() async throws {
        let notebook = Notebook(on: device)
        try await relay.settle()
        #expect(readyCount == 1)
        for outage in 1...5 {
            relay.kill()
            await relay.advance(by: .seconds(1200))
            try relay.start()
            _ = try await device.privateDatabase.recordZone(for: notebook.zone)
            await relay.advance(by: .milliseconds(500))
            #expect(readyCount == 1 + outage)
        }
    }
}
