import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Failures of different kinds are counted separately for each change.
@Suite(.timeLimit(.minutes(15))) struct RepeatedFailureTests {
    let relay: TestRelay
    let phone: Mirrored
    let laptop: Mirrored

    init() async throws {
        relay = try TestRelay()
        phone = try await Mirrored(relay.device(of: "alice", named: "phone"))
        laptop = try await Mirrored(relay.device(of: "alice", named: "laptop"))
        try phone.save(Note(id: "a", title: "1"))
        try await phone.sync()
        try await laptop.sync()
        // The phone's next request causes a conflict.
        for (mirror, title) in [(phone, "phone"), (laptop, "laptop")] {
            let context = mirror.context()
            try context.edit(Note.self, "a") { $0.title = title }
            try context.save()
        }
        try await laptop.sync()
    }

    @Test func aConflictDoesNotCountAsAServerError() async throws {
        let body = #"{"records":[{"recordName":"a","serverErrorCode":"INTERNAL_ERROR","reason":"broken"}]}"#
        phone.device.network.fail(request: 2, of: "records/modify", by: .answered(status: 200, body: body))
        try? await phone.container.sendChanges()
        #expect(try phone.titles == ["a": "phone"])
        #expect(try await phone.container.rejectedWrites(phone.store).isEmpty)
        for mirror in [phone, laptop] { try await mirror.sync() }
        for mirror in [phone, laptop] { #expect(try mirror.titles == ["a": "phone"]) }
    }

    /// Another device shares the object between the conflict and the next attempt.
    @Test func anObjectMovedAfterAConflictIsFound() async throws {
        let laptop = laptop
        let id = ObjectID(store: laptop.store, entity: "Note", name: "a")
        phone.device.network.fail(
            request: 2,
            of: "records/modify",
            by: .meanwhile { _ = try? await laptop.container.share([id], title: "Ours") }
        )
        try await phone.container.sendChanges()
        for mirror in [phone, laptop, phone, laptop] { try await mirror.sync() }
        let fresh = try await Mirrored(relay.device(of: "alice", named: "fresh"))
        try await fresh.sync()
        for mirror in [phone, laptop, fresh] {
            #expect(try mirror.titles == ["a": "phone"])
            #expect(try await mirror.container.fetchShares(in: mirror.store).count == 1)
        }
        let database = phone.device.privateDatabase
        var places: [String] = []
        for zone in try await database.allRecordZones() where zone.zoneID != CKRecordZone.default().zoneID {
            let page = try await database.recordZoneChanges(inZoneWith: zone.zoneID, since: nil)
            places += page.modificationResultsByID.keys.map(\.recordName).filter { $0 == "a" }
        }
        #expect(places == ["a"])
    }
}
