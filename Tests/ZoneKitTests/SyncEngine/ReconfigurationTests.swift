import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// A program that configures its container again while engines run, possibly for another user.
@Suite(.timeLimit(.minutes(15))) struct ReconfigurationTests {
    private let relay: TestRelay
    private let phone: TestDevice

    init() throws {
        relay = try TestRelay()
        phone = relay.configurableDevice(of: "alice")
    }

    private func notes(isAutomatic: Bool = false) throws -> SyncedNotes {
        SyncedNotes(
            phone,
            isAutomatic: isAutomatic,
            database: try phone.configure(as: "alice").privateCloudDatabase
        )
    }

    private func texts(of user: String) async throws -> [String: String] {
        let reader = SyncedNotes(relay.device(of: user, named: "reader", container: phone.connection.container))
        try await reader.engine.fetchChanges()
        return reader.texts
    }

    @Test func pendingChangesAreNotSentForTheNextUser() async throws {
        let notes = try notes()
        notes.addZone()
        notes.write("a", "alice's")
        try await notes.engine.sendChanges()
        phone.network.cut()
        notes.write("secret", "alice's, not sent")
        await #expect(throws: CKError.self) { try await notes.engine.sendChanges() }
        _ = try phone.configure(as: "bob")
        phone.network.heal()
        notes.contents.withLock { $0.events = [] }
        try? await notes.engine.sendChanges()
        #expect(notes.log.first?.hasPrefix("accountChange(switchAccounts") == true, "\(notes.log)")
        #expect(notes.engine.state.pendingRecordZoneChanges.isEmpty)
        #expect(try await texts(of: "bob").isEmpty)
        #expect(try await texts(of: "alice") == ["a": "alice's"])
    }

    /// Requests that a call has not sent yet when the user changes must not be sent for the new user.
    @Test func aRunningCallEndsWhenTheUserChanges() async throws {
        let database = try notes().engine.database
        try await database.save(CKRecordZone(zoneName: "One"))
        try await database.save(CKRecordZone(zoneName: "Two"))
        let records = ["One", "Two"].map { CKRecord(recordType: "Note", zoneID: CKRecordZone.ID(zoneName: $0)) }
        phone.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer { [phone] in _ = try? phone.configure(as: "bob") }
        )
        let results = try await database.modifyRecords(saving: records, deleting: []).saveResults
        expect(.accountTemporarilyUnavailable) { _ = try results[records[1].recordID]?.get() }
    }

    /// The engine reports the account change and receives the new user's notices.
    @Test func anAutomaticEngineFollowsTheNewUser() async throws {
        let notes = try notes(isAutomatic: true)
        try await within(.seconds(300), "alice to be signed in") {
            try await notes.signal.until { notes.log.contains { $0.hasPrefix("accountChange(signIn") } }
        }
        _ = try phone.configure(as: "bob")
        try await within(.seconds(300), "bob to be signed in") {
            try await notes.signal.until { notes.log.contains { $0.hasPrefix("accountChange(switchAccounts") } }
        }
        let writer = SyncedNotes(relay.device(of: "bob", named: "laptop", container: phone.connection.container))
        writer.addZone()
        writer.write("b", "bob's")
        try await writer.engine.sendChanges()
        try await within(.seconds(60), "bob's note") { try await notes.signal.until { notes.texts == ["b": "bob's"] } }
        writer.write("c", "bob's")
        try await writer.engine.sendChanges()
        try await within(.seconds(50), "a notice") { try await notes.signal.until { notes.texts.count == 2 } }
    }

    /// A program may create its engine before it configures the relay.
    ///
    /// The engine must not wait for its next poll then.
    @Test func anEngineCreatedBeforeTheConfigurationReceivesNotices() async throws {
        let container = phone.connection.container
        let early = SyncedNotes(
            phone,
            isAutomatic: true,
            database: CKContainer(identifier: container).privateCloudDatabase
        )
        await #expect(throws: CKError.self) { try await early.engine.fetchChanges() }
        _ = try phone.configure(as: "alice")
        let writer = SyncedNotes(relay.device(of: "alice", named: "laptop", container: container))
        writer.addZone()
        writer.write("a", "alice's")
        try await writer.engine.sendChanges()
        try await within(.seconds(50), "a notice") { try await early.signal.until { early.texts == ["a": "alice's"] } }
    }
}
