import Foundation
import Testing
import ZoneKit
import ZoneMirror

/// Violates each of the thirteen model rules once, and checks that all violations are reported together.
@Suite struct ModelTests {
    /// A valid entity with one attribute.
    private static func entity(_ change: (inout Entity) -> Void) -> Entity {
        var entity = Entity("E", attributes: [Attribute("a", .string)])
        change(&entity)
        return entity
    }

    private static func linked(_ change: (inout Relationship) -> Void) -> [Entity] {
        var there = Relationship("others", to: "F", isToMany: true, inverse: "e")
        change(&there)
        let back = Relationship("e", to: "E", isToMany: false, inverse: "others")
        return [Entity("E", relationships: [there]), Entity("F", relationships: [back])]
    }

    private func violations(
        _ entities: [Entity],
        isPublic: Bool = false,
        configurations: [String: Set<String>] = [:],
        usesPrefix: Bool = true
    ) -> [Violation] {
        let model = MirrorModel(entities: entities, configurations: configurations)
        var cloud = CloudOptions(containerIdentifier: "iCloud.test", scope: isPublic ? .public : .private)
        cloud.usesPrefix = usesPrefix
        let url = URL(fileURLWithPath: "/nowhere")
        let description = StoreDescription(url: url, configuration: configurations.keys.first, cloud: cloud)
        return MirroredContainer(model: model, stores: [description]).violations(for: description)
    }

    @Test func aValidModelHasNoViolations() {
        let cloud = CloudOptions(containerIdentifier: "iCloud.test")
        let description = StoreDescription(url: URL(fileURLWithPath: "/nowhere"), cloud: cloud)
        #expect(MirroredContainer(model: notesModel, stores: []).violations(for: description).isEmpty)
    }

    @Test func attributeRulesAreChecked() {
        #expect(
            violations([Self.entity { $0.uniquenessConstraints = [["a"]] }])
                == [.uniqueConstraint(entity: "E", properties: ["a"])]
        )
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("a", .string, isOptional: false)] }])
                == [.attributeNeedsDefault(entity: "E", attribute: "a")]
        )
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("a", .string, isOptional: false, hasDefault: true)] }])
                .isEmpty
        )
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("a", .undefined), Attribute("b", .objectID)] }])
                == [.undefinedType(entity: "E", attribute: "a"), .objectIDType(entity: "E", attribute: "b")]
        )
    }

    @Test func relationshipRulesAreChecked() {
        #expect(violations(Self.linked { _ in }).isEmpty)
        #expect(
            violations(Self.linked { $0.isOptional = false })
                == [.relationshipNotOptional(entity: "E", relationship: "others")]
        )
        #expect(
            violations(Self.linked { $0.inverse = nil }) == [
                .relationshipNoInverse(entity: "E", relationship: "others"),
                .relationshipNoInverse(entity: "F", relationship: "e"),
            ]
        )
        #expect(
            violations(Self.linked { $0.deleteRule = .deny }) == [.denyDeleteRule(entity: "E", relationship: "others")]
        )
        #expect(
            violations(Self.linked { $0.isOrdered = true })
                == [.orderedRelationship(entity: "E", relationship: "others")]
        )
        #expect(
            violations(Self.linked { _ in }, configurations: ["cloud": ["E"]])
                == [.crossConfigurationRelationship(from: "E", relationship: "others", to: "F")]
        )
    }

    @Test func fieldAndNameRulesAreChecked() {
        // A string counts as two fields: 127 strings and the entity name make 255, 128 make 257.
        func texts(_ count: Int) -> [Entity] {
            [Self.entity { $0.attributes = (0..<count).map { Attribute("a\($0)", .string) } }]
        }
        #expect(violations(texts(127)).isEmpty)
        #expect(violations(texts(128)) == [.tooManyFields(entity: "E", count: 257)])
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("recordName", .string)] }], usesPrefix: false)
                == [.reservedFieldName(entity: "E", property: "recordName", field: "recordName")]
        )
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("entityName", .string)] }])
                == [.reservedFieldName(entity: "E", property: "entityName", field: "CD_entityName")]
        )
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("ID", .string)] }])
                == [.reservedFieldName(entity: "E", property: "ID", field: "CD_ID")]
        )
        #expect(
            violations([Self.entity { $0.attributes = [Attribute("_a", .string), Attribute("ü", .string)] }])
                == [.invalidName(entity: "E", name: "_a"), .invalidName(entity: "E", name: "ü")]
        )
    }

    @Test func encryptionRulesAreChecked() {
        let secret = Self.entity { $0.attribute("a") { $0.isEncrypted = true } }
        #expect(violations([secret]).isEmpty)
        #expect(
            violations([secret], isPublic: true)
                == [.encryptionNotAllowed(entity: "E", attribute: "a", reason: .publicStore)]
        )
        var indexed = secret
        indexed.attribute("a") { $0.isIndexed = true }
        #expect(
            violations([indexed]) == [.encryptionNotAllowed(entity: "E", attribute: "a", reason: .indexed)]
        )
    }

    @Test func loadingListsAllViolationsInTheOrderOfTheRules() async throws {
        var broken = Entity("E", attributes: [Attribute("_a", .undefined)])
        broken.uniquenessConstraints = [["_a"]]
        let description = StoreDescription(
            url: URL(fileURLWithPath: "/nowhere.sqlite"),
            cloud: CloudOptions(containerIdentifier: "iCloud.test")
        )
        let container = MirroredContainer(model: MirrorModel(entities: [broken]), stores: [description])
        let error = await #expect(throws: MirrorError.self) { try await container.loadStores() }
        guard case .modelIncompatible(let violations)? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(violations.map(\.rule) == [1, 3, 13])
        #expect(violations.allSatisfy { !$0.hint.isEmpty })
        #expect(error?.localizedDescription.contains("deduplicate") == true)
        // Local stores are not checked.
        let folder = try TemporaryFolder()
        let local = StoreDescription(url: folder.url.appendingPathComponent("a.sqlite"))
        #expect(MirroredContainer(model: MirrorModel(entities: [broken]), stores: [local]).violations(for: local) == [])
    }

    @Test func aModelIsDerivedFromSwiftTypes() throws {
        let note = try #require(notesModel.entities["Note"])
        let types = Dictionary(uniqueKeysWithValues: note.attributes.map { ($0.name, $0.type) })
        #expect(
            types == [
                "title": .string, "body": .string, "done": .boolean, "stars": .integer, "weight": .double, "at": .date,
                "photo": .data, "link": .uri, "labels": .transformable,
            ]
        )
        #expect(note.attributes.filter(\.isOptional).map(\.name) == ["body", "at", "photo", "link"])
        #expect(note.relationships.map(\.name) == ["folder", "tags"])
        #expect(note.relationships.map(\.isToMany) == [false, true])
        #expect(note.relationships.map(\.inverse) == ["notes", "notes"])
    }
}
