import Foundation
import GRDB

/// Decodes rows as objects of one type.
///
/// Every row gives an object: a property has its default if its type cannot read the column's value.
struct RowReader<T: SyncedRecord> {
    let table: TableLayout
    /// The values that could not be read so far.
    private(set) var unread: [UnreadableValue] = []

    init(_ table: TableLayout) { self.table = table }

    /// Decodes one row.
    ///
    /// - Throws: An error if the type has a property without a column in the table.
    mutating func read(_ id: RecordName, _ row: [DatabaseValue]) throws -> T {
        do {
            return try T(from: RowDecoder(table: table, id: id, row: row))
        } catch let error as MissingColumn {
            throw error
        } catch {
            return readWithDefaults(id, row)
        }
    }

    private mutating func readWithDefaults(_ id: RecordName, _ row: [DatabaseValue]) -> T {
        var example = T()
        example.id = id
        let defaults = DefaultValues(of: example)
        do {
            let object = try T(from: RowDecoder(table: table, id: id, row: row, defaults: defaults))
            unread += defaults.used.map { UnreadableValue(object: id, property: $0) }
            return object
        } catch {
            // The type has its own decoding code, which rejects the object as a whole.
            unread += table.columns.map { UnreadableValue(object: id, property: $0.name) }
            return example
        }
    }
}

/// A stored value that a property's type cannot read.
struct UnreadableValue: Sendable {
    /// The object with this value.
    var object: RecordName
    var property: String
}

/// The defaults for values of one row that cannot be read.
private final class DefaultValues {
    private let example: Mirror
    /// The properties whose stored values were replaced by defaults.
    private(set) var used: [String] = []

    init(of example: some SyncedRecord) { self.example = Mirror(reflecting: example) }

    /// Returns a property's default; `isUnread` tells whether the file has a value that cannot be read.
    func value<V>(of property: String, isUnread: Bool) -> V? {
        if isUnread { used.append(property) }
        return example.children.first { $0.label == property }?.value as? V
    }
}

/// The type has a property that the store's model lacks.
private struct MissingColumn: Error, CustomStringConvertible {
    let property: String
    var description: String { "the store's model has no property \(property)" }
}

