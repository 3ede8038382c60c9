import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// Objects moving to another zone whose copies the relay rejects, or whose changes the user drops: the originals on the
/// relay stay visible to all devices.
@Suite(.timeLimit(.minutes(15))) struct RefusedMoveTests {
    private let relay: TestRelay

    init() throws { relay = try TestRelay() }

    private func device(_ name: String, relayMoves: Bool = true) async throws -> Mirrored {
        var conditions = MirrorConditions()
        conditions.relayMoves = relayMoves
        return try await Mirrored(relay.device(of: "alice", named: name), conditions: conditions)
    }

    private func edit(_ mirror: Mirrored, _ title: String) throws {
        let context = mirror.context()
        try context.edit(Note.self, "n") { $0.title = title }
        try context.save()
    }

    private func zone(_ mirror: Mirrored) async throws -> String? {
        let id = ObjectID(store: mirror.store, entity: "Note", name: "n")
        return try await mirror.container.recordID(for: id)?.zoneID.zoneName
    }

    /// Changes besides the move become rejected writes; the move is retried.
    @Test(arguments: [true, false]) func aRejectedMoveLosesNothing(_ isEdited: Bool) async throws {
        let (phone, laptop) = (try await device("phone", relayMoves: false), try await device("laptop"))
        try phone.save(Note(id: "n", title: "a"))
        try await phone.sync()
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        let (_, share, _) = try await phone.container.share([id])
        for mirror in [phone, laptop] { try await mirror.sync() }
        if isEdited { try edit(phone, "b") }
        let answer = #"{"records":[{"recordName":"n","reason":"no","serverErrorCode":"BAD_REQUEST"}]}"#
        phone.device.network.fail(request: 1, of: "records/modify", by: .answered(status: 200, body: answer))
        await #expect(throws: MirrorError.self) {
            try await phone.container.stopSharing(share, in: phone.store)
            try await phone.container.sendChanges()
        }
        #expect(try phone.titles == ["n": "a"])
        let refused = try await phone.container.rejectedWrites(phone.store)
        #expect(refused.map { $0.fields["CD_title"] } == (isEdited ? ["b"] : []))
        for mirror in [laptop, phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.titles == ["n": "a"])
        }
        for write in refused { try await phone.container.retry(write) }
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.titles == ["n": isEdited ? "b" : "a"])
            #expect(try await zone(mirror) == "com.apple.coredata.cloudkit.zone")
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
        #expect(try await phone.device.privateDatabase.allRecordZones().count == 2)
    }

    /// Dropping the changes of an object affects neither the object nor its move.
    @Test(arguments: [true, false]) func droppingAChangeDuringAMoveLosesNothing(_ isEdited: Bool) async throws {
        let (phone, laptop) = (try await device("phone"), try await device("laptop"))
        try phone.save(Note(id: "n", title: "a"))
        for mirror in [phone, laptop] { try await mirror.sync() }
        let id = ObjectID(store: phone.store, entity: "Note", name: "n")
        phone.device.network.fail(request: 1, of: "records/move", by: .unreachable)
        await #expect(throws: MirrorError.self) { try await phone.container.share([id]) }
        if isEdited { try edit(phone, "b") }
        try await phone.container.dropPendingExport(of: id)
        #expect(try phone.titles == ["n": "a"])
        let (_, share, _) = try await phone.container.share([id])
        for mirror in [phone, laptop] {
            try await mirror.sync()
            #expect(try mirror.titles == ["n": "a"])
            #expect(try await zone(mirror) == share.recordID.zoneID.zoneName)
            #expect(try await mirror.container.pendingExportCount(mirror.store) == 0)
        }
    }
}
