/// Why a model cannot be mirrored: one broken rule at one place.
///
/// See StoresAndModels.md, "Rules for models".
public enum Violation: Hashable, Sendable, CustomStringConvertible {
    /// R1: properties that must be unique together.
    case uniqueConstraint(entity: String, properties: [String])
    /// R2: neither optional nor with a default.
    case attributeNeedsDefault(entity: String, attribute: String)
    /// R3: an attribute without a type.
    case undefinedType(entity: String, attribute: String)
    /// R4: an attribute that holds a local identity.
    case objectIDType(entity: String, attribute: String)
    /// R5: a relationship that must not be empty.
    case relationshipNotOptional(entity: String, relationship: String)
    /// R6: a relationship that nothing leads back from.
    case relationshipNoInverse(entity: String, relationship: String)
    /// R7: a relationship that can refuse a deletion.
    case denyDeleteRule(entity: String, relationship: String)
    /// R8: a relationship with an order.
    case orderedRelationship(entity: String, relationship: String)
    /// R9: a relationship that leads out of the configuration.
    case crossConfigurationRelationship(from: String, relationship: String, to: String)
    /// R10: a record type of more than 256 fields.
    case tooManyFields(entity: String, count: Int)
    /// R11: a property whose field would have a name that every record uses already.
    case reservedFieldName(entity: String, property: String, field: String)
    /// R12: an encrypted attribute where there can be none.
    case encryptionNotAllowed(entity: String, attribute: String, reason: EncryptionProblem)
    /// R13: a name that is not made of ASCII letters, digits and underscores, or starts with an underscore.
    case invalidName(entity: String, name: String)
    /// R14: a property that has had another type in the store's file; both types in words.
    case typeChanged(entity: String, property: String, from: String, to: String)

    /// What is wrong with an encrypted attribute.
    public enum EncryptionProblem: String, Hashable, Sendable {
        /// A public database keeps nothing encrypted.
        case publicStore
        /// What is encrypted cannot have an index.
        case indexed
        /// The field exists already, and is not encrypted.
        case existsUnencrypted
    }

    /// The rule's number, 1 to 14.
    public var rule: Int {
        switch self {
        case .uniqueConstraint: 1
        case .attributeNeedsDefault: 2
        case .undefinedType: 3
        case .objectIDType: 4
        case .relationshipNotOptional: 5
        case .relationshipNoInverse: 6
        case .denyDeleteRule: 7
        case .orderedRelationship: 8
        case .crossConfigurationRelationship: 9
        case .tooManyFields: 10
        case .reservedFieldName: 11
        case .encryptionNotAllowed: 12
        case .invalidName: 13
        case .typeChanged: 14
        }
    }

    /// What to do about it, in one line.
    public var hint: String {
        switch self {
        case .uniqueConstraint:
            "Remove the constraint; give seed data names of their own (RecordName of a key), or use deduplicate(_:by:)."
        case .attributeNeedsDefault: "Make it optional, or give it a default."
        case .undefinedType: "Give it a type; transformable takes any codable value."
        case .objectIDType: "Use a relationship, or keep the other object's record name as text."
        case .relationshipNotOptional: "Make it optional: the other end may arrive later."
        case .relationshipNoInverse: "Declare the relationship that leads back, and name it as the inverse."
        case .denyDeleteRule: "Use nullify, cascade or noAction: another device cannot be denied a deletion."
        case .orderedRelationship: "Remove the order and add a position attribute to sort by."
        case .crossConfigurationRelationship:
            "Put both entities into one configuration, or keep the record name as text and fetch by it."
        case .tooManyFields: "Split the entity in two; text and data count twice, once for their large form."
        case .reservedFieldName: "Rename the property."
        case .encryptionNotAllowed(_, _, .publicStore): "Keep the entity in a private store, or the attribute in clear."
        case .encryptionNotAllowed(_, _, .indexed): "Remove the attribute's index."
        case .encryptionNotAllowed(_, _, .existsUnencrypted): "Add a new, encrypted attribute beside the old one."
        case .typeChanged(_, let property, let from, let to):
            "It holds a \(from) and cannot become a \(to). Keep \(property) as it was, and add a property of another name."
        case .invalidName: "Use ASCII letters, digits and underscores, and start with a letter."
        }
    }

    /// Where and what, then what to do.
    public var description: String { "R\(rule) \(place): \(hint)" }

    private var place: String {
        switch self {
        case .uniqueConstraint(let entity, let properties): "\(entity).(\(properties.joined(separator: ", ")))"
        case .attributeNeedsDefault(let entity, let name), .undefinedType(let entity, let name),
            .objectIDType(let entity, let name), .relationshipNotOptional(let entity, let name),
            .relationshipNoInverse(let entity, let name), .denyDeleteRule(let entity, let name),
            .orderedRelationship(let entity, let name), .encryptionNotAllowed(let entity, let name, _),
            .invalidName(let entity, let name), .typeChanged(let entity, let name, _, _):
            "\(entity).\(name)"
        case .crossConfigurationRelationship(let from, let relationship, let to): "\(from).\(relationship) to \(to)"
        case .tooManyFields(let entity, let count): "\(entity) with \(count) fields"
        case .reservedFieldName(let entity, let property, let field): "\(entity).\(property) as \(field)"
        }
    }
}
