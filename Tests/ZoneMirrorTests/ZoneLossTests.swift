import Foundation
import GRDB
import Records
import TestSupport
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A zone is deleted for one of three reasons, each with its own effect on the user's other devices.
@Suite(.timeLimit(.minutes(15))) struct ZoneLossTests {
    let relay: TestRelay
    static let home = CKRecordZone.ID(zoneName: "com.apple.coredata.cloudkit.zone")

    init() throws { relay = try TestRelay() }

    func devices() async throws -> (phone: Mirrored, laptop: Mirrored) {
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        let laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "a", title: "1"), Note(id: "b", title: "2"))
        try await phone.sync()
        try await laptop.sync()
        let context = laptop.context()
        try context.edit(Note.self, "a") { $0.title = "edited, not sent" }
        try context.save()
        return (phone, laptop)
    }

    @Test func erasedObjectsDoNotComeBack() async throws {
        let (phone, laptop) = try await devices()
        try await phone.container.eraseAllData(in: phone.store)
        #expect(try phone.titles == [:])
        let events = laptop.container.events
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == [:])
        try await laptop.container.sendChanges()
        #expect(try await laptop.container.pendingExportCount(laptop.store) == 0)
        let zones = try await phone.device.privateDatabase.allRecordZones().map(\.zoneID.zoneName)
        #expect(zones == ["_defaultZone"])
        await laptop.container.close()
        var details: [MirrorEvent.Detail] = []
        for await event in events { details += event.details }
        #expect(details.contains(.droppedChanges(["a"])))
        let home = "com.apple.coredata.cloudkit.zone"
        #expect(details.contains { if case .zoneLost(let zone, "purged") = $0 { zone.contains(home) } else { false } })
    }

    /// Objects saved after the erasure are not part of it.
    @Test func unsentNewObjectsSurviveAnErasure() async throws {
        let (phone, laptop) = try await devices()
        try await phone.container.eraseAllData(in: phone.store)
        try laptop.save(Note(id: "new", title: "written since"))
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["new": "written since"])
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.titles == ["new": "written since"])
    }

    @Test func afterAKeyResetAllObjectsAreSentAgain() async throws {
        let (phone, laptop) = try await devices()
        let there = phone.context()
        try there.edit(Note.self, "b") { $0.title = "edited on the phone" }
        try there.save()
        try await phone.container.resetEncryptedData(in: phone.store)
        #expect(try phone.titles.count == 2)
        try await laptop.container.fetchChanges()
        #expect(try laptop.titles == ["a": "edited, not sent", "b": "2"])
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.titles["a"] == "edited, not sent")
            #expect(try mirror.titles["b"] != nil)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
            #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
        }
        #expect(try phone.titles == laptop.titles)
        let page = try await phone.device.privateDatabase.recordZoneChanges(inZoneWith: Self.home, since: nil)
        #expect(page.modificationResultsByID.count == 2)
    }

    /// A device that was offline for long has older values, which must not overwrite newer ones.
    @Test(arguments: MergePolicy.allCases.filter { $0 != .error }, [true, false])
    func afterAResetOlderValuesDoNotOverwriteNewerOnes(_ policy: MergePolicy, _ isEditedToo: Bool) async throws {
        func merging(_ store: inout StoreDescription) { store.cloud?.mergePolicy = policy }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), merging)
        let tablet = try await Mirrored(relay.device(of: "alice", named: "tablet"), merging)
        try phone.save(Note(id: "a", title: "old"), Note(id: "b", title: "old"))
        for mirror in [phone, tablet] { try await mirror.sync() }
        // While the tablet is offline.
        try edit(phone, "a") { $0.title = "new" }
        try await phone.sync()
        if isEditedToo { try edit(tablet, "a") { $0.body = "of the tablet" } }
        try await phone.container.resetEncryptedData(in: phone.store)
        try await phone.sync()
        try await tablet.container.fetchChanges()
        for mirror in [tablet, phone] { try await mirror.sync() }
        for mirror in [phone, tablet] {
            #expect(try mirror.titles["b"] == "old")
            guard !isEditedToo || policy != .overwrite else { continue }
            #expect(try mirror.titles["a"] == "new")
            guard isEditedToo, policy != .rollback else { continue }
            #expect(try mirror.context().object(Note.self, "a")?.body == "of the tablet")
        }
    }

    /// The resetting device fetches all changes first.
    @Test func aResetFetchesFirst() async throws {
        let (phone, laptop) = try await devices()
        try edit(laptop, "b") { $0.title = "newer" }
        try await laptop.sync()
        try await phone.container.resetEncryptedData(in: phone.store)
        for mirror in [phone, laptop, phone] { try await mirror.sync() }
        for mirror in [phone, laptop] { #expect(try mirror.titles == ["a": "edited, not sent", "b": "newer"]) }
    }

    /// Increments on either device before a reset are counted once.
    @Test func aResetCountsEachIncrementOnce() async throws {
        func counting(_ store: inout StoreDescription) {
            store.cloud?.propertyResolvers["Note.stars"] = { base, mine, theirs in
                func number(_ value: DatabaseValue) -> Int { Int.fromDatabaseValue(value) ?? 0 }
                return (number(mine) + number(theirs) - number(base)).databaseValue
            }
        }
        let phone = try await Mirrored(relay.device(of: "alice", named: "phone"), counting)
        let tablet = try await Mirrored(relay.device(of: "alice", named: "tablet"), counting)
        try phone.save(Note(id: "a", title: "A"), Note(id: "b", title: "B"))
        for name in ["a", "b"] as [RecordName] { try edit(phone, name) { $0.stars = 3 } }
        for mirror in [phone, tablet] { try await mirror.sync() }
        for mirror in [phone, tablet] { try edit(mirror, "a") { $0.stars += 1 } }
        try await phone.container.resetEncryptedData(in: phone.store)
        try await phone.sync()
        try await tablet.container.fetchChanges()
        for mirror in [tablet, phone] { try await mirror.sync() }
        for mirror in [phone, tablet] {
            #expect(try mirror.context().object(Note.self, "a")?.stars == 5)
            #expect(try mirror.context().object(Note.self, "b")?.stars == 3)
        }
    }

    /// An unsent deletion prevails over a device that sends the object again; otherwise there is nothing to delete.
    @Test func objectsDeletedBeforeAResetStayDeleted() async throws {
        let (phone, laptop) = try await devices()
        for mirror in [laptop, phone] { try await mirror.sync() }
        let context = laptop.context()
        try context.delete(Note.self, id: "b")
        try context.save()
        try await phone.container.resetEncryptedData(in: phone.store)
        try await phone.sync()
        try await laptop.container.fetchChanges()
        for mirror in [laptop, phone] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["a": "edited, not sent"])
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    private func edit(_ mirror: Mirrored, _ name: RecordName, _ change: (inout Note) -> Void) throws {
        let context = mirror.context()
        try context.edit(Note.self, name, change)
        try context.save()
    }

    /// The zone is recreated before the other device fetches; the device learns of the erasure all the same.
    @Test func erasedObjectsDoNotComeBackToARecreatedZone() async throws {
        let (phone, laptop) = try await devices()
        try await phone.container.eraseAllData(in: phone.store)
        try phone.save(Note(id: "new", title: "written since"))
        try await phone.sync()
        try laptop.save(Note(id: "never sent", title: "mine"))
        for mirror in [laptop, phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == ["new": "written since", "never sent": "mine"])
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }

    /// An erasure deletes the zones of all shares too.
    ///
    /// A device that finds the home zone replaced, and has not seen yet that a share has ended, gives a new object the
    /// same id as the other devices, although an object of the share had that id.
    @Test func anObjectCreatedAfterAnErasureHasTheSameIDOnAllDevices() async throws {
        let (phone, laptop) = try await devices()
        _ = try await phone.container.share([ObjectID(store: phone.store, entity: "Note", name: "b")])
        for mirror in [laptop, phone] { try await mirror.sync() }
        try edit(phone, "a") { $0.stars = 1 }
        try await phone.sync()
        // A record that was created at another time is not the one that was in the share.
        relay.clock.advance(by: .seconds(60))
        let erased = Gate()
        laptop.device.network.fail(
            request: 1,
            of: "changes/zone",
            by: .meanwhile {
                do {
                    try await phone.container.eraseAllData(in: phone.store)
                    try phone.save(Note(id: "b", title: "written since"))
                    try await phone.sync()
                    erased.open()
                } catch {
                    Issue.record(error)
                }
            }
        )
        try await laptop.container.fetchChanges()
        await erased.wait()
        for mirror in [laptop, phone] {
            #expect(try mirror.titles == ["b": "written since"], "\(mirror.device.name)")
        }
    }

    @Test func afterAResetObjectsUnknownToTheResettingDeviceAreSentAgain() async throws {
        let (phone, laptop) = try await devices()
        for mirror in [laptop, phone] { try await mirror.sync() }
        try laptop.save(Note(id: "c", title: "3"))
        try await laptop.container.sendChanges()
        // The phone has not fetched the note.
        try await phone.container.resetEncryptedData(in: phone.store)
        try await phone.container.sendChanges()
        let titles = ["a": "edited, not sent", "b": "2", "c": "3"]
        for mirror in [laptop, laptop, phone] { try await mirror.sync() }
        for mirror in [phone, laptop] {
            #expect(try mirror.titles == titles)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
            #expect(try await mirror.container.rejectedWrites(mirror.store).isEmpty)
        }
    }

    /// The database feed contains the reasons as well.
    @Test func theDatabaseFeedContainsTheDeletionReason() async throws {
        let database = relay.device(of: "alice", named: "raw").privateDatabase
        for name in ["plain", "purged", "reset"] { try await database.save(CKRecordZone(zoneName: name)) }
        let token = try await database.databaseChanges(since: nil).changeToken
        try await database.deleteRecordZone(withID: .init(zoneName: "plain"))
        try await database.end(.init(zoneName: "purged"), because: .purged)
        try await database.end(.init(zoneName: "reset"), because: .encryptedDataReset)
        let deletions = try await database.databaseChanges(since: token).deletions
        let reasons = Dictionary(uniqueKeysWithValues: deletions.map { ($0.zoneID.zoneName, $0.reason) })
        #expect(reasons == ["plain": .deleted, "purged": .purged, "reset": .encryptedDataReset])
    }
}
