/// Why a model cannot be mirrored: one violated rule at one place.
///
/// See StoresAndModels.md, "Rules for models".
public enum Violation: Hashable, Sendable, CustomStringConvertible {
    /// R1: a uniqueness constraint.
    case uniqueConstraint(entity: String, properties: [String])
    /// R2: an attribute that is neither optional nor has a default.
    case attributeNeedsDefault(entity: String, attribute: String)
    /// R3: an attribute without a type.
    case undefinedType(entity: String, attribute: String)
    /// R4: an attribute with a local identity.
    case objectIDType(entity: String, attribute: String)
    /// R5: a required relationship.
    case relationshipNotOptional(entity: String, relationship: String)
    /// R6: a relationship without an inverse.
    case relationshipNoInverse(entity: String, relationship: String)
    /// R7: a relationship whose delete rule is `deny`.
    case denyDeleteRule(entity: String, relationship: String)
    /// R8: an ordered relationship.
    case orderedRelationship(entity: String, relationship: String)
    /// R9: a relationship to an entity outside of the configuration.
    case crossConfigurationRelationship(from: String, relationship: String, to: String)
    /// R10: a record type with more than 256 fields.
    case tooManyFields(entity: String, count: Int)
    /// R11: a property whose field would have a name that every record already has.
    case reservedFieldName(entity: String, property: String, field: String)
    /// R12: an encrypted attribute that cannot be encrypted.
    case encryptionNotAllowed(entity: String, attribute: String, reason: EncryptionProblem)
    /// R13: a name with other characters than ASCII letters, digits and underscores, or with an underscore first.
    case invalidName(entity: String, name: String)
    /// R14: a property that had another type in the store's file; both types are phrases.
    case typeChanged(entity: String, property: String, from: String, to: String)

    /// Why an attribute cannot be encrypted.
    public enum EncryptionProblem: String, Hashable, Sendable {
        /// A public database does not support encryption.
        case publicStore
        /// An encrypted attribute cannot have an index.
        case indexed
        /// The field already exists unencrypted.
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

    /// What to do about it, as one line.
    public var hint: String {
        switch self {
        case .uniqueConstraint:
            "Remove the constraint. Give seed data fixed names (RecordName of a key), or use deduplicate(_:by:)."
        case .attributeNeedsDefault: "Make it optional, or give it a default."
        case .undefinedType: "Give it a type; transformable accepts any codable value."
        case .objectIDType: "Use a relationship, or store the other object's record name as a string."
        case .relationshipNotOptional: "Make it optional: the other end may arrive later."
        case .relationshipNoInverse: "Declare a relationship in the other direction, and name it as the inverse."
        case .denyDeleteRule: "Use nullify, cascade or noAction: a deletion on another device cannot be denied."
        case .orderedRelationship: "Remove the order and add a position attribute to sort by."
        case .crossConfigurationRelationship:
            "Put both entities into one configuration, or store the record name as a string and fetch by it."
        case .tooManyFields: "Split the entity. String and data attributes count twice, once for their large form."
        case .reservedFieldName: "Rename the property."
        case .encryptionNotAllowed(_, _, .publicStore):
            "Keep the entity in a private store, or do not encrypt the attribute."
        case .encryptionNotAllowed(_, _, .indexed): "Remove the attribute's index."
        case .encryptionNotAllowed(_, _, .existsUnencrypted): "Add a new, encrypted attribute beside the old one."
        case .typeChanged(_, let property, let from, let to):
            "It holds a \(from) and cannot become a \(to). Keep \(property) unchanged, and add a property with another name."
        case .invalidName: "Use ASCII letters, digits and underscores, and start with a letter."
        }
    }

    /// The place, the problem and what to do about it.
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
