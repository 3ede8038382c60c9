import Records

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

/// Finds everything that prevents a model from being mirrored.
///
/// See StoresAndModels.md, "Rules for models".
struct ModelCheck {
    let model: MirrorModel
    let configuration: String?
    let isPublic: Bool
    let prefix: String
    /// Fields known to exist unencrypted, as `type.field`.
    var clearFields: Set<String> = []

    /// Returns all violations, sorted by rule and then in the order of the model.
    func violations() -> [Violation] {
        let names = model.entityNames(in: configuration)
        let members = names.compactMap { model.entities[$0] }
        let found = members.flatMap { entity in
            attributes(of: entity) + relationships(of: entity, among: Set(names)) + fields(of: entity)
                + wholeEntity(entity)
        }
        // Keeps the order within each rule.
        return found.enumerated().sorted { ($0.element.rule, $0.offset) < ($1.element.rule, $1.offset) }.map(\.element)
    }

    private func wholeEntity(_ entity: Entity) -> [Violation] {
        var found = entity.uniquenessConstraints.map {
            Violation.uniqueConstraint(entity: entity.name, properties: $0)
        }
        if !Self.isName(entity.name) { found.append(.invalidName(entity: entity.name, name: entity.name)) }
        let count =
            entity.attributes.reduce(entity.keepsEditTimes ? 2 : 1) { $0 + ($1.type.hasLargeForm ? 2 : 1) }
            + entity.relationships.filter { !$0.isToMany }.count
        if count > 256 { found.append(.tooManyFields(entity: entity.name, count: count)) }
        return found
    }

    private func attributes(of entity: Entity) -> [Violation] {
        entity.attributes.flatMap { attribute -> [Violation] in
            var found: [Violation] = []
            let name = attribute.name
            if !attribute.isOptional, !attribute.hasDefault {
                found.append(.attributeNeedsDefault(entity: entity.name, attribute: name))
            }
            if attribute.type == .undefined { found.append(.undefinedType(entity: entity.name, attribute: name)) }
            if attribute.type == .objectID { found.append(.objectIDType(entity: entity.name, attribute: name)) }
            if attribute.isEncrypted, let reason = encryptionProblem(attribute, of: entity) {
                found.append(.encryptionNotAllowed(entity: entity.name, attribute: name, reason: reason))
            }
            return found
        }
    }

    private func encryptionProblem(_ attribute: Attribute, of entity: Entity) -> Violation.EncryptionProblem? {
        if isPublic { return .publicStore }
        if attribute.isIndexed { return .indexed }
        return clearFields.contains("\(prefix)\(entity.root).\(prefix)\(attribute.name)") ? .existsUnencrypted : nil
    }

    private func relationships(of entity: Entity, among names: Set<String>) -> [Violation] {
        entity.relationships.flatMap { relationship -> [Violation] in
            var found: [Violation] = []
            let name = relationship.name
            if !relationship.isOptional {
                found.append(.relationshipNotOptional(entity: entity.name, relationship: name))
            }
            let back = model.inverse(of: relationship)
            if back == nil || back?.destination != entity.name || back?.inverse != name {
                found.append(.relationshipNoInverse(entity: entity.name, relationship: name))
            }
            if relationship.deleteRule == .deny {
                found.append(.denyDeleteRule(entity: entity.name, relationship: name))
            }
            if relationship.isOrdered { found.append(.orderedRelationship(entity: entity.name, relationship: name)) }
            if !names.contains(relationship.destination) {
                found.append(
                    .crossConfigurationRelationship(from: entity.name, relationship: name, to: relationship.destination)
                )
            }
            return found
        }
    }

    private func fields(of entity: Entity) -> [Violation] {
        let properties = entity.attributes.map(\.name) + entity.relationships.map(\.name)
        return properties.flatMap { name -> [Violation] in
            if !Self.isName(name) { return [.invalidName(entity: entity.name, name: name)] }
            let field = prefix + name
            // Column names in SQLite are case-insensitive.
            let isTaken =
                Query.SystemField(anyName: field) != nil || Self.reserved.contains(field) || name.lowercased() == "id"
                || field == prefix + "entityName"
                || (entity.keepsEditTimes && field == prefix + EditTimes.name)
                || name.hasSuffix(RecordMapping.companionSuffix)
            return isTaken ? [.reservedFieldName(entity: entity.name, property: name, field: field)] : []
        }
    }

    /// Names that every record has, in addition to the system fields known to queries.
    private static let reserved: Set<String> = [
        "recordType", "parent", "share", "zone", "zoneID", "owner", "ownerName",
    ]

    private static func isName(_ name: String) -> Bool { NameRules.isIdentifier(name) }
}

extension AttributeType {
    /// Whether its values may have any length, so that they may need an asset.
    var hasLargeForm: Bool { self == .string || self == .data || self == .transformable }
}
