import Foundation
import TestSupport
import Testing
import ZoneKit
import ZoneTesting

/// Engines whose work is cut short, or is about a part only: nothing of the rest is left lying.
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

    // MARK: Tasks that are cancelled

    /// Nothing was sent, so it cannot have gone well.
    @Test func aCancelledSendSaysSo() async throws {
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

    @Test func whatACancelledSendLeavesIsSentByItself() async throws {
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

    // MARK: Sends of a part

    @Test func whatASendOfAPartLeavesIsSentByItself() async throws {
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

    // MARK: Programs that end

    /// A program that is killed before it hears that its zone was refused must hear so in its next life.
    @Test func whatWasNotToldOfAZoneIsPendingInTheStateBefore() async throws {
        let phone = Ledger(device)
        device.network.fail(request: 1, of: "zones/modify", by: refusal)
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        let before = try #require(phone.state(before: "sentDatabaseChanges"))
        let reborn = Ledger(device, from: before, zones: 0)
        #expect(reborn.engine.state.pendingDatabaseChanges.map(\.zoneID) == [phone.zone])
        // Once it has been told, it is the program's to add again.
        let after = Ledger(device, from: phone.last, zones: 0)
        #expect(after.engine.state.pendingDatabaseChanges.isEmpty)
    }

    /// The state may be saved while the answer about a record waits to be told.
    @Test func whatWasNotToldOfARecordIsPendingInTheStateBefore() async throws {
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
        // An event takes its time; another change asks for the state to be saved; then the answer comes.
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
        let reborn = Ledger(device, from: before, zones: 0)
        #expect(reborn.pending.contains("milk"))
        #expect(Ledger(device, from: phone.last, zones: 0).pending.isEmpty)
    }

    // MARK: Accounts

    /// A sign-in that has ended says nothing of who the user is: what they wrote waits for them.
    @Test func anEndedSignInForgetsNothing() async throws {
        try await device.signIn()
        let phone = Ledger(device)
        try await phone.engine.sendChanges()
        device.network.cut()
        phone.write("milk")
        await #expect(throws: CKError.self) { try await phone.engine.sendChanges() }
        device.network.heal()
        try await device.expireSignIn()
        let reborn = Ledger(device, from: phone.last, zones: 0)
        await #expect(
            performing: { try await reborn.engine.sendChanges() },
            throws: { $0.is(.notAuthenticated) }
        )
        #expect(reborn.pending == ["milk"])
        #expect(reborn.state(before: "accountChange") == nil)
        try await device.signIn()
        try await reborn.engine.sendChanges()
        #expect(reborn.pending.isEmpty)
        // Who signs out says so.
        try await device.container.signOut()
        await #expect(throws: CKError.self) { try await reborn.engine.sendChanges() }
        #expect(reborn.state(before: "accountChange(signOut") != nil)
    }

    /// Each account has its subscriptions: the one that the engine began with brings the next one nothing.
    @Test func whoSignsInHearsOfChangesToo() async throws {
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

    /// What the next user writes while the last request of the one before is under way is as good as any other.
    @Test func whatTheNextUserWritesAtOnceIsSent() async throws {
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

    /// A relay that was put back from a copy may know nothing of a subscription that was made since.
    @Test func aLostSubscriptionIsMadeAgain() async throws {
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
