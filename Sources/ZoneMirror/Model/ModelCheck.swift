import Records

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
