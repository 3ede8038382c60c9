import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// The account status when it cannot be determined at once.
@Suite(.timeLimit(.minutes(15))) struct AccountTests {
    private let relay: TestRelay
    private let phone: TestDevice

    init() throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
    }

    /// A program that could not determine the account at launch waits for `CKAccountChanged`.
    @Test func theAccountIsDeterminedOnceTheNetworkIsBack() async throws {
        let posted = Mutex(0)
        let center = NotificationCenter.default
        let observer = center.addObserver(forName: .CKAccountChanged, object: nil, queue: nil) { _ in
            posted.withLock { $0 += 1 }
        }
        defer { center.removeObserver(observer) }
        phone.network.cut()
        #expect(try await phone.container.accountStatus() == .couldNotDetermine)
        let (status, error) = await withCheckedContinuation {
            (done: CheckedContinuation<(CKAccountStatus, CKError.Code?), Never>) in
            phone.container.accountStatus { done.resume(returning: ($0, ($1 as? CKError)?.code)) }
        }
        #expect(status == .couldNotDetermine && error == .networkUnavailable)
        phone.network.heal()
        await relay.advance(by: .seconds(600))
        #expect(phone.connection.caller.recordName != nil)
        // Other tests post it too, so this only shows that it was posted at all.
        #expect(posted.withLock { $0 } > 0)
        let asked = phone.network.operations.count
        await relay.advance(by: .seconds(3_600))
        #expect(phone.network.operations.count == asked, "the container asked again although the account is known")
    }

    @Test func aSignOutIsReportedWithoutANetwork() async throws {
        let notes = SyncedNotes(phone)
        notes.addZone()
        try await notes.engine.sendChanges()
        phone.network.cut()
        try await phone.container.signOut()
        await expect(.notAuthenticated) { try await notes.engine.fetchChanges() }
        #expect(notes.log.last?.hasPrefix("accountChange(signOut") == true, "\(notes.log)")
    }

    /// Programs delete the data of a removed account and keep the data of an account that must sign in again.
    @Test func anExpiredSignInIsTemporarilyUnavailableNotNoAccount() async throws {
        try await phone.signIn()
        #expect(try await phone.container.accountStatus() == .available)
        try await phone.expireSignIn()
        #expect(try await phone.container.accountStatus() == .temporarilyUnavailable)
        let (status, error) = await withCheckedContinuation {
            (done: CheckedContinuation<(CKAccountStatus, (any Error)?), Never>) in
            phone.container.accountStatus { done.resume(returning: ($0, $1)) }
        }
        #expect(status == .temporarilyUnavailable && error == nil)
        await expect(.notAuthenticated) { _ = try await phone.privateDatabase.allRecordZones() }
        try await phone.signIn()
        #expect(try await phone.container.accountStatus() == .available)
        try await phone.container.signOut()
        #expect(try await phone.container.accountStatus() == .noAccount)
    }

    /// A temporary failure must not stop the engine for good.
    @Test(arguments: [401, 403, 407, 503]) func aTemporarySignInFailureIsRetried(_ status: Int) async throws {
        let notes = SyncedNotes(phone, isAutomatic: true)
        notes.addZone()
        notes.write("a", "1")
        try await within(.seconds(300), "the first note to be sent") {
            try await notes.signal.until { notes.engine.state.pendingRecordZoneChanges.isEmpty }
        }
        for number in 1...3 {
            phone.network.fail(request: number, of: "users/caller", by: .answered(status: status, body: "no"))
        }
        try await phone.signIn()
        notes.write("b", "2")
        try await within(.seconds(300), "the second note to be sent") {
            try await notes.signal.until { notes.engine.state.pendingRecordZoneChanges.isEmpty }
        }
    }
}
