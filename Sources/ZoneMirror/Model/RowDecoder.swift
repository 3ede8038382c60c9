import Foundation
import GRDB

/// Turns a row into an object.
struct RowDecoder: Decoder {
    let table: TableForm
    let id: RecordName
    /// In the order of the table's columns.
    let row: [DatabaseValue]
    var codingPath: [any CodingKey] = []
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(RowProperties(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw Self.refusal }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw Self.refusal }

    static var refusal: any Error {
        DecodingError.dataCorrupted(
            .init(codingPath: [], debugDescription: "An object in a mirror has to read itself property by property.")
        )
    }

    func value(_ name: String) -> DatabaseValue? {
        if name == "id" { return id.text.databaseValue }
        guard let position = table.index[name] else { return nil }
        // Written by a model in which it may be empty, or by plain SQL: as good as a record that does not say it.
        if row[position].isNull, let attribute = table.columns[position].attribute, !attribute.isOptional {
            return attribute.defaultValue
        }
        return row[position]
    }
}

private struct RowProperties<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: RowDecoder
    var codingPath: [any CodingKey] { [] }
    var allKeys: [Key] { decoder.table.columns.compactMap { Key(stringValue: $0.name) } }

    func contains(_ key: Key) -> Bool { key.stringValue == "id" || decoder.table.index[key.stringValue] != nil }
    func decodeNil(forKey key: Key) -> Bool { decoder.value(key.stringValue)?.isNull ?? true }

    private func required<T: DatabaseValueConvertible>(_ type: T.Type, _ key: Key) throws -> T {
        guard let value = decoder.value(key.stringValue), let found = T.fromDatabaseValue(value) else {
            throw DecodingError.valueNotFound(
                type,
                .init(codingPath: [key], debugDescription: "The column does not hold a value of this type.")
            )
        }
        return found
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String { try required(type, key) }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try required(type, key) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try required(type, key) }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try required(type, key) }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        if key.stringValue == "id", let id = decoder.id as? T { return id }
        let value = decoder.value(key.stringValue) ?? .null
        if let found = try ColumnReader.read(type, value) { return found }
        if type is any LinkProperty.Type {
            return try T(from: ValueDecoder(value: value, codingPath: [key], holder: decoder.id.origin))
        }
        guard let data = Data.fromDatabaseValue(value) else {
            throw DecodingError.valueNotFound(
                type,
                .init(codingPath: [key], debugDescription: "The column is empty.")
            )
        }
        return try JSONDecoder().decode(type, from: data)
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { throw RowDecoder.refusal }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw RowDecoder.refusal }
    func superDecoder() throws -> any Decoder { throw RowDecoder.refusal }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw RowDecoder.refusal }
}

/// Reads what Foundation's types look like in a column.
private enum ColumnReader {
    /// `nil` for types that are kept as JSON, or links.
    static func read<T>(_ type: T.Type, _ value: DatabaseValue) throws -> T? {
        switch type {
        case is Date.Type: ExactDate.date(value) as? T
        case is Data.Type: Data.fromDatabaseValue(value) as? T
        case is UUID.Type: String.fromDatabaseValue(value).flatMap { UUID(uuidString: $0) } as? T
        case is URL.Type: String.fromDatabaseValue(value).flatMap { URL(string: $0) } as? T
        case is RecordName.Type: String.fromDatabaseValue(value).map { RecordName($0) } as? T
        case let integer as any FixedWidthInteger.Type:
            Int64.fromDatabaseValue(value).flatMap { exact(integer, $0) } as? T
        case let fraction as any BinaryFloatingPoint.Type:
            Double.fromDatabaseValue(value).map { nearest(fraction, $0) } as? T
        default: nil
        }
    }

    private static func exact<I: FixedWidthInteger>(_ type: I.Type, _ number: Int64) -> I? { I(exactly: number) }
    private static func nearest<F: BinaryFloatingPoint>(_ type: F.Type, _ number: Double) -> F { F(number) }
}

/// One link's value, and the name of its property.
struct ValueDecoder: Decoder, SingleValueDecodingContainer {
    let value: DatabaseValue
    let codingPath: [any CodingKey]
    /// Where the object was read whose link it is.
    let holder: Origin?
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        throw RowDecoder.refusal
    }
    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw RowDecoder.refusal }
    func singleValueContainer() -> any SingleValueDecodingContainer { self }
    func decodeNil() -> Bool { value.isNull }
    func decode<T: Decodable>(_ type: T.Type) throws -> T {
        guard let found = String.fromDatabaseValue(value) as? T else { throw RowDecoder.refusal }
        return found
    }
}
