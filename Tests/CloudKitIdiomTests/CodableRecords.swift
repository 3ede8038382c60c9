import CloudKit
import Testing
import ZoneTesting

// A library that converts any `Codable` type to a record and back, as several do. It receives `Any` or a generic value,
// and only casts tell whether a record can hold it.

/// Encodes the values of a type into a record.
private final class RecordEncoder: Encoder {
    enum Failure: Error { case cannotHold(String) }

    let record: CKRecord
    var codingPath: [any CodingKey] = []
    var userInfo: [CodingUserInfoKey: Any] = [:]

    init(_ record: CKRecord) { self.record = record }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Keyed(encoder: self))
    }
    func unkeyedContainer() -> any UnkeyedEncodingContainer { fatalError("a record is a table") }
    func singleValueContainer() -> any SingleValueEncodingContainer { fatalError("a record is a table") }

    fileprivate struct Keyed<Key: CodingKey>: KeyedEncodingContainerProtocol {
        let encoder: RecordEncoder
        var codingPath: [any CodingKey] = []

        func encodeNil(forKey key: Key) throws { encoder.record[key.stringValue] = nil }

        func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
            let name = key.stringValue
            if let url = value as? URL {
                encoder.record[name] = url.isFileURL ? CKAsset(fileURL: url) : url.absoluteString as CKRecordValue
            } else if let urls = value as? [URL] {
                encoder.record[name] = urls.map(\.absoluteString) as CKRecordValue
            } else if let id = value as? UUID {
                encoder.record[name] = id.uuidString as NSString
            } else if let known = value as? CKRecordValue {
                encoder.record.setObject(known, forKey: name)
            } else if let raw = (value as? any RawRepresentable)?.rawValue as? CKRecordValueProtocol {
                encoder.record[name] = raw
            } else if let data = try? JSONEncoder().encode(value) {
                encoder.record[name] = data
            } else {
                throw Failure.cannotHold(name)
            }
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy keyType: Nested.Type,
            forKey key: Key
        ) -> KeyedEncodingContainer<Nested> { fatalError("a record is flat") }
        func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { fatalError("a record is flat") }
        func superEncoder() -> any Encoder { encoder }
        func superEncoder(forKey key: Key) -> any Encoder { encoder }
    }
}

/// Decodes the values of a type from a record.
private final class RecordDecoder: Decoder {
    let record: CKRecord
    var codingPath: [any CodingKey] = []
    var userInfo: [CodingUserInfoKey: Any] = [:]

    init(_ record: CKRecord) { self.record = record }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(Keyed(decoder: self))
    }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw CocoaError(.coderInvalidValue) }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw CocoaError(.coderInvalidValue) }

    fileprivate struct Keyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let decoder: RecordDecoder
        var codingPath: [any CodingKey] = []
        var allKeys: [Key] { decoder.record.allKeys().compactMap { Key(stringValue: $0) } }

        func contains(_ key: Key) -> Bool { decoder.record[key.stringValue] != nil }
        func decodeNil(forKey key: Key) -> Bool { decoder.record[key.stringValue] == nil }

        func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
            let value = decoder.record[key.stringValue]
            if type == URL.self {
                let url = (value as? CKAsset)?.fileURL ?? (value as? String).flatMap { URL(string: $0) }
                if let url = url as? T { return url }
            }
            let urls = (value as? [String])?.compactMap { URL(string: $0) }
            if type == [URL].self, let urls = urls as? T { return urls }
            if type == UUID.self, let id = (value as? String).flatMap({ UUID(uuidString: $0) }) as? T { return id }
            if let direct = value as? T { return direct }
            if let type = type as? any RawRepresentable.Type, let found = make(type, value) as? T { return found }
            guard let data = value as? Data else {
                let context = DecodingError.Context(codingPath: [key], debugDescription: "\(String(describing: value))")
                throw DecodingError.typeMismatch(type, context)
            }
            return try JSONDecoder().decode(type, from: data)
        }

        private func make<R: RawRepresentable>(_ type: R.Type, _ value: Any?) -> R? {
            (value as? R.RawValue).flatMap { R(rawValue: $0) }
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type,
            forKey key: Key
        ) throws -> KeyedDecodingContainer<Nested> { throw CocoaError(.coderInvalidValue) }
        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
            throw CocoaError(.coderInvalidValue)
        }
        func superDecoder() throws -> any Decoder { decoder }
        func superDecoder(forKey key: Key) throws -> any Decoder { decoder }
    }
}

