import Foundation
import Testing
import ZoneKit

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
