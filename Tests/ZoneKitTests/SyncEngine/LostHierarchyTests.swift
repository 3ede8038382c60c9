import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// A participant's zone is listed from the beginning whenever a hierarchy is shared with them or withdrawn.
///
/// A program that handles only Apple's events must receive the deletions.
@Suite(.timeLimit(.minutes(15))) struct LostHierarchyTests {
    private let relay: TestRelay
    private let alice: TestDevice
    private let bob: TestDevice
    private let zone = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        alice = relay.device(of: "alice")
        bob = relay.device(of: "bob")
        try await alice.privateDatabase.save(CKRecordZone(zoneID: zone))
    }

    private func note(_ name: String) -> CKRecord {
        let note = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name, zoneID: zone))
        note["text"] = name
        return note
    }

    /// Shares a list with one entry, which bob accepts.
    private func share(_ name: String) async throws -> CKShare {
        let (root, entry) = (note(name), note(name + " entry"))
        entry.setParent(root)
        let share = CKShare(rootRecord: root)
        share.publicPermission = .readWrite
        _ = try await alice.privateDatabase.modifyRecords(saving: [root, share, entry], deleting: [])
        try await bob.accept(share)
        return share
    }

    private func bobsNotes(from state: CKSyncEngine.State.Serialization? = nil) -> SyncedNotes {
        SyncedNotes(bob, sweeps: false, from: state, database: bob.sharedDatabase)
    }

    private func deletions(_ notes: SyncedNotes) -> Set<String> {
        let reported = notes.contents.withLock { $0.events }.compactMap { event in
            if case .fetchedRecordZoneChanges(let changes) = event { changes.deletions } else { nil }
        }
        return Set(reported.joined().map(\.recordID.recordName))
    }

    @Test(arguments: [false, true]) func aWithdrawnHierarchyIsReportedWhileOthersStay(afterRestart: Bool) async throws {
        let (shopping, trip) = (try await share("shopping"), try await share("trip"))
        var notes = bobsNotes()
        try await notes.engine.fetchChanges()
        #expect(notes.texts.count == 4)
        if afterRestart {
            let kept = try JSONEncoder().encode(try #require(notes.saved))
            notes = bobsNotes(from: try JSONDecoder().decode(CKSyncEngine.State.Serialization.self, from: kept))
        }
        try await alice.privateDatabase.deleteRecord(withID: shopping.recordID)
        try await notes.engine.fetchChanges()
        #expect(deletions(notes) == ["shopping", "shopping entry", shopping.recordID.recordName])

        // The deletion is reported only once, and later additions and removals are reported too.
        let count = notes.log.count
        let errands = try await share("errands")
        try await notes.engine.fetchChanges()
        #expect(!notes.log.dropFirst(count).contains { $0.hasSuffix("3 deleted)") })
        try await alice.privateDatabase.deleteRecord(withID: errands.recordID)
        try await notes.engine.fetchChanges()
        #expect(deletions(notes).isSuperset(of: ["errands", "errands entry"]))
        #expect(!deletions(notes).contains(trip.recordID.recordName) && !deletions(notes).contains("trip"))
    }

    @Test func ownSavedRecordsAreReportedAsDeletedButPendingOnesAreNot() async throws {
        let (shopping, _) = (try await share("shopping"), try await share("trip"))
        let notes = bobsNotes()
        try await notes.engine.fetchChanges()
        let known = notes.contents.withLock { $0.known }
        let root = try #require(known.values.first { $0.recordID.recordName == "shopping" })
        func write(_ name: String) {
            let id = CKRecord.ID(recordName: name, zoneID: root.recordID.zoneID)
            let entry = CKRecord(recordType: "Note", recordID: id)
            entry.setParent(root)
            notes.contents.withLock { contents in
                contents.known[id] = entry
                contents.texts[id] = name
            }
            notes.engine.state.add(pendingRecordZoneChanges: [.saveRecord(id)])
        }
        write("sent")
        try await notes.engine.sendChanges()
        write("pending")
        write("shopping")
        try await alice.privateDatabase.deleteRecord(withID: shopping.recordID)
        try await notes.engine.fetchChanges()
        #expect(deletions(notes) == ["sent", "shopping entry", shopping.recordID.recordName])
    }

    /// The zone was deleted and recreated since bob's last fetch, so bob's token belongs to the earlier zone.
    @Test func recordsOfARecreatedSharedZoneAreReportedAsDeleted() async throws {
        func shareZone() async throws {
            let share = CKShare(recordZoneID: zone)
            share.publicPermission = .readOnly
            try await alice.privateDatabase.save(share)
            try await bob.accept(share)
        }
        try await shareZone()
        try await alice.privateDatabase.save(note("old"))
        let notes = bobsNotes()
        try await notes.engine.fetchChanges()
        try await alice.privateDatabase.deleteRecordZone(withID: zone)
        try await alice.privateDatabase.save(CKRecordZone(zoneID: zone))
        try await shareZone()
        try await alice.privateDatabase.save(note("new"))
        try await notes.engine.fetchChanges()
        #expect(deletions(notes) == ["old"])
        #expect(notes.texts.keys.contains("new") && !notes.texts.keys.contains("old"))
    }
}

extension TestDevice {
    fileprivate func accept(_ share: CKShare) async throws {
        guard let url = share.url else { throw CKError(.unknownItem) }
        _ = try await container.accept(try await container.shareMetadata(for: url))
    }
}