private struct Person: Codable, Equatable {
    enum Kind: String, Codable { case friend, colleague }
    enum Level: Int, Codable { case low = 1, high = 2 }
    struct Address: Codable, Equatable { var street: String, number: Int }

    var id = UUID()
    var name = "Ada"
    var age = 36
    var tall: Float = 1.65
    var ratio = 0.5
    var small: UInt8 = 7
    var far = Int64.max
    var isActive = true
    var born = Date(timeIntervalSinceReferenceDate: 1.25)
    var blob = Data([1, 2, 3])
    var website = URL(string: "https://example.org/a?b=c#d")
    var links = [URL(string: "https://example.org")].compactMap { $0 }
    var nicknames = ["A", "Al"]
    var scores = [1.5, 2]
    var lucky = [3, 5, 7]
    var answers = [true, false]
    var days = [Date(timeIntervalSince1970: 86_400)]
    var kind = Kind.colleague
    var level = Level.high
    var address: Address? = Address(street: "Main", number: 3)
    var note: String?
    var empty: [String] = []
}

@Suite(.timeLimit(.minutes(15))) struct CodableRecordsTests {
    @Test func aCodableTypeSurvivesARecordAndARelay() async throws {
        let database = try TestRelay().device(of: "alice").privateDatabase
        let person = Person()
        let record = CKRecord(recordType: "Person", recordID: CKRecord.ID(recordName: person.id.uuidString))
        try person.encode(to: RecordEncoder(record))
        #expect(try Person(from: RecordDecoder(record)) == person)
        try await database.save(record)
        let read = try await database.record(for: record.recordID)
        #expect(try Person(from: RecordDecoder(read)) == person)
        #expect(read["note"] == nil)
        #expect(read["far"] as? Int64 == .max && read["small"] as? UInt8 == 7 && read["isActive"] as? Bool == true)
    }

    @Test func fileURLsAreStoredAsAssets() async throws {
        struct Photo: Codable { var title: String, file: URL }
        let database = try TestRelay().device(of: "alice").privateDatabase
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).txt")
        try Data("pixels".utf8).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let record = CKRecord(recordType: "Photo")
        try Photo(title: "t", file: file).encode(to: RecordEncoder(record))
        #expect((record["file"] as? CKAsset)?.fileURL == file)
        try await database.save(record)
        let photo = try Photo(from: RecordDecoder(try await database.record(for: record.recordID)))
        #expect(try String(contentsOf: photo.file, encoding: .utf8) == "pixels")
    }

    /// Values of type `Any`, from a list of attributes or a dictionary, are distinguished by casts alone.
    @Test func castsTellWhichValuesARecordCanHold() {
        let values: [String: Any] = [
            "text": "a", "int": 1, "int16": Int16(2), "double": 1.5, "bool": true, "date": Date(), "data": Data([1]),
            "texts": ["a"], "numbers": [1, 2], "ns": NSNumber(value: 3), "nsText": NSString("b"), "nsDate": NSDate(),
            "nsList": NSArray(array: ["x"]), "place": CLLocation(latitude: 1, longitude: 2),
            "link": CKRecord.Reference(recordID: CKRecord.ID(recordName: "r"), action: .none),
            "float": Float(2.5), "substring": Substring("no"), "url": URL(fileURLWithPath: "/no"),
            "set": Set(["no"]), "dictionary": ["no": 1], "null": NSNull(),
        ]
        let record = CKRecord(recordType: "Thing")
        for (key, value) in values { if let value = value as? CKRecordValue { record[key] = value } }
        let refused = Set(values.keys).subtracting(record.allKeys())
        #expect(refused == ["substring", "url", "set", "dictionary", "null"])
        #expect(record["int16"] as? Int == 2 && record["float"] as? Double == 2.5 && record["ns"] as? Int == 3)
        #expect(record["bool"] as? NSNumber == true && record["nsList"] as? [String] == ["x"])
        // Reading uses the same casts.
        switch record["text"] {
        case let text as String: #expect(text == "a")
        default: Issue.record("no text")
        }
        switch record["double"] {
        case let number as NSNumber: #expect(number.doubleValue == 1.5)
        default: Issue.record("no number")
        }
        #expect(!(record["int"] is String) && record["int"] is NSNumber && record["date"] is Date)
        #expect(record["texts"] is [String] && record["numbers"] is [NSNumber] && record["data"] is NSData)
    }
}
