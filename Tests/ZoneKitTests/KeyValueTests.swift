import Foundation
import Testing
import ZoneKit

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
