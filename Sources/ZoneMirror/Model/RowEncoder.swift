import Foundation
import GRDB

/// Turns an object into column values by property name; absent ones are null, and to-many links are left out.
enum RowEncoder {
    static func values(of object: some Encodable) throws -> [String: DatabaseValue] {
        let sink = Sink()
        try object.encode(to: PropertyEncoder(sink: sink))
        return sink.values
    }

    /// How one value stands in its column.
    static func column(_ value: some Encodable) throws -> DatabaseValue {
        switch value {
        case let value as String: return value.databaseValue
        case let value as Bool: return value.databaseValue
        case let value as Date: return value.timeIntervalSince1970.databaseValue
        case let value as Data: return value.databaseValue
        case let value as UUID: return value.uuidString.databaseValue
        case let value as URL: return value.absoluteString.databaseValue
        case let value as RecordName: return value.text.databaseValue
        case let value as any BinaryInteger: return Int64(clamping: value).databaseValue
        case let value as any BinaryFloatingPoint: return Double(value).databaseValue
        case is any LinkProperty:
            let single = Single()
            try value.encode(to: single)
            return single.value.value
        case let value as any OptionalColumn: return try value.column()
        default:
            let encoder = JSONEncoder()
            encoder.outputFormatting = .sortedKeys
            return try encoder.encode(value).databaseValue
        }
    }

    final class Sink {
        var values: [String: DatabaseValue] = [:]
    }
}

/// An optional whatever it wraps.
private protocol OptionalColumn {
    func column() throws -> DatabaseValue
}

extension Optional: OptionalColumn where Wrapped: Encodable {
    fileprivate func column() throws -> DatabaseValue { try map { try RowEncoder.column($0) } ?? .null }
}

private struct PropertyEncoder: Encoder {
    let sink: RowEncoder.Sink
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Properties(sink: sink))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { JSONOnly() }
    func singleValueContainer() -> any SingleValueEncodingContainer { JSONOnly() }
}

private struct Properties<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let sink: RowEncoder.Sink
    var codingPath: [any CodingKey] { [] }

    mutating func encodeNil(forKey key: Key) { sink.values[key.stringValue] = .null }

    mutating func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
        sink.values[key.stringValue] = try RowEncoder.column(value)
    }

    mutating func encode(_ value: String, forKey key: Key) { sink.values[key.stringValue] = value.databaseValue }
    mutating func encode(_ value: Bool, forKey key: Key) { sink.values[key.stringValue] = value.databaseValue }
    mutating func encode(_ value: Int, forKey key: Key) { sink.values[key.stringValue] = value.databaseValue }
    mutating func encode(_ value: Double, forKey key: Key) { sink.values[key.stringValue] = value.databaseValue }

    mutating func nestedContainer<NestedKey: CodingKey>(
        keyedBy keyType: NestedKey.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<NestedKey> {
        KeyedEncodingContainer(Properties<NestedKey>(sink: RowEncoder.Sink()))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { JSONOnly() }
    mutating func superEncoder() -> any Encoder { PropertyEncoder(sink: RowEncoder.Sink()) }
    mutating func superEncoder(forKey key: Key) -> any Encoder { PropertyEncoder(sink: RowEncoder.Sink()) }
}

/// Takes the one value of a link.
private struct Single: Encoder, SingleValueEncodingContainer {
    final class Box { var value: DatabaseValue = .null }

    let value = Box()
    var codingPath: [any CodingKey] { [] }
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Properties(sink: RowEncoder.Sink()))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { JSONOnly() }
    func singleValueContainer() -> any SingleValueEncodingContainer { self }
    func encodeNil() { value.value = .null }
    func encode<T: Encodable>(_ value: T) throws { self.value.value = try RowEncoder.column(value) }
}

/// An object that writes itself as a list or a single value has no properties to keep.
private struct JSONOnly: UnkeyedEncodingContainer, SingleValueEncodingContainer {
    var codingPath: [any CodingKey] { [] }
    var count: Int { 0 }

    func refuse() -> any Error {
        EncodingError.invalidValue(
            "",
            .init(codingPath: [], debugDescription: "An object in a mirror has to write itself property by property.")
        )
    }

    mutating func encodeNil() throws { throw refuse() }
    mutating func encode<T: Encodable>(_ value: T) throws { throw refuse() }
    mutating func nestedContainer<Key: CodingKey>(keyedBy keyType: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(Properties(sink: RowEncoder.Sink()))
    }
    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }
    mutating func superEncoder() -> any Encoder { PropertyEncoder(sink: RowEncoder.Sink()) }
}
