import Foundation
import Testing
import ZoneKit
import ZoneTesting

/// `CKRecord` as a container of values: fields, changes, copies and archives.
@Suite struct RecordTests {
    let zone = CKRecordZone.ID(zoneName: "Notes")

    func note() -> CKRecord {
        CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "n1", zoneID: zone))
    }

    @Test func newRecordsHaveNoServerState() {
        let record = CKRecord(recordType: "Note")
        #expect(record.recordID.zoneID == CKRecordZone.default().zoneID)
        #expect(UUID(uuidString: record.recordID.recordName) != nil)
        #expect(record.recordChangeTag == nil)
        #expect(record.creationDate == nil)
        #expect(record.modificationDate == nil)
        #expect(record.creatorUserRecordID == nil)
        #expect(record.parent == nil)
        #expect(record.share == nil)
        #expect(record.allKeys().isEmpty)
    }

    /// Programs subclass records like this for their tests.
    private final class Fixed: CKRecord, @unchecked Sendable {
        override var creationDate: Date? { Date(timeIntervalSince1970: 1) }
        override var modificationDate: Date? { Date(timeIntervalSince1970: 2) }
        override var recordChangeTag: String? { "tag" }
        override var recordID: CKRecord.ID { CKRecord.ID(recordName: "fixed") }
        override var creatorUserRecordID: CKRecord.ID? { CKRecord.ID(recordName: "somebody") }
        override var share: CKRecord.Reference? { CKRecord.Reference(recordID: recordID, action: .none) }
    }

    private final class FixedShare: CKShare, @unchecked Sendable {
        override var url: URL? { URL(string: "https://example.com/share/1") }
        override var participants: [CKShare.Participant] { [] }
        override var owner: CKShare.Participant { super.owner }
        override var currentUserParticipant: CKShare.Participant? { nil }
    }

    @Test func subclassesCanOverrideSystemProperties() {
        let record: CKRecord = Fixed(recordType: "Note")
        #expect(record.recordChangeTag == "tag" && record.recordID.recordName == "fixed")
        #expect(record.creationDate != nil && record.modificationDate != nil)
        #expect(record.creatorUserRecordID?.recordName == "somebody" && record.share?.recordID == record.recordID)
        let share: CKShare = FixedShare(rootRecord: note(), shareID: note().recordID)
        #expect(share.url != nil && share.participants.isEmpty && share.currentUserParticipant == nil)
    }

    @Test func bothSubscriptsReadAndWrite() {
        let record = note()
        record["title"] = "Milk"
        record["count"] = 3
        record["price"] = 1.25
        record["flag"] = true
        #expect(record["title"] as? String == "Milk")
        let title: String? = record["title"]
        let count: Int? = record["count"]
        let wide: Int64? = record["count"]
        let price: Double? = record["price"]
        let flag: Bool? = record["flag"]
        let wrong: Data? = record["title"]
        #expect(title == "Milk")
        #expect(count == 3)
        #expect(wide == 3)
        #expect(price == 1.25)
        #expect(flag == true)
        #expect(wrong == nil)
        #expect(record["absent"] == nil)
        record["title"] = nil as String?
        #expect(record["title"] == nil)
    }

    @Test func foundationValuesAreStoredAndReturned() {
        let record = note()
        record["text"] = "t" as NSString
        record["number"] = NSNumber(value: 7)
        record["half"] = NSNumber(value: 0.5)
        record["list"] = NSArray(array: ["a", "b"])
        record["value"] = "v" as any CKRecordValue
        record.setObject(5 as NSNumber, forKey: "five")
        record.setValue(Date(timeIntervalSince1970: 1), forKey: "date")
        #expect(record["text"] as? String == "t")
        #expect(record["text"] as? NSString == "t")
        #expect(record["number"] as? Int == 7)
        #expect(record["number"] as? NSNumber == 7)
        #expect(record["half"] as? Double == 0.5)
        #expect(record["list"] as? [String] == ["a", "b"])
        #expect(record["value"] as? String == "v")
        #expect(record.object(forKey: "five") as? Int == 5)
        #expect(record.value(forKey: "date") as? Date == Date(timeIntervalSince1970: 1))
    }

    /// Programs store sizes of their views as `CGFloat`.
    @Test func cgFloatsAreNumbers() {
        let record = note()
        let width = CGFloat(1.5)
        record["width"] = width
        record.setValue(CGFloat(2), forKey: "height")
        record["sizes"] = [CGFloat(1), 2.5]
        record["count"] = 3
        let read: CGFloat? = record["width"]
        #expect(read == width && record["width"] as? Double == 1.5 && record["height"] as? CGFloat == 2)
        #expect(record["count"] as? CGFloat == 3 && record["sizes"] as? [Double] == [1, 2.5])
        #expect(record["sizes"] as? [CGFloat] == [1, 2.5])
        #expect(NSPredicate(format: "width >= %f", width).evaluate(with: record))
    }

    @Test func aDateIsReadExactlyAlthoughTheWireIsCoarser() {
        let record = note()
        let date = Date(timeIntervalSince1970: 1_700_000_000.123_456_789)
        record["date"] = date
        #expect(record["date"] as? Date == date)
        let copy = record.copy() as? CKRecord
        #expect(copy?["date"] as? Date == date)
    }

    @Test func changedKeysContainAllSetFields() {
        let record = note()
        record["b"] = 1
        record["a"] = 2
        record["gone"] = nil
        #expect(record.changedKeys() == ["a", "b", "gone"])
        #expect(record.allKeys() == ["a", "b"])
    }

    @Test func tokensAreTheWordsOfAllStrings() {
        let record = note()
        record["title"] = "Buy MILK, bread"
        record["tags"] = ["Shop List"]
        record["count"] = 5
        #expect(record.allTokens() == ["shop", "list", "buy", "milk", "bread"])
    }

    @Test func parentsAreInTheSameZone() {
        let record = note()
        let folder = CKRecord(recordType: "Folder", recordID: CKRecord.ID(recordName: "f", zoneID: zone))
        record.setParent(folder)
        #expect(record.parent == CKRecord.Reference(recordID: folder.recordID, action: .none))
        record.setParent(nil as CKRecord.ID?)
        #expect(record.parent == nil)
        record.parent = CKRecord.Reference(record: folder, action: .none)
        #expect(record.parent?.recordID == folder.recordID)
    }

    /// The wire names a parent without its zone.
    ///
    /// Sent, it would refer to a record of that name in the record's own zone.
    @Test func aParentOfAnotherZoneIsRefused() async throws {
        let alice = try TestRelay().device(of: "alice")
        let database = alice.privateDatabase
        let zones = [CKRecordZone(zoneID: zone), CKRecordZone(zoneName: "Elsewhere")]
        _ = try await database.modifyRecordZones(saving: zones, deleting: [])
        let record = note()
        let stray = CKRecord(recordType: "Folder", recordID: CKRecord.ID(recordName: "f", zoneID: zones[1].zoneID))
        let own = CKRecord(recordType: "Folder", recordID: CKRecord.ID(recordName: "f", zoneID: zone))
        _ = try await database.modifyRecords(saving: [stray, own], deleting: [])
        record.setParent(stray)
        #expect(record.parent == nil)
        await expect(.invalidArguments) { try await database.save(record) }
        // The current user's own zone may name its owner by the user record name.
        let owner = try await alice.container.userRecordID().recordName
        let named = CKRecordZone.ID(zoneName: zone.zoneName, ownerName: owner)
        record.parent = CKRecord.Reference(recordID: CKRecord.ID(recordName: "f", zoneID: named), action: .none)
        try await database.save(record)
        #expect(try await database.record(for: record.recordID).parent?.recordID == own.recordID)
    }

    @Test func copiesAreIndependent() throws {
        let record = note()
        record["title"] = "one"
        let copy = try #require(record.copy() as? CKRecord)
        copy["title"] = "two"
        #expect(record["title"] == "one")
        #expect(copy.recordID == record.recordID)
        #expect(copy.changedKeys() == ["title"])
    }

    @Test func recordsCanBeIterated() {
        let record = note()
        record["a"] = 1
        record["b"] = "x"
        #expect(record.map(\.0) == ["a", "b"])
    }

    @Test func identifiersAreEqualByValue() {
        #expect(note().recordID == note().recordID)
        #expect(Set([note().recordID, note().recordID]).count == 1)
        #expect(note().recordID != CKRecord.ID(recordName: "n1"))
        #expect(CKRecordZone.ID(zoneName: "a", ownerName: "x") != CKRecordZone.ID(zoneName: "a", ownerName: "y"))
        #expect(CKRecordZone.default().zoneID.zoneName == CKRecordZone.ID.defaultZoneName)
        #expect(CKRecord.ID(zoneID: zone).recordName.count == 36)
    }

    @Test func aRecordMayBeUsedFromManyThreads() async {
        let record = note()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    for round in 0..<200 {
                        record["f\(number)"] = round
                        _ = record.allKeys()
                    }
                }
            }
        }
        #expect(record.allKeys().count == 8)
        for number in 0..<8 { #expect(record["f\(number)"] as? Int == 199) }
    }
}
