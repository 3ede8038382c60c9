import Foundation
import Testing
import ZoneKit
import ZoneTesting

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
