import Foundation
import Synchronization
import Testing
import ZoneKit
import ZoneTesting

/// A device that saved before its first fetch.
///
/// Its program handles only Apple's events.
@Suite(.timeLimit(.minutes(15))) struct FirstFetchTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func phone(
        from state: CKSyncEngine.State.Serialization? = nil,
        texts: [CKRecord.ID: String] = [:]
    ) -> SyncedNotes {
        let device = relay.device(of: "alice", named: "phone")
        return SyncedNotes(device, sweeps: false, from: state, texts: texts)
    }

    /// A phone that has saved two notes and has not fetched yet.
    private func writer() async throws -> SyncedNotes {
        let phone = phone()
        phone.addZone()
        phone.write("bread", "Bread")
        phone.write("milk", "Milk")
        try await phone.engine.sendChanges()
        return phone
    }

    private func deleteElsewhere(_ name: String) async throws {
        let laptop = SyncedNotes(relay.device(of: "alice", named: "laptop"))
        try await laptop.engine.fetchChanges()
        laptop.delete(name)
        try await laptop.engine.sendChanges()
    }

    @Test func deletionsBeforeTheFirstFetchAreReported() async throws {
        let phone = try await writer()
        try await deleteElsewhere("milk")
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["bread": "Bread"])
        let deletions = phone.contents.withLock { $0.events }.compactMap { event in
            if case .fetchedRecordZoneChanges(let changes) = event { changes.deletions } else { nil }
        }
        #expect(deletions.joined().map(\.recordID.recordName) == ["milk"])
        #expect(deletions.joined().map(\.recordType) == ["Note"])

        // The deletion is reported only once.
        let count = phone.log.count
        try await phone.engine.fetchChanges()
        #expect(!phone.log.dropFirst(count).contains { $0.hasPrefix("fetchedRecordZoneChanges") })
    }

    @Test func deletionsBeforeTheFirstFetchAreReportedAfterARestart() async throws {
        let before = try await writer()
        try await deleteElsewhere("milk")
        let after = phone(from: before.saved, texts: before.contents.withLock { $0.texts })
        #expect(after.texts.count == 2)
        try await after.engine.fetchChanges()
        #expect(after.texts == ["bread": "Bread"])
    }

    @Test func pendingRecordsAreNotReportedAsDeleted() async throws {
        let phone = try await writer()
        try await deleteElsewhere("milk")
        phone.write("milk", "More milk")
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["bread": "Bread", "milk": "More milk"])
        #expect(phone.engine.state.pendingRecordZoneChanges == [.saveRecord(phone.id("milk"))])
    }

    @Test func ownDeletionsAreNotReported() async throws {
        let phone = try await writer()
        phone.delete("milk")
        try await phone.engine.sendChanges()
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["bread": "Bread"])
        #expect(!phone.log.contains { $0.hasPrefix("fetchedRecordZoneChanges") && !$0.contains(" 0 deleted") })
    }

    @Test func aLongListingIsNotRepeatedInEachState() async throws {
        let count = 4000
        let laptop = SyncedNotes(relay.device(of: "alice", named: "laptop"))
        laptop.addZone()
        (0..<count).forEach { laptop.write("note-\($0)", "\($0)") }
        try await laptop.engine.sendChanges()
        let phone = phone()
        try await phone.engine.fetchChanges()
        #expect(phone.texts.count == count)
        let states = phone.contents.withLock { $0.events }.compactMap { event in
            if case .stateUpdate(let update) = event { update.stateSerialization } else { nil }
        }
        let names = states.map { $0.contents.listedCount }
        #expect(names.reduce(0, +) < 8 * count)

        // A restart from a state in the middle continues, although that state covers fewer records than were delivered.
        let middle = try #require(names.lastIndex { $0 > 0 })
        let after = self.phone(from: states[middle])
        try await after.engine.fetchChanges()
        #expect(after.texts.count >= count - names[middle] && after.texts.count < count)
        #expect(after.saved?.contents.listedCount == 0)
    }

    @Test func aDeletedZoneTakesItsSavedRecordsWithIt() async throws {
        let phone = try await writer()
        _ = try await relay.device(of: "alice", named: "laptop").privateDatabase.deleteRecordZone(withID: phone.zone)
        _ = try await relay.device(of: "alice", named: "laptop").privateDatabase.save(CKRecordZone(zoneID: phone.zone))
        try await phone.engine.fetchChanges()
        #expect(phone.texts.isEmpty)
    }

    /// The zone is deleted while the device fetches it, and exists again when the device asks the database feed about
    /// it.
    @Test func aZoneRecreatedDuringAFetchIsReportedAsDeletedFirst() async throws {
        let laptop = SyncedNotes(relay.device(of: "alice", named: "laptop"))
        laptop.addZone()
        laptop.write("milk", "Milk")
        try await laptop.engine.sendChanges()
        let phone = phone()
        try await phone.engine.fetchChanges()
        #expect(phone.texts == ["milk": "Milk"])
        laptop.write("bread", "Bread")
        try await laptop.engine.sendChanges()

        let (database, zone) = (laptop.device.privateDatabase, laptop.zone)
        let network = phone.device.network
        network.fail(
            request: 1,
            of: "changes/zone",
            by: .meanwhile { _ = try? await database.deleteRecordZone(withID: zone) }
        )
        network.fail(
            request: 2,
            of: "changes/database",
            by: .meanwhile { _ = try? await database.save(CKRecordZone(zoneID: zone)) }
        )
        try await phone.engine.fetchChanges()
        #expect(phone.texts.isEmpty)
        let reports = phone.log.filter { $0.hasPrefix("fetchedDatabaseChanges") }.suffix(2)
        #expect(reports.map { $0.dropFirst(22) } == ["(0 changed, 1 deleted)", "(1 changed, 0 deleted)"])
        try await phone.engine.fetchChanges()
        #expect(phone.log.filter { $0.hasSuffix("1 deleted)") }.count == 1)
    }
}

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
