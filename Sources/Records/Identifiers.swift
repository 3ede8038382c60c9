/// The identifier of an application's data: `iCloud.` and a reverse domain name, case-sensitive.
///
/// See Wire.md, "URLs".
package struct ContainerID: Hashable, Sendable, CustomStringConvertible {
    package let name: String

    /// Accepts 1 to 255 letters, digits, `.`, `-` and `_`, not starting with a dot; returns `nil` otherwise.
    package init?(_ name: String) {
        guard (1...255).contains(name.utf8.count), name.utf8.first != UInt8(ascii: "."),
            name.utf8.allSatisfy({ $0.isASCIIAlphanumeric || $0 == 0x2E || $0 == 0x2D || $0 == 0x5F })
        else { return nil }
        self.name = name
    }

    package var description: String { name }

    /// Returns the error text for an invalid container name.
    package static func rule(brokenBy text: String) -> String {
        "'\(text.prefix(64))' cannot be a container: a name has 1 to 255 letters, digits, '.', '-' and '_', no '.' first, "
            + "such as iCloud.org.example.notes."
    }
}

/// The two environments of a container, which share no data.
package enum Environment: String, Hashable, Sendable, CaseIterable {
    case development, production
}

/// A container in one environment, with its own store, schema and users.
package struct ContainerEnvironment: Hashable, Sendable, CustomStringConvertible {
    package var container: ContainerID
    package var environment: Environment

    package init(_ container: ContainerID, _ environment: Environment) {
        self.container = container
        self.environment = environment
    }

    package var description: String { "\(container.name)/\(environment.rawValue)" }
}

/// The database of a request: public, private or shared.
///
/// The raw value is `dbs` in a notice. See Wire.md, "Notification payload".
package enum DatabaseScope: Int, Hashable, Sendable, CaseIterable {
    case `public` = 1
    case `private` = 2
    case shared = 3

    /// The word in URLs: `public`, `private` or `shared`.
    package var pathName: String {
        switch self {
        case .public: "public"
        case .private: "private"
        case .shared: "shared"
        }
    }

    package init?(pathName: String) {
        guard let scope = Self.allCases.first(where: { $0.pathName == pathName }) else { return nil }
        self = scope
    }
}

/// A user of one container: the record name of their `Users` record, `_` and 32 hex digits.
package struct UserID: Hashable, Sendable, CustomStringConvertible {
    package let recordName: String

    package init(_ recordName: String) { self.recordName = recordName }

    /// The caller, if a client omits the owner; CloudKit's `CKCurrentUserDefaultName`.
    package static let caller = UserID("__defaultOwner__")

    package var description: String { recordName }
}

/// The identifier of a zone: its name and its owner.
package struct ZoneID: Hashable, Sendable, CustomStringConvertible {
    package var zoneName: String
    package var owner: UserID

    package init(_ zoneName: String, owner: UserID = .caller) {
        self.zoneName = zoneName
        self.owner = owner
    }

    /// The name of the zone that every public and private database has.
    package static let defaultName = "_defaultZone"

    package var isDefault: Bool { zoneName == Self.defaultName }
    package var description: String { "\(owner)/\(zoneName)" }
}

/// The identifier of a record.
package struct RecordID: Hashable, Sendable, CustomStringConvertible {
    package var recordName: String
    package var zone: ZoneID

    package init(_ recordName: String, in zone: ZoneID) {
        self.recordName = recordName
        self.zone = zone
    }

    package var description: String { "\(zone)/\(recordName)" }
}

/// The rules for names.
///
/// See Wire.md, "Zone IDs" and "Limits".
package enum NameRules {
    /// Returns whether a name has 1 to 255 printable ASCII characters.
    package static func isRecordName(_ name: String) -> Bool {
        guard (1...255).contains(name.utf8.count) else { return false }
        var name = name
        // A plain loop, because this runs for every record of every request.
        return name.withUTF8 { bytes in
            // Without an early exit, so that the compiler vectorizes the loop.
            var bad: UInt8 = 0
            for byte in bytes { bad |= byte &- 0x20 > 0x5E ? 1 : 0 }
            return bad == 0
        }
    }

    /// Returns whether a name is a record name without a leading underscore, or that of the default zone.
    package static func isZoneName(_ name: String) -> Bool {
        name == ZoneID.defaultName || (isRecordName(name) && name.utf8.first != UInt8(ascii: "_"))
    }

    /// Returns whether a name is valid for a record type or field: a letter, then letters, digits and underscores, at
    /// most 255.
    package static func isIdentifier(_ name: String) -> Bool {
        guard let first = name.utf8.first, first.isASCIILetter, name.utf8.count <= 255 else { return false }
        return name.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") }
    }
}

extension UInt8 {
    package var isASCIILetter: Bool { (0x41...0x5A).contains(self) || (0x61...0x7A).contains(self) }
    package var isASCIIDigit: Bool { (0x30...0x39).contains(self) }
    package var isASCIIAlphanumeric: Bool { isASCIILetter || isASCIIDigit }
}
