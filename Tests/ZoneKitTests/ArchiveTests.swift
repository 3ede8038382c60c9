import Foundation
import Records
import Testing
import ZoneKit
import ZoneTesting

/// Archives that programs store: system fields, whole records, tokens, cursors, subscriptions.
@Suite struct ArchiveTests {
    let relay: TestRelay
    let database: CKDatabase
    let zone = CKRecordZone.ID(zoneName: "Notes")

    init() async throws {
        relay = try TestRelay()
        database = relay.device(of: "alice").privateDatabase
        try await database.save(CKRecordZone(zoneID: zone))
    }

    func savedNote() async throws -> CKRecord {
        let record = CKRecord(recordType: "Note", zoneID: zone)
        record["title"] = "Milk"
        return try await database.save(record)
    }

    /// Programs archive unsent records.
    ///
    /// The parent must survive, or participants never see the child.
    @Test func anUnsentParentIsSentAfterUnarchiving() async throws {
        let root = try await savedNote()
        let (new, moved) = (CKRecord(recordType: "Note", zoneID: zone), try await savedNote())
        for child in [new, moved] { child.setParent(root.recordID) }
        for child in [new, moved] {
            let data = try NSKeyedArchiver.archivedData(withRootObject: child, requiringSecureCoding: true)
            let back = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
            try await database.save(back)
            #expect(try await database.record(for: child.recordID).parent?.recordID == root.recordID)
        }
        let orphan = try await database.record(for: moved.recordID)
        orphan.parent = nil
        let data = try NSKeyedArchiver.archivedData(withRootObject: orphan, requiringSecureCoding: true)
        let back = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        try await database.save(back)
        #expect(try await database.record(for: moved.recordID).parent == nil)
    }

