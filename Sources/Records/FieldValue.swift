/// The value of a field: a scalar, or a list of scalars of one type.
///
/// See Wire.md, "Field values".
package enum FieldValue: Hashable, Sendable {
    case string(String)
    case int64(Int64)
    case double(Double)
    case timestamp(Timestamp)
    case bytes([UInt8])
    // The large cases are indirect, because they are rare and would make every value as large.
    indirect case reference(Reference)
    indirect case location(Location)
    indirect case asset(Asset)
    /// An empty list keeps its element type.
    case list(FieldType.Scalar, [FieldValue])

    package var type: FieldType {
        switch self {
        case .string: .scalar(.string)
        case .int64: .scalar(.int64)
        case .double: .scalar(.double)
        case .timestamp: .scalar(.timestamp)
        case .bytes: .scalar(.bytes)
        case .reference: .scalar(.reference)
        case .location: .scalar(.location)
        case .asset: .scalar(.asset)
        case .list(let element, _): .list(element)
        }
    }

    /// Whether every location in it exists on Earth; `true` if it holds no location.
    package var isOnEarth: Bool {
        switch self {
        case .location(let place): place.isOnEarth
        case .list(.location, let places): places.allSatisfy(\.isOnEarth)
        default: true
        }
    }
}

/// The type of a field, as declared in the schema and tagged on the wire.
package enum FieldType: Hashable, Sendable {
    package enum Scalar: String, Hashable, Sendable, CaseIterable {
        case string = "STRING"
        case int64 = "INT64"
        case double = "DOUBLE"
        case timestamp = "TIMESTAMP"
        case bytes = "BYTES"
        case reference = "REFERENCE"
        case location = "LOCATION"
        case asset = "ASSETID"
    }

    case scalar(Scalar)
    case list(Scalar)

    /// Whether the values are files stored beside the record.
    package var isAsset: Bool { self == .scalar(.asset) || self == .list(.asset) }

    /// Whether the values refer to other records.
    package var isReference: Bool { self == .scalar(.reference) || self == .list(.reference) }

    /// Whether a field of this type can be `ENCRYPTED`.
    ///
    /// See SchemaLanguage.md, "Grammar".
    package var isEncryptable: Bool { !isAsset && !isReference }

    /// The word on the wire: `STRING`, `STRING_LIST`, and `ASSETID` for assets.
    package var tag: String {
        switch self {
        case .scalar(let scalar): scalar.rawValue
        case .list(let scalar): scalar.rawValue + "_LIST"
        }
    }

    /// Parses a tag, including the other names that clients and CloudKit use for some types.
    package init?(tag: String) {
        let isList = tag.hasSuffix("_LIST")
        let word = isList ? String(tag.dropLast(5)) : tag
        guard let scalar = Scalar(rawValue: word) ?? Self.otherNames[word] else { return nil }
        self = isList ? .list(scalar) : .scalar(scalar)
    }

    /// The names that CloudKit returns, and clients therefore send, for fields of types older than its schemas.
    ///
    /// See Wire.md, "Field values".
    private static let otherNames: [String: Scalar] = [
        "ASSET": .asset, "NUMBER_INT64": .int64, "NUMBER_DOUBLE": .double,
    ]
}

/// A reference from one record to another in the same zone.
///
/// See Wire.md, "References".
package struct Reference: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable {
        case none = "NONE"
        case deleteSelf = "DELETE_SELF"
        case validate = "VALIDATE"
    }

    package var recordName: String
    package var action: Action
    /// `nil` for the zone of the referencing record.
    package var zone: ZoneID?

    package init(recordName: String, action: Action = .none, zone: ZoneID? = nil) {
        self.recordName = recordName
        self.action = action
        self.zone = zone
    }
}

/// A place on Earth, in degrees, metres and metres per second.
///
/// See Wire.md, "Locations".
package struct Location: Hashable, Sendable {
    package var latitude: Double
    package var longitude: Double
    package var horizontalAccuracy: Double?
    package var verticalAccuracy: Double?
    package var altitude: Double?
    package var speed: Double?
    package var course: Double?
    package var timestamp: Timestamp?

    package init(latitude: Double, longitude: Double) {
        self.latitude = latitude
        self.longitude = longitude
    }

    /// Whether latitude and longitude are within their ranges, as `CLLocationCoordinate2DIsValid` checks it.
    package var isOnEarth: Bool { (-90...90).contains(latitude) && (-180...180).contains(longitude) }

    /// The ranges, worded for the end of a sentence.
    package static let bounds = "a latitude of -90 to 90 and a longitude of -180 to 180 degrees"
}

/// A file stored beside the record.
///
/// See Wire.md, "Assets".
package struct Asset: Hashable, Sendable {
    package var fileChecksum: String
    package var size: Int64
    package var receipt: String?
    package var referenceChecksum: String?
    package var wrappingKey: String?
    package var downloadURL: String?

    package init(fileChecksum: String, size: Int64) {
        self.fileChecksum = fileChecksum
        self.size = size
    }
}

extension FieldValue {
    /// The asset, or the assets in a list.
    package var assets: [Asset] {
        switch self {
        case .asset(let asset): [asset]
        case .list(.asset, let elements): elements.flatMap(\.assets)
        default: []
        }
    }

    /// Returns the value with each of its assets transformed.
    package func mappingAssets<Failure: Error>(
        _ change: (Asset) throws(Failure) -> Asset
    ) throws(Failure) -> FieldValue {
        switch self {
        case .asset(let asset): return .asset(try change(asset))
        case .list(.asset, let elements):
            var changed: [FieldValue] = []
            for element in elements { changed.append(try element.mappingAssets(change)) }
            return .list(.asset, changed)
        default: return self
        }
    }
}

extension FieldValue {
    /// The reference, or the references in a list.
    package var references: [Reference] {
        switch self {
        case .reference(let reference): [reference]
        case .list(.reference, let elements): elements.flatMap(\.references)
        default: []
        }
    }

    /// Returns the value with each of its references transformed.
    package func mappingReferences<Failure: Error>(
        _ change: (Reference) throws(Failure) -> Reference
    ) throws(Failure) -> FieldValue {
        switch self {
        case .reference(let reference): return .reference(try change(reference))
        case .list(.reference, let elements):
            var changed: [FieldValue] = []
            for element in elements { changed.append(try element.mappingReferences(change)) }
            return .list(.reference, changed)
        default: return self
        }
    }
}
