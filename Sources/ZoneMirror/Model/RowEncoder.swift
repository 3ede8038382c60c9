import Foundation
import GRDB
import Records
import ZoneKit

/// Encodes an object as column values by property name; `nil` becomes NULL, and to-many links are left out.
enum RowEncoder {
    /// A number, date or text that no record can hold.
    struct UnsupportedValue: Error, CustomStringConvertible {
        let property: String
        let reason: String

        var description: String { "its property \(property) \(reason)" }
    }

    /// Returns the column values and the store that the links lead to, if known.
    ///
    /// `isKept` returns whether a value is not to be stored in a record, because it is the default of a missing field
    /// or already in the file. Only then may it be a value that no record can hold.
    static func values(
        of object: some Encodable,
        isKept: (_ property: String, DatabaseValue, _ reason: String) -> Bool
    ) throws -> (values: [String: DatabaseValue], store: StoreID?) {
        let sink = Sink()
        try object.encode(to: PropertyEncoder(sink: sink))
        let refusals = sink.refusals.filter { !isKept($0.key, sink.values[$0.key] ?? .null, $0.value) }
        guard let (property, reason) = refusals.min(by: { $0.key < $1.key }) else { return (sink.values, sink.store) }
        throw UnsupportedValue(property: property, reason: reason)
    }

    /// Returns, by property, why records cannot hold values of an object.
    static func refusals(of object: some Encodable) throws -> [String: String] {
        let sink = Sink()
        try object.encode(to: PropertyEncoder(sink: sink))
        return sink.refusals
    }

    /// Returns the column value of a property.
    static func column(_ value: some Encodable) throws -> DatabaseValue {
        switch value {
        case let value as String: return value.databaseValue
        case let value as Bool: return value.databaseValue
        case let value as Date: return ExactDate.value(value)
        case let value as Data: return value.databaseValue
        case let value as UUID: return value.uuidString.databaseValue
        case let value as URL: return value.absoluteString.databaseValue
        case let value as RecordName: return value.text.databaseValue
        // In conditions, a value that no record can hold is used unchanged: SQLite compares integers and
        // floating-point numbers exactly.
        case let value as any BinaryInteger: return Int64(exactly: value)?.databaseValue ?? Double(value).databaseValue
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
        /// Why records cannot hold some of the values, by property.
        var refusals: [String: String] = [:]
        /// The store of an object to which one of the links leads.
        var store: StoreID?

        func take(_ value: some Encodable, for property: String) throws {
            let column = try RowEncoder.column(value)
            values[property] = column
            if let link = value as? any LinkProperty, let known = link.store { store = known }
            refusals[property] = refusal(of: value, as: column)
        }
    }

    /// Returns why a value cannot be stored, or `nil` if it can.
    ///
    /// JSON has no other numbers than finite ones, and a record's integers have 64 bits.
    fileprivate static func refusal(of value: some Encodable, as column: DatabaseValue) -> String? {
        switch value {
        case let value as String where value.utf8.contains(0):
            return "contains the character U+0000, which ends strings in SQLite. Remove it."
        case let value as RecordName where value.text.utf8.contains(0):
            return refusal(of: value.text, as: column)
        case let value as Date where Timestamp(exactly: value) == nil:
            return "is a date out of range. Use nil for no date."
        case let value as any BinaryInteger where Int64(clamping: value) != value:
            return "is \(value), and integers in records range from \(Int64.min) to \(Int64.max)."
        case let value as any BinaryFloatingPoint where !Double(value).isFinite:
            return "is \(Double(value)), and records hold only finite numbers. Use nil or a finite number."
        case let value as any OptionalColumn: return value.refusal(as: column)
        default:
            // Stored as JSON, which cannot represent `Decimal.nan`, for example.
            guard case .blob(let json) = column.storage, !(value is Data),
                let type = Swift.type(of: value) as? any Decodable.Type
            else { return nil }
            do {
                _ = try JSONDecoder().decode(type, from: json)
                return nil
            } catch {
                return "is \(value), which cannot be decoded from its JSON: \(error)"
            }
        }
    }
}

/// An optional of any wrapped type.
private protocol OptionalColumn {
    func column() throws -> DatabaseValue
    func refusal(as column: DatabaseValue) -> String?
}

extension Optional: OptionalColumn where Wrapped: Encodable {
    fileprivate func column() throws -> DatabaseValue { try map { try RowEncoder.column($0) } ?? .null }

    fileprivate func refusal(as column: DatabaseValue) -> String? { flatMap { RowEncoder.refusal(of: $0, as: column) } }
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
        try sink.take(value, for: key.stringValue)
    }

    mutating func encode(_ value: String, forKey key: Key) throws {
        guard value.utf8.contains(0) else { return sink.values[key.stringValue] = value.databaseValue }
        try sink.take(value, for: key.stringValue)
    }
    mutating func encode(_ value: Bool, forKey key: Key) { sink.values[key.stringValue] = value.databaseValue }
    mutating func encode(_ value: Int, forKey key: Key) { sink.values[key.stringValue] = value.databaseValue }
    mutating func encode(_ value: Double, forKey key: Key) throws { try sink.take(value, for: key.stringValue) }

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

/// Receives the single value of a link.
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

/// An object that encodes itself as an array or a single value has no properties to store.
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