    /// A program that archives its zone configuration before a fetch.
    @Test func aZoneConfigurationSurvivesAnArchive() async throws {
        _ = try await savedNote()
        let token = try await database.recordZoneChanges(inZoneWith: zone, since: nil).changeToken
        let whole = CKFetchRecordZoneChangesOperation.ZoneConfiguration(
            previousServerChangeToken: token,
            resultsLimit: 3,
            desiredKeys: ["title"]
        )
        let none = CKFetchRecordZoneChangesOptions()
        none.desiredKeys = []
        for configuration in [whole, none] {
            let data = try NSKeyedArchiver.archivedData(withRootObject: configuration, requiringSecureCoding: true)
            let back = try #require(
                try NSKeyedUnarchiver.unarchivedObject(
                    ofClass: CKFetchRecordZoneChangesOperation.ZoneConfiguration.self,
                    from: data
                )
            )
            #expect(back.previousServerChangeToken == configuration.previousServerChangeToken)
            #expect(back.resultsLimit == configuration.resultsLimit)
            #expect(back.desiredKeys == configuration.desiredKeys)
        }
    }

    @Test func archivedSystemFieldsAreEnoughToSaveAChange() async throws {
        let record = try await savedNote()
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        record.encodeSystemFields(with: archiver)
        archiver.finishEncoding()

        let unarchiver = try NSKeyedUnarchiver(forReadingFrom: archiver.encodedData)
        unarchiver.requiresSecureCoding = true
        let back = try #require(CKRecord(coder: unarchiver))
        unarchiver.finishDecoding()
        #expect(back.recordID == record.recordID)
        #expect(back.recordType == "Note")
        #expect(back.recordChangeTag == record.recordChangeTag)
        #expect(back.creationDate == record.creationDate)
        #expect(back.modificationDate == record.modificationDate)
        #expect(back.creatorUserRecordID == record.creatorUserRecordID)
        #expect(back.allKeys().isEmpty)

        back["body"] = "2 litres"
        try await database.save(back)
        let stored = try await database.record(for: record.recordID)
        #expect(stored.allKeys() == ["body", "title"])
    }

    @Test func anArchivedRecordFindsTheSourceOfItsAssets() throws {
        let container = "iCloud.org.example.kept"
        CKContainer.configure(.dev(try #require(URL(string: "http://127.0.0.1:9")), user: "alice"), for: container)
        let assetClient = try #require(RelayConfiguration.connection(for: container)?.caller.assets)
        var state = RecordState(type: "Photo", id: CKRecord.ID(recordName: "a", zoneID: zone))
        state.assetSource = AssetSource(assetClient: assetClient, scope: .shared)
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        state.encode(with: archiver)
        archiver.finishEncoding()
        let back = RecordState(coder: try NSKeyedUnarchiver(forReadingFrom: archiver.encodedData))
        let source = try #require(back?.assetSource)
        #expect(source.assetClient === assetClient)
        #expect(source.scope == .shared)
    }

    @Test func wholeRecordsKeepValuesAndPendingChanges() async throws {
        let record = try await savedNote()
        record["title"] = "Bread"
        record["date"] = Date(timeIntervalSince1970: 12.5)
        record["link"] = CKRecord.Reference(recordID: record.recordID, action: .none)
        record.setParent(CKRecord.ID(recordName: "folder", zoneID: zone))
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        let back = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        #expect(back["title"] == "Bread")
        #expect(back["date"] as? Date == Date(timeIntervalSince1970: 12.5))
        #expect(back["link"] as? CKRecord.Reference == record["link"] as? CKRecord.Reference)
        #expect(back.changedKeys() == ["date", "link", "title"])
        #expect(back.parent == record.parent)

        // Another device saves first. The ancestor record must be available after unarchiving.
        let other = try await relay.device(of: "alice", named: "laptop").privateDatabase.record(for: record.recordID)
        other["title"] = "Eggs"
        try await relay.device(of: "alice", named: "laptop").privateDatabase.save(other)
        back.parent = nil
        do {
            try await database.save(back)
            Issue.record("an outdated version was saved")
        } catch let error as CKError {
            #expect(error.code == .serverRecordChanged)
            #expect(error.ancestorRecord?["title"] == "Milk")
            #expect(error.clientRecord?["title"] == "Bread")
            #expect(error.serverRecord?["title"] == "Eggs")
        }
    }

    @Test func otherArchivesAreNotReadAsRecords() throws {
        let archiver = NSKeyedArchiver(requiringSecureCoding: true)
        archiver.encode("x" as NSString, forKey: "RecordType")
        archiver.finishEncoding()
        #expect(CKRecord(coder: try NSKeyedUnarchiver(forReadingFrom: archiver.encodedData)) == nil)
    }

    @Test func changeTokensSurviveAnArchive() async throws {
        _ = try await savedNote()
        let token = try await database.recordZoneChanges(inZoneWith: zone, since: nil).changeToken
        let data = try NSKeyedArchiver.archivedData(withRootObject: token, requiringSecureCoding: true)
        let back = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKServerChangeToken.self, from: data))
        #expect(back == token)
        #expect(try await database.recordZoneChanges(inZoneWith: zone, since: back).modificationResultsByID.isEmpty)
    }

    @Test func identifiersZonesAndReferencesSurviveAnArchive() throws {
        func throughDisk<T: NSObject & NSSecureCoding>(_ object: T) throws -> T? {
            let data = try NSKeyedArchiver.archivedData(withRootObject: object, requiringSecureCoding: true)
            return try NSKeyedUnarchiver.unarchivedObject(ofClass: T.self, from: data)
        }
        let id = CKRecord.ID(recordName: "r", zoneID: CKRecordZone.ID(zoneName: "z", ownerName: "o"))
        #expect(try throughDisk(id) == id)
        #expect(try throughDisk(id.zoneID) == id.zoneID)
        let reference = CKRecord.Reference(recordID: id, action: .deleteSelf)
        #expect(try throughDisk(reference) == reference)
        #expect(try throughDisk(CKRecordZone(zoneID: id.zoneID)) == CKRecordZone(zoneID: id.zoneID))
        let place = CLLocation(latitude: 1.5, longitude: -2.5)
        #expect(try throughDisk(place) == place)
        let subscription = CKRecordZoneSubscription(zoneID: id.zoneID, subscriptionID: "s")
        subscription.notificationInfo = CKSubscription.NotificationInfo(shouldSendContentAvailable: true)
        let back = try #require(try throughDisk(subscription))
        #expect(back.zoneID == id.zoneID)
        #expect(back.subscriptionID == "s")
        #expect(back == subscription && back.hash == subscription.hash)
        #expect(back != CKRecordZoneSubscription(zoneID: id.zoneID, subscriptionID: "s"))
        #expect(back != CKDatabaseSubscription(subscriptionID: "s"))
        #expect(back.notificationInfo?.shouldSendContentAvailable == true)
    }

    /// Programs store these bytes in their own models and compare the models.
    @Test func systemFieldsEncodeToTheSameBytesEachTime() throws {
        let zoneID = CKRecordZone.ID(zoneName: "Notes", ownerName: "_owner")
        let record = CKRecord(recordType: "Note", recordID: CKRecord.ID(recordName: "a", zoneID: zoneID))
        func bytes(_ record: CKRecord) throws -> Data {
            let coder = NSKeyedArchiver(requiringSecureCoding: true)
            record.encodeSystemFields(with: coder)
            coder.finishEncoding()
            let back = CKRecord(coder: try NSKeyedUnarchiver(forReadingFrom: coder.encodedData))
            #expect(back?.recordID == record.recordID)
            return coder.encodedData
        }
        let first = try bytes(record)
        record["title"] = "set meanwhile"
        let copy = try #require(record.copy() as? CKRecord)
        for _ in 0..<50 { #expect(try bytes(record) == first && bytes(copy) == first) }
    }
}

