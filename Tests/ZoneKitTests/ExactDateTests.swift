import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// Dates survive the relay exactly, as with CloudKit: programs compare them.
@Suite(.timeLimit(.minutes(15))) struct ExactDateTests {
    private let relay: TestRelay
    private let phone: TestDevice
    private let laptop: TestDevice
    static let dates = [
        Date(timeIntervalSinceReferenceDate: 785_430_101.1234567), Date(timeIntervalSinceReferenceDate: 0.1),
        Date(timeIntervalSince1970: 1), Date(timeIntervalSince1970: -0.0005), Date.distantPast, Date.distantFuture,
    ]

    init() async throws {
        relay = try TestRelay()
        phone = relay.device(of: "alice", named: "phone")
        laptop = relay.device(of: "alice", named: "laptop")
        try await phone.privateDatabase.save(CKRecordZone(zoneName: "Notes"))
    }

    private func record(_ name: String) -> CKRecord {
        let id = CKRecord.ID(recordName: name, zoneID: CKRecordZone.ID(zoneName: "Notes"))
        return CKRecord(recordType: "Note", recordID: id)
    }

    @Test(arguments: dates) func aDateIsReadBackExactly(_ date: Date) async throws {
        let note = record("a")
        note["at"] = date
        note.encryptedValues["secretly"] = date
        try await phone.privateDatabase.save(note)
        #expect(note["at"] == date)
        let read = try await laptop.privateDatabase.record(for: note.recordID)
        #expect(read["at"] == date)
        #expect(read.encryptedValues["secretly"] == date)
        let page = try await laptop.privateDatabase.recordZoneChanges(inZoneWith: note.recordID.zoneID, since: nil)
        #expect(try page.modificationResultsByID[note.recordID]?.get().record["at"] == date)
        let data = try NSKeyedArchiver.archivedData(withRootObject: read, requiringSecureCoding: true)
        #expect(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data)?["at"] == date)
    }

    @Test func datesInListsAndLocationsAreReadBackExactly() async throws {
        let note = record("list")
        let place = CLLocation(
            coordinate: CLLocationCoordinate2D(latitude: 1, longitude: 2),
            altitude: 3,
            horizontalAccuracy: 4,
            verticalAccuracy: 5,
            timestamp: Self.dates[0]
        )
        note["times"] = Self.dates
        note.encryptedValues["secretTimes"] = Self.dates
        note["place"] = place
        note["places"] = [place]
        try await phone.privateDatabase.save(note)
        for read in [note, try await laptop.privateDatabase.record(for: note.recordID)] {
            #expect(read["times"] == Self.dates)
            #expect(read.encryptedValues["secretTimes"] == Self.dates)
            #expect((read["place"] as? CLLocation)?.timestamp == Self.dates[0])
            #expect((read["places"] as? [CLLocation])?.first?.timestamp == Self.dates[0])
            let data = try NSKeyedArchiver.archivedData(withRootObject: read, requiringSecureCoding: true)
            let back = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data)
            #expect(back?["times"] == Self.dates)
        }
    }

    @Test func aChangeOfAnotherFieldKeepsTheExactDate() async throws {
        let (note, date) = (record("a"), Self.dates[0])
        note["at"] = date
        try await phone.privateDatabase.save(note)
        let read = try await laptop.privateDatabase.record(for: note.recordID)
        read["text"] = "new"
        try await laptop.privateDatabase.save(read)
        #expect(try await phone.privateDatabase.record(for: note.recordID)["at"] == date)
    }

    @Test func anEncryptedDateIsReadBackExactly() async throws {
        let key = PassphraseEncryptionKey("alice's own", cost: .light)
        let safe = relay.device(of: "alice", named: "safe", encryptionKey: key)
        let note = record("b")
        note.encryptedValues["at"] = Self.dates[0]
        try await safe.privateDatabase.save(note)
        let other = relay.device(of: "alice", named: "other safe", encryptionKey: key)
        #expect(try await other.privateDatabase.record(for: note.recordID).encryptedValues["at"] == Self.dates[0])
    }

    @Test func invalidDatesAreRefusedAndTheOldValueIsKept() async throws {
        let note = record("c")
        note["at"] = Self.dates[0]
        try await phone.privateDatabase.save(note)
        let never = Date(timeIntervalSinceReferenceDate: .nan)
        let spot = CLLocationCoordinate2D(latitude: 1, longitude: 2)
        let values: [any CKRecordValueProtocol] = [
            never, Date(timeIntervalSinceReferenceDate: -.infinity), [Self.dates[0], never],
            CLLocation(coordinate: spot, altitude: 0, horizontalAccuracy: 0, verticalAccuracy: 0, timestamp: never),
        ]
        for value in values {
            note["at"] = value
            await expect(.invalidArguments) { try await phone.privateDatabase.save(note) }
            #expect(note["at"] == Self.dates[0])
        }
        note["at"] = Date.distantFuture
        note.encryptedValues["secretly"] = never
        await expect(.invalidArguments) { try await phone.privateDatabase.save(note) }
        note.encryptedValues["secretly"] = Self.dates[1]
        try await phone.privateDatabase.save(note)
        #expect(try await laptop.privateDatabase.record(for: note.recordID)["at"] == Date.distantFuture)
    }
}
