import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A response concerns what was sent: changes made while the request is in progress are handled separately.
///
/// See Sync.md, "Outbox" and "Refused writes".
@Suite(.timeLimit(.minutes(15))) struct OvertakenTests {
    private let relay: TestRelay
    private let noon = Date(timeIntervalSince1970: 43_200)

    init() throws { relay = try TestRelay() }

    /// Returns a phone with a synced note; the relay rejects all dates.
    private func phone() async throws -> Mirrored {
        let raw = relay.device(of: "alice", named: "raw").privateDatabase
        let record = CKRecord(recordType: "CD_Note", recordID: CKRecord.ID(recordName: "other"))
        record["CD_at"] = "noon"
        try await raw.save(record)
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        try phone.save(Note(id: "n", title: "1"))
        try await phone.sync()
        return phone
    }

    private func edit(_ mirror: Mirrored, _ change: (inout Note) -> Void) throws {
        let context = mirror.context()
        try context.edit(Note.self, "n", change)
        try context.save()
    }

    private func whileSending(_ phone: Mirrored, _ work: @escaping @Sendable () async throws -> Void) {
        phone.device.network.fail(
            request: 1,
            of: "records/modify",
            by: .beforeAnswer {
                await #expect(throws: Never.self) { try await work() }
            }
        )
    }

    /// The relay's content as a new device fetches it.
    private func titles() async throws -> [String: String] {
        let fresh = try await Mirrored(relay.device(of: "alice", named: UUID().uuidString))
        try await fresh.container.fetchChanges()
        return try fresh.titles
    }

    @Test func aDeletionSurvivesTheRejectionOfAnEdit() async throws {
        let phone = try await phone()
        try edit(phone) { $0.at = noon }
        whileSending(phone) { try phone.delete("n") }
        try await phone.container.sendChanges()
        #expect(try phone.titles == [:])
        #expect(try await titles() == [:])
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
    }

    @Test func aCorrectionDuringTheRequestIsSent() async throws {
        let phone = try await phone()
        try edit(phone) { ($0.at, $0.title) = (noon, "2") }
        whileSending(phone) { try self.edit(phone) { $0.at = nil } }
        try await phone.container.sendChanges()
        #expect(try phone.titles == ["n": "2"])
        #expect(try await titles() == ["n": "2"])
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
    }

    /// An edit that does not correct the error is rejected too, together with the first edit.
    @Test func anEditWithoutACorrectionIsRejectedWithTheFirst() async throws {
        let phone = try await phone()
        try edit(phone) { $0.at = noon }
        whileSending(phone) { try self.edit(phone) { $0.title = "2" } }
        await #expect(throws: MirrorError.self) { try await phone.container.sendChanges() }
        #expect(try phone.titles == ["n": "1"])
        let refused = try await phone.container.rejectedWrites(phone.store)
        #expect(refused.map { $0.fields["CD_title"] } == ["2"])
        #expect(refused.first?.fields["CD_at"] != nil)
    }

    // MARK: Deletions in progress

    /// Another device creates an object of the same name, which is fetched before the response to the deletion.
    @Test(arguments: [true, false]) func aDeletionDoesNotRemoveANewerObject(_ answers: Bool) async throws {
        let phone = try await phone()
        let other = relay.device(of: "alice", named: "other")
        let id = CKRecord.ID(
            recordName: "n",
            zoneID: CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")
        )
        try phone.delete("n")
        let work: @Sendable () async -> Void = {
            await #expect(throws: Never.self) {
                if !answers { try await other.privateDatabase.deleteRecord(withID: id) }
                let record = CKRecord(recordType: "CD_Note", recordID: id)
                record["CD_title"] = "made anew"
                _ = try await other.privateDatabase.save(record)
            }
        }
        phone.device.network.fail(
            request: 1,
            of: "records/modify",
            by: answers ? .beforeAnswer(work) : .meanwhile(work)
        )
        async let fetched: Void = phone.container.fetchChanges()
        try await phone.container.sendChanges()
        try? await fetched
        for _ in 0..<2 { try await phone.sync() }
        #expect(try await phone.titles == titles())
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    // MARK: Dropped exports

    /// Dropping comes too late: the object has the relay's value and continues to sync.
    @Test func anEditDroppedDuringItsRequestIsSynced() async throws {
        let phone = try await phone()
        try edit(phone) { $0.title = "2" }
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        whileSending(phone) { try await phone.container.dropPendingExport(of: id) }
        try await phone.sync()
        #expect(try phone.titles == ["n": "2"])
        #expect(try await titles() == ["n": "2"])
        try edit(phone) { $0.title = "1" }
        try await phone.sync()
        #expect(try await titles() == ["n": "1"])
    }

    @Test func aDeletionDroppedDuringItsRequestIsSynced() async throws {
        let phone = try await phone()
        try phone.delete("n")
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        whileSending(phone) { try await phone.container.dropPendingExport(of: id) }
        try await phone.sync()
        #expect(try phone.titles == [:])
        #expect(try await titles() == [:])
    }

    /// A new object whose record was created nevertheless is fetched like any other.
    @Test func aCreationDroppedDuringItsRequestIsSynced() async throws {
        let phone = try await phone()
        try phone.save(Note(id: "m", title: "m"))
        let id = ObjectID(store: phone.store, entity: "Note", name: "m")
        whileSending(phone) { try await phone.container.dropPendingExport(of: id) }
        try await phone.sync()
        #expect(try await phone.titles == titles())
    }
}