/// Decodes a row as an object.
private struct RowDecoder: Decoder {
    let table: TableLayout
    let id: RecordName
    /// The values in the order of the table's columns.
    let row: [DatabaseValue]
    /// The defaults; `nil` means that a value that cannot be read is an error.
    var defaults: DefaultValues?
    var codingPath: [any CodingKey] = []
    var userInfo: [CodingUserInfoKey: Any] { [:] }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(RowProperties(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw Self.refusal }
    func singleValueContainer() throws -> any SingleValueDecodingContainer { throw Self.refusal }

    static var refusal: any Error {
        DecodingError.dataCorrupted(
            .init(codingPath: [], debugDescription: "An object in a mirror must be decoded property by property.")
        )
    }

    func value(_ name: String) -> DatabaseValue? {
        if name == "id" { return id.text.databaseValue }
        guard let position = table.index[name] else { return nil }
        // Written by a model in which it is optional, or by plain SQL: treated like a missing field.
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

    /// Reads a property; with `defaults`, one whose value cannot be read has its default.
    private func read<T>(_ key: Key, _ reading: (DatabaseValue) throws -> T) throws -> T {
        let name = key.stringValue
        guard let value = decoder.value(name) else { throw MissingColumn(property: name) }
        do {
            return try reading(value)
        } catch {
            guard let found = fallback(name, value, T.self) else { throw error }
            return found
        }
    }

    private func readIfPresent<T>(_ key: Key, _ reading: (DatabaseValue) throws -> T) throws -> T? {
        let name = key.stringValue
        guard let value = decoder.value(name), !value.isNull else { return nil }
        do {
            return try reading(value)
        } catch {
            guard decoder.defaults != nil else { throw error }
            return fallback(name, value, T.self)
        }
    }

    private func fallback<T>(_ name: String, _ value: DatabaseValue, _ type: T.Type) -> T? {
        let column = decoder.table.index[name].map { decoder.table.columns[$0] }
        // An empty column is not an unread value, nor is a default that no column can hold, such as one of a `UInt64`.
        let isUnread = !value.isNull && value != column?.attribute?.defaultValue ?? .null
        return decoder.defaults?.value(of: name, isUnread: isUnread)
    }

    private func simple<T: DatabaseValueConvertible>(_ value: DatabaseValue) throws -> T {
        guard let found = T.fromDatabaseValue(value) else { throw Unreadable(type: "\(T.self)") }
        return found
    }

    func decode(_ type: String.Type, forKey key: Key) throws -> String { try read(key, simple) }
    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try read(key, simple) }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try read(key) { try other(type, key, $0) } }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try read(key, simple) }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
        if key.stringValue == "id", let id = decoder.id as? T { return id }
        // A to-many relationship has no column.
        if type is any LinkProperty.Type, decoder.value(key.stringValue) == nil { return try other(type, key, .null) }
        return try read(key) { try other(type, key, $0) }
    }

    private func other<T: Decodable>(_ type: T.Type, _ key: Key, _ value: DatabaseValue) throws -> T {
        if type is any LinkProperty.Type {
            return try T(from: ValueDecoder(value: value, codingPath: [key], source: decoder.id.origin))
        }
        guard ColumnReader.isJSON(type) else {
            guard let found = ColumnReader.read(type, value) else { throw Unreadable(type: "\(type)") }
            return found
        }
        guard let data = Data.fromDatabaseValue(value) else { throw Unreadable(type: "\(type)") }
        return try JSONDecoder().decode(type, from: data)
    }

    // An optional property without a readable value is `nil` unless it has a default. The protocol requires each of
    // these methods.
    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? { try readIfPresent(key, simple) }
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? { try readIfPresent(key, simple) }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? { try readIfPresent(key, simple) }
    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? { try optional(key) }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? { try optional(key) }
    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? { try optional(key) }
    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? { try optional(key) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? { try optional(key) }
    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? { try optional(key) }
    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? { try optional(key) }
    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? { try optional(key) }
    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? { try optional(key) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? { try optional(key) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? { try optional(key) }
    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T? { try optional(key) }

    private func optional<T: Decodable>(_ key: Key) throws -> T? {
        try readIfPresent(key) { try other(T.self, key, $0) }
    }

    func nestedContainer<NestedKey: CodingKey>(
        keyedBy type: NestedKey.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<NestedKey> { throw RowDecoder.refusal }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw RowDecoder.refusal }
    func superDecoder() throws -> any Decoder { throw RowDecoder.refusal }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw RowDecoder.refusal }
}

/// A column's value does not fit the property's type.
private struct Unreadable: Error, CustomStringConvertible {
    let type: String
    var description: String { "the column does not hold a value of type \(type)" }
}

/// Reads values of Foundation's types from columns.
private enum ColumnReader {
    /// Returns whether values of a type are stored as JSON.
    static func isJSON(_ type: Any.Type) -> Bool {
        switch type {
        case is String.Type, is Bool.Type, is Date.Type, is Data.Type, is UUID.Type, is URL.Type, is RecordName.Type,
            is any FixedWidthInteger.Type, is any BinaryFloatingPoint.Type:
            false
        default: true
        }
    }

    /// Returns `nil` if the value does not fit the type.
    static func read<T>(_ type: T.Type, _ value: DatabaseValue) -> T? {
        switch type {
        case is String.Type: String.fromDatabaseValue(value) as? T
        case is Bool.Type: Bool.fromDatabaseValue(value) as? T
        case is Date.Type: ExactDate.date(value) as? T
        case is Data.Type: Data.fromDatabaseValue(value) as? T
        case is UUID.Type: String.fromDatabaseValue(value).flatMap { UUID(uuidString: $0) } as? T
        case is URL.Type: String.fromDatabaseValue(value).flatMap { URL(string: $0) } as? T
        case is RecordName.Type: String.fromDatabaseValue(value).map { RecordName($0) } as? T
        case let integer as any FixedWidthInteger.Type:
            value.wholeNumber.flatMap { exact(integer, $0) } as? T
        case let fraction as any BinaryFloatingPoint.Type:
            Double.fromDatabaseValue(value).flatMap { nearest(fraction, $0) } as? T
        default: nil
        }
    }

    private static func exact<I: FixedWidthInteger>(_ type: I.Type, _ number: Int64) -> I? { I(exactly: number) }

    /// Returns `nil` for a number outside the type's range.
    private static func nearest<F: BinaryFloatingPoint>(_ type: F.Type, _ number: Double) -> F? {
        let nearest = F(number)
        return nearest.isFinite == number.isFinite ? nearest : nil
    }
}

/// The value of one link, with the name of its property.
struct ValueDecoder: Decoder, SingleValueDecodingContainer {
    let value: DatabaseValue
    let codingPath: [any CodingKey]
    /// Where the object with the link was read.
    let source: Origin?
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

extension DatabaseValue {
    /// The value as a whole number; `nil` for all others, which GRDB would round.
    var wholeNumber: Int64? {
        switch storage {
        case .int64(let number): number
        case .double(let number): Int64(exactly: number)
        default: nil
        }
    }
}