/// Archives in the format of Apple's framework.
@Suite struct AppleArchiveTests {
    private func uid(_ number: Int) -> String { "<dict><key>CF$UID</key><integer>\(number)</integer></dict>" }

    private func object(_ members: [(String, String)]) -> String {
        "<dict>" + members.map { "<key>\($0)</key>\($1)" }.joined() + "</dict>"
    }

    private func kind(_ name: String) -> String {
        object([
            ("$classname", "<string>\(name)</string>"),
            ("$classes", "<array><string>\(name)</string><string>NSObject</string></array>"),
        ])
    }

    /// An archive of a record with fields; unrooted, as `encodeSystemFields` writes it, if `rooted` is false.
    private func archive(rooted: Bool) -> Data {
        let record: [(String, String)] = [
            ("RecordType", uid(2)), ("RecordID", uid(3)), ("ETag", uid(8)), ("RecordCtime", uid(9)),
            ("RecordMtime", uid(9)), ("CreatorUserRecordID", uid(11)), ("LastModifiedUserRecordID", uid(11)),
            ("ModifiedByDevice", uid(13)), ("ParentReference", uid(0)), ("ShareReference", uid(0)),
        ]
        let objects = [
            "<string>$null</string>", object(record + [("ValueStore", uid(14)), ("$class", uid(21))]),
            "<string>Person</string>",
            object([("RecordName", uid(4)), ("ZoneID", uid(5)), ("$class", uid(22))]), "<string>p-1</string>",
            object([("ZoneName", uid(6)), ("ownerName", uid(7)), ("$class", uid(23))]), "<string>People</string>",
            "<string>__defaultOwner__</string>", "<string>jh3gj</string>",
            object([("NS.time", "<real>1000</real>"), ("$class", uid(10))]), kind("NSDate"),
            object([("RecordName", uid(12)), ("ZoneID", uid(5)), ("$class", uid(22))]), "<string>_u</string>",
            "<string>iCloud</string>", object([("RecordValues", uid(15)), ("$class", uid(24))]),
            object([
                ("NS.keys", "<array>\(uid(16))\(uid(17))</array>"),
                ("NS.objects", "<array>\(uid(18))\(uid(19))</array>"),
                ("$class", uid(20)),
            ]),
            "<string>name</string>", "<string>age</string>", "<string>Anna</string>", "<integer>26</integer>",
            kind("NSDictionary"), kind("CKRecord"), kind("CKRecordID"), kind("CKRecordZoneID"),
            kind("CKRecordValueStore"),
        ]
        let top = rooted ? object([("root", uid(1))]) : object(record)
        let plist = object([
            ("$version", "<integer>100000</integer>"), ("$archiver", "<string>NSKeyedArchiver</string>"),
            ("$top", top), ("$objects", "<array>" + objects.joined() + "</array>"),
        ])
        return Data("<?xml version=\"1.0\" encoding=\"UTF-8\"?><plist version=\"1.0\">\(plist)</plist>".utf8)
    }

    private func expectSystemFields(_ record: CKRecord) {
        #expect(record.recordType == "Person")
        #expect(record.recordID == CKRecord.ID(recordName: "p-1", zoneID: CKRecordZone.ID(zoneName: "People")))
        #expect(record.recordChangeTag == "jh3gj")
        #expect(record.creationDate == Date(timeIntervalSinceReferenceDate: 1000))
        #expect(record.lastModifiedUserRecordID?.recordName == "_u")
        #expect(record.parent == nil && record.share == nil)
        #expect(record.changedKeys().isEmpty)
    }

    @Test func aWholeRecordIsRead() throws {
        let record = try #require(
            try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: archive(rooted: true))
        )
        expectSystemFields(record)
        #expect(record["name"] as? String == "Anna")
        #expect(record["age"] as? Int == 26)
    }

    @Test func systemFieldsAreRead() throws {
        let coder = try NSKeyedUnarchiver(forReadingFrom: archive(rooted: false))
        coder.requiresSecureCoding = true
        let record = try #require(CKRecord(coder: coder))
        expectSystemFields(record)
        #expect(record.allKeys().isEmpty)
    }

    @Test func ownArchivesAreReadByTheSameCall() throws {
        let record = CKRecord(recordType: "Person")
        record["name"] = "Bob"
        let data = try NSKeyedArchiver.archivedData(withRootObject: record, requiringSecureCoding: true)
        let read = try #require(try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: data))
        #expect(read["name"] == "Bob" && read.changedKeys() == ["name"])
    }
}
