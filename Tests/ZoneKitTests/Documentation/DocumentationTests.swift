import Testing
import ZoneKit
import ZoneTesting

/// The code of the documentation catalogue behaves as the pages say; `SnippetTests` checks that it is compiled unchanged.
@Suite(.timeLimit(.minutes(15))) struct DocumentationTests {
    @Test func theFirstSyncListingWorks() async throws {
        let container = try TestRelay().device(of: "alice").container
        #expect(try await firstSync(container) == ["Buy milk"])
        #expect(try await firstSync(container) == ["Buy milk", "Buy milk"])
    }

    @Test func theDelegateKeepsDevicesInSync() async throws {
        let relay = try TestRelay()
        let (phone, laptop) = (NotesSync(), NotesSync())
        phone.start(relay.device(of: "alice", named: "phone").container)
        laptop.start(relay.device(of: "alice", named: "laptop").container)
        phone.write("milk", "Buy milk")
        try await relay.settle()
        #expect(laptop.text("milk") == "Buy milk")
        laptop.write("milk", "Buy oat milk")
        try await relay.settle()
        #expect(phone.text("milk") == "Buy oat milk")
    }

    @Test func conflictsAreMerged() async throws {
        let relay = try TestRelay()
        let database = relay.device(of: "alice").privateDatabase
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "n"))
        record["text"] = "first"
        try await database.save(record)
        let stale = CKRecord(recordType: "Note", recordID: record.recordID)
        stale["text"] = "second"
        #expect(try await saveWithRetry(stale, in: database)["text"] == "second")
        let found: [CKRecord] = await withCheckedContinuation { done in
            fetchTheOldWay([record.recordID], in: database) { done.resume(returning: $0) }
        }
        #expect(found.map(\.recordID) == [record.recordID])
    }

    @Test func manualSyncWorks() async throws {
        try await followNotes(try TestRelay().device(of: "alice").container)
    }
}
