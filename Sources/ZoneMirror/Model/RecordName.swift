import Foundation
public import GRDB

/// What names an object in its mirror, and its record on the relay: a new UUID unless the program says otherwise.
///
/// The name of a fetched object also remembers the row that the object was read from, so that a later `update` knows
/// what was changed and against what; that in a link of a fetched object, the store. That memory takes no part in equality,
/// and is not stored.
public struct RecordName: Hashable, Codable, Sendable, Comparable, ExpressibleByStringLiteral, CustomStringConvertible {
    /// The name itself.
    public let text: String
    /// Where the object was read, or a link to it; `nil` for one made by the program.
    let origin: Origin?

    /// A new name that nobody else has.
    public init() { self.init(UUID().uuidString) }

    /// A name of the program's choice, such as one derived from a key so that every device draws the same.
    ///
    /// - Parameter text: 1 to 255 printable ASCII characters; in a mirrored store each object has one of its own, whatever its
    ///   entity.
    public init(_ text: String) {
        self.text = text
        origin = nil
    }

    /// A name written in the program.
    public init(stringLiteral text: String) { self.init(text) }

    init(_ text: String, origin: Origin?) {
        self.text = text
        self.origin = origin
    }

    /// The name in a link of an object that was read.
    init(_ text: String, linkedFrom holder: Origin?) {
        self.init(text, origin: holder.map { Origin(store: $0.store, name: text, row: nil, files: $0.files) })
    }

    /// Reads a name.
    public init(from decoder: any Decoder) throws { self.init(try decoder.singleValueContainer().decode(String.self)) }

    /// Writes the name.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The name.
    public var description: String { text }

    /// Whether two names are the same.
    public static func == (a: RecordName, b: RecordName) -> Bool { a.text == b.text }
    /// In the order of their characters.
    public static func < (a: RecordName, b: RecordName) -> Bool { a.text < b.text }
    /// Agrees with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(text) }
}

extension RecordName: DatabaseValueConvertible {
    /// The name as a text, for queries of the program's own.
    public var databaseValue: DatabaseValue { text.databaseValue }

    /// Reads a name of a query's answer.
    public static func fromDatabaseValue(_ value: DatabaseValue) -> RecordName? {
        String.fromDatabaseValue(value).map { RecordName($0) }
    }
}

/// A row as it was read: from which store, and with what values.
final class Origin: Sendable {
    let store: StoreID
    let name: String
    /// `nil` where only a link to the object was read.
    let row: [DatabaseValue]?
    /// Which files were behind the stores then: another user's objects are not those of this one.
    let files: [StoreID: String]

    init(store: StoreID, name: String, row: [DatabaseValue]?, files: [StoreID: String]) {
        self.store = store
        self.name = name
        self.row = row
        self.files = files
    }
}
