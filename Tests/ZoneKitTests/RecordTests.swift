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

/// Fields through the protocols for which programs write their own helpers.
@Suite struct KeyValueTests {
    private func fill(_ target: any CKRecordKeyValueSetting) {
        target["text"] = "a"
        target.setObject(7 as NSNumber, forKey: "number")
    }

    private func number<T: CKRecordValueProtocol>(_ source: some CKRecordKeyValueSetting, _ type: T.Type) -> T? {
        source["number"]
    }

    @Test func aRecordIsKeyValueSetting() throws {
        let record = CKRecord(recordType: "Note")
        fill(record)
        #expect(record.changedKeys() == ["number", "text"])
        #expect(number(record, Int.self) == 7)
        let text: String? = record["text"]
        #expect(text == "a")
        #expect(record["text"] as? String == "a")
        var names: [String] = []
        for (key, value) in record {
            names.append(key)
            #expect(value is NSNumber || value is String)
        }
        #expect(names == ["number", "text"])
        let iterator = CKRecordKeyValueIterator(record)
        #expect(IteratorSequence(iterator).map(\.0) == ["number", "text"])
    }
}

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

/// Empty lists without an element type, such as `NSArray()`.
@Suite struct UntypedListTests {
    let database: CKDatabase

    init() throws { database = try TestRelay().device(of: "alice").privateDatabase }

    private func note(_ name: String, _ numbers: (any CKRecordValueProtocol)?) -> CKRecord {
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: name))
        record["numbers"] = numbers
        return record
    }

    @Test func anEmptyListTakesTheTypeOfItsField() async throws {
        try await database.save(note("a", [1, 2]))
        let empty = note("b", NSArray())
        #expect(empty["numbers"] as? [Int] == [])
        try await database.save(empty)
        #expect(empty.changedKeys().isEmpty && empty["numbers"] as? [Int] == [])
        // From here on the field has a type, also on other devices.
        empty["numbers"] = [] as NSArray
        _ = try await database.modifyRecords(saving: [empty], deleting: [], savePolicy: .allKeys)
        let read = try await database.record(for: empty.recordID)
        #expect(read["numbers"] as? [NSNumber] == [])
        read["numbers"] = [3] as NSArray
        try await database.save(read)
        #expect(try await database.record(for: empty.recordID)["numbers"] as? [Int] == [3])
    }

    @Test func anUntypedListStaysUntypedInAnArchiveUntilItIsSetAgain() async throws {
        try await database.save(note("a", [Date(timeIntervalSince1970: 1)]))
        let kept = try #require(
            try NSKeyedUnarchiver.unarchivedObject(
                ofClass: CKRecord.self,
                from: NSKeyedArchiver.archivedData(withRootObject: note("b", NSArray()), requiringSecureCoding: true)
            )
        )
        try await database.save(kept)
        #expect(try await database.record(for: kept.recordID)["numbers"] as? [Date] == [])
        // A list with an element type must match the field's type.
        let texts = note("c", NSArray())
        texts["numbers"] = [String]()
        await expect(.invalidArguments) { try await database.save(texts) }
        texts["numbers"] = nil
        texts["numbers"] = NSArray()
        try await database.save(texts)
    }

    @Test(
        "an untyped empty list cannot declare a new field, of a new type or of a known one",
        arguments: [false, true]
    )
    func cannotDeclareAField(hasType: Bool) async throws {
        if hasType { try await database.save(note("a", nil)) }
        for empty in [NSArray(), NSMutableArray()] {
            do {
                try await database.save(note("b", empty))
                Issue.record("the save should have failed")
            } catch let error as CKError {
                #expect(error.code == .invalidArguments)
                let words = "cannot use an empty list to initialize a new field (field 'numbers' in record type 'Note'"
                #expect("\(error)".contains(words), "\(error)")
            }
        }
        // The field is still free for any type.
        try await database.save(note("c", [1, 2]))
        try await database.save(note("b", NSArray()))
        #expect(try await database.record(for: CKRecord.ID(recordName: "b"))["numbers"] as? [Int] == [])
    }

    @Test("an empty Swift array has a type, so it can declare a new field")
    func anEmptySwiftArrayDeclares() async throws {
        try await database.save(note("a", [Date]()))
        await expect(.invalidArguments) { try await database.save(note("b", ["text"])) }
        try await database.save(note("b", [Date(timeIntervalSince1970: 1)]))
    }

    @Test("an untyped empty list in an encrypted field takes the field's type and cannot declare one")
    func encryptedFields() async throws {
        func secret(_ name: String, _ value: any CKRecordValueProtocol) -> CKRecord {
            let record = note(name, nil)
            record.encryptedValues["numbers"] = value
            return record
        }
        await expect(.invalidArguments) { try await database.save(secret("a", NSArray())) }
        try await database.save(secret("a", [1, 2]))
        let empty = secret("b", NSArray())
        let kept = try #require(
            try NSKeyedUnarchiver.unarchivedObject(
                ofClass: CKRecord.self,
                from: NSKeyedArchiver.archivedData(withRootObject: empty, requiringSecureCoding: true)
            )
        )
        try await database.save(kept)
        let read = try await database.record(for: kept.recordID)
        #expect(read.encryptedValues["numbers"] as? [Int] == [])
        read.encryptedValues["numbers"] = [3] as NSArray
        try await database.save(read)
        read.encryptedValues["numbers"] = NSArray()
        try await database.save(read)
        #expect(try await database.record(for: kept.recordID).encryptedValues["numbers"] as? [Int] == [])
    }
}
