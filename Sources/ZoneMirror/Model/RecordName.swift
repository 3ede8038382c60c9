import Foundation
public import GRDB

/// The name of an object and its record: a new UUID unless the application chooses another name.
///
/// The name of a fetched object also remembers the row that it was read from, so that a later `update` knows what was
/// changed. The name in a link of a fetched object remembers the store. Equality and encoding ignore this.
public struct RecordName: Hashable, Codable, Sendable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The text of the name.
    public let text: String
    /// Where the object, or a link to it, was read; `nil` for a name that the application created.
    let origin: Origin?

    /// Creates a new unique name.
    public init() { self.init(UUID().uuidString) }

    /// Creates a name from a text, for example from a key, so that every device derives the same name.
    ///
    /// - Parameter text: 1 to 255 printable ASCII characters. In a mirrored store each name is unique, whatever the
    ///   object's entity.
    public init(_ text: String) {
        self.text = text
        origin = nil
    }

    /// Creates a name from a literal.
    public init(stringLiteral text: String) { self.init(text) }

    init(_ text: String, origin: Origin?) {
        self.text = text
        self.origin = origin
    }

    /// Creates the name in a link of an object that was read.
    init(_ text: String, linkedFrom holder: Origin?) {
        self.init(text, origin: holder.map { Origin(store: $0.store, name: text, row: nil, files: $0.files) })
    }

    /// Decodes a name.
    public init(from decoder: any Decoder) throws { self.init(try decoder.singleValueContainer().decode(String.self)) }

    /// Encodes the name.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The text of the name.
    public var description: String { text }

    /// Returns whether two names have the same text.
    public static func == (a: RecordName, b: RecordName) -> Bool { a.text == b.text }
    /// Compares the texts of two names.
    public static func < (a: RecordName, b: RecordName) -> Bool { a.text < b.text }
    /// Hashes the text of the name.
    public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

extension RecordName: DatabaseValueConvertible {
    /// The name as a text, for the application's own queries.
    public var databaseValue: DatabaseValue { text.databaseValue }

    /// Creates a name from a query's result.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> RecordName? {
        String.fromDatabaseValue(value).map { RecordName($0) }
    }
}

/// A row as it was read: its store and values.
final class Origin: Sendable {
    let store: StoreID
    let name: String
    /// The values; `nil` if only a link to the object was read.
    let row: [DatabaseValue]?
    /// The files of the stores at that time, because another user's objects are different ones.
    let files: [StoreID: String]

    init(store: StoreID, name: String, row: [DatabaseValue]?, files: [StoreID: String]) {
        self.store = store
        self.name = name
        self.row = row
        self.files = files
    }
}
