import Foundation
import GRDB
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

private struct Tally: SyncedRecord {
    static let entityName = "Tally"
    var id = RecordName()
    var stars = 0
    var body: String?
    init() {}
}

/// The next version of `Tally`.
private struct LaterTally: SyncedRecord {
    static let entityName = "Tally"
    var id = RecordName()
    var stars: Int?
    var body = ""
    init() {}
}

/// Changed models, and several models for one file.
///
/// See FromCoreData.md, "Models change", and Sync.md, "Unknown records".
@Suite(.timeLimit(.minutes(15))) struct ModelChangeTests {
    let relay: TestRelay
    let folder: TemporaryFolder

    init() throws {
        relay = try TestRelay()
        folder = try TemporaryFolder()
    }

    private func device(_ name: String, _ model: MirrorModel, kept: Bool = false) async throws -> Mirrored {
        try await Mirrored(relay.device(of: "alice", named: name), model: model, folder: kept ? folder : nil)
    }

    // MARK: Other containers

    /// A widget opens the app's file with a smaller model; the changes of both are sent.
    @Test(arguments: [[Note.self, Folder.self, Tag.self], [Tally.self]] as [[any SyncedRecord.Type]])
    func aWidgetKeepsTheAppsPendingChanges(_ types: [any SyncedRecord.Type]) async throws {
        let app = try await device("app", MirrorModel(Note.self, Folder.self, Tag.self, Tally.self), kept: true)
        let entities = types.compactMap { MirrorModel($0).entities.values.first }
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let url = folder.url.appendingPathComponent("private.sqlite")
        let widget = MirroredContainer(
            model: MirrorModel(entities: entities),
            stores: [StoreDescription(url: url)],
            conditions: conditions
        )
        try await widget.loadStores()
        try app.save(Note(id: "n", title: "by the app"))
        let context = widget.newBackgroundContext()
        if types.count == 1 {
            try context.insert(Tally())
        } else {
            try context.insert(Note(id: "w", title: "by the widget"))
        }
        try context.save()
        #expect(try await app.container.pendingExportCount(app.store) == 2)
        try await app.sync()
        let other = try await device("other", notesModel)
        try await other.sync()
        #expect(try other.titles["n"] == "by the app")
        #expect(try other.titles["w"] == (types.count == 1 ? nil : "by the widget"))
        await widget.close()
        await app.container.close()
    }

    // MARK: Optional or not

    @Test func aPropertyCanBecomeOptionalOrNonOptional() async throws {
        let before = try await device("phone", MirrorModel(Tally.self), kept: true)
        var tally = Tally()
        (tally.id, tally.stars) = ("t", 3)
        let context = before.context()
        try context.insert(tally)
        try context.save()
        try await before.sync()
        await before.container.close()
        let phone = try await device("phone", MirrorModel(LaterTally.self), kept: true)
        let laptop = try await device("laptop", MirrorModel(LaterTally.self))
        try await laptop.sync()
        let there = laptop.context()
        // NULL values of the former version are read as the default.
        #expect(try phone.context().fetch(LaterTally.self).map(\.body) == [""])
        #expect(try phone.context().fetch(LaterTally.self, .sql("body = ''")).count == 1)
        try there.edit(LaterTally.self, "t") { $0.stars = nil }
        try there.save()
        try await laptop.sync()
        try await phone.sync()
        #expect(try phone.context().fetch(LaterTally.self).map(\.stars) == [nil])
        await phone.container.close()
        // Back to the former version.
        let after = try await device("phone", MirrorModel(Tally.self), kept: true)
        #expect(try after.context().fetch(Tally.self).map(\.stars) == [0])
    }

    // MARK: Other types

    private static let linkEntity: Entity = {
        var entity = Entity("Tally", attributes: [Attribute("stars", .integer)])
        entity.relationships = [
            Relationship("body", to: "Tally", isToMany: false, inverse: "bodies"),
            Relationship("bodies", to: "Tally", isToMany: true, inverse: "body"),
        ]
        return entity
    }()

    static let changedTypes: [(Entity, String)] = [
        (Entity("Tally", attributes: [Attribute("stars", .string), Attribute("body", .string)]), "Tally.stars"),
        (Entity("Tally", attributes: [Attribute("stars", .double)]), "Tally.stars"),
        (Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .data)]), "Tally.body"),
        (Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .date)]), "Tally.body"),
        (Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .integer)]), "Tally.body"),
        (linkEntity, "Tally.body"),
    ]

    @Test(
        "loading a store throws if the type of a property has changed",
        arguments: changedTypes,
        [true, false]
    )
    func aChangedTypeIsRefused(_ change: (entity: Entity, place: String), _ isMirrored: Bool) async throws {
        let url = folder.url.appendingPathComponent("private.sqlite")
        let device = relay.device(of: "alice", named: "phone")
        func container(_ model: MirrorModel) -> MirroredContainer {
            let cloud = isMirrored ? CloudOptions(container: device.container) : nil
            var conditions = MirrorConditions()
            conditions.isAutomatic = false
            let store = StoreDescription(url: url, cloud: cloud)
            return MirroredContainer(model: model, stores: [store], conditions: conditions)
        }
        let before = container(MirrorModel(Tally.self))
        try await before.loadStores()
        let context = before.newBackgroundContext()
        try context.insert(Tally())
        try context.save()
        await before.close()
        let after = container(MirrorModel(entities: [change.entity]))
        let error = await #expect(throws: MirrorError.self) { try await after.loadStores() }
        #expect(
            error?.localizedDescription.contains(change.place) == true,
            "\(error?.localizedDescription ?? "no error")"
        )
        await after.close()
        // The file is unchanged.
        let again = container(MirrorModel(LaterTally.self))
        try await again.loadStores()
        #expect(try again.newBackgroundContext().fetch(LaterTally.self).map(\.stars) == [0])
        await again.close()
    }

    @Test("a type may change to another with the same type on the relay")
    func aTypeWithTheSameRelayTypeIsAccepted() async throws {
        let types: [[AttributeType]] = [
            [.integer, .string, .data], [.boolean, .uri, .transformable], [.integer, .uuid, .data],
        ]
        for types in types {
            let attributes = zip(["a", "b", "c"], types).map { Attribute($0, $1) }
            let phone = try await device(
                "phone",
                MirrorModel(entities: [Entity("Form", attributes: attributes)]),
                kept: true
            )
            await phone.container.close()
        }
    }

    // MARK: Removed and added again

    /// A property was removed from the model for a while, so its stored value is outdated.
    @Test func aPropertyAddedAgainHasTheRelaysValue() async throws {
        let whole = Entity("Tally", attributes: [Attribute("stars", .integer), Attribute("body", .string)])
        let less = Entity("Tally", attributes: [Attribute("stars", .integer)])
        let laptop = try await device("laptop", MirrorModel(Tally.self))
        var tally = Tally()
        (tally.id, tally.body) = ("t", "old")
        let there = laptop.context()
        try there.insert(tally)
        try there.save()
        try await laptop.sync()
        for (entity, body) in [(whole, "new"), (less, "newest"), (whole, nil)] as [(Entity, String?)] {
            let phone = try await device("phone", MirrorModel(entities: [entity]), kept: true)
            if body == nil {
                let database = try #require(phone.container.database(of: phone.store))
                try await database.write { try $0.execute(sql: "UPDATE Tally SET stars = 5") }
            }
            try await phone.sync()
            await phone.container.close()
            guard let body else { break }
            try there.edit(Tally.self, "t") { $0.body = body }
            try there.save()
            try await laptop.sync()
            let again = try await device("phone", MirrorModel(entities: [entity]), kept: true)
            try await again.sync()
            await again.container.close()
        }
        try await laptop.sync()
        let found = try #require(try laptop.context().object(Tally.self, "t"))
        #expect(found.stars == 5 && found.body == "newest")
    }

    /// An entity was removed for a while: deletions and changes made meanwhile apply, and a pending change is merged.
    @Test func anEntityAddedAgainHasTheRelaysObjects() async throws {
        let both = MirrorModel(Note.self, Folder.self, Tag.self, Tally.self)
        let laptop = try await device("laptop", both)
        let there = laptop.context()
        for name in ["gone", "changed", "waiting"] {
            var tally = Tally()
            (tally.id, tally.body) = (RecordName(name), "old")
            try there.insert(tally)
        }
        try there.save()
        try await laptop.sync()
        let before = try await device("phone", both, kept: true)
        try await before.sync()
        let here = before.context()
        try here.edit(Tally.self, "waiting") { $0.stars = 7 }
        try here.save()
        await before.container.close()
        let without = try await device("phone", notesModel, kept: true)
        try there.delete(Tally.self, id: "gone")
        for name in ["changed", "waiting"] as [RecordName] { try there.edit(Tally.self, name) { $0.body = "new" } }
        try there.save()
        try await laptop.sync()
        try await without.container.fetchChanges()
        await without.container.close()
        let after = try await device("phone", both, kept: true)
        try await after.container.fetchChanges()
        try await after.sync()
        try await laptop.sync()
        for mirror in [after, laptop] {
            let tallies = try mirror.context().fetch(Tally.self)
            #expect(tallies.map(\.id) == ["changed", "waiting"])
            #expect(tallies.map(\.body) == ["new", "new"] && tallies.map(\.stars) == [0, 7])
        }
    }
}
