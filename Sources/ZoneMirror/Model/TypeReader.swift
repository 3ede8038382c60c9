import Foundation
import GRDB

/// Reads an entity from a Swift type: the names and types are taken from an object with all defaults.
enum TypeReader {
    static func entity<T: SyncedRecord>(of type: T.Type) -> Entity {
        let example = T()
        var entity = Entity(T.entityName)
        let defaults = (try? RowEncoder.values(of: example) { _, _, _ in true })?.values ?? [:]
        for (label, value) in Mirror(reflecting: example).children {
            guard let label, label != "id" else { continue }
            if let link = value as? any LinkProperty {
                entity.relationships.append(link.relationship(named: label))
                continue
            }
            let (type, isOptional) = kind(of: Swift.type(of: value))
            var attribute = Attribute(label, type, isOptional: isOptional, hasDefault: true)
            let value = defaults[label] ?? (isOptional ? .null : type.zero)
            attribute.defaultValue = type == .date ? ExactDate.inSQL(value) : value
            entity.attributes.append(attribute)
        }
        T.describe(&entity)
        return entity
    }

    private static func kind(of type: Any.Type) -> (AttributeType, isOptional: Bool) {
        if let optional = type as? any OptionalProperty.Type { return (kind(of: optional.wrapped).0, true) }
        switch type {
        case is String.Type: return (.string, false)
        case is Bool.Type: return (.boolean, false)
        case is any BinaryInteger.Type: return (.integer, false)
        case is any BinaryFloatingPoint.Type: return (.double, false)
        case is Date.Type: return (.date, false)
        case is Data.Type: return (.data, false)
        case is UUID.Type: return (.uuid, false)
        case is URL.Type: return (.uri, false)
        case is RecordName.Type: return (.string, false)
        default: return (.transformable, false)
        }
    }
}

/// An optional of any wrapped type.
private protocol OptionalProperty {
    static var wrapped: Any.Type { get }
}

extension Optional: OptionalProperty {
    fileprivate static var wrapped: Any.Type { Wrapped.self }
}
