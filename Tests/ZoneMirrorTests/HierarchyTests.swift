import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A list of an application that shares single records with their children.
struct Basket: SyncedRecord, Equatable {
    var id = RecordName()
    var name = ""
    var favourite = ToOne<Ware>(inverse: "favouriteOf")
    var wares = ToMany<Ware>(inverse: "basket")
    var shelves = ToMany<Shelf>(inverse: "basket")

    init() {}

    init(id: RecordName, name: String) {
        self.id = id
        self.name = name
    }
}

/// A part of a basket.
struct Shelf: SyncedRecord, Equatable {
    var id = RecordName()
    var name = ""
    var basket = ToOne<Basket>(inverse: "shelves")
    var wares = ToMany<Ware>(inverse: "shelf")
}

/// An item in a basket.
struct Ware: SyncedRecord, Equatable {
    var id = RecordName()
    var name = ""
    var basket = ToOne<Basket>(inverse: "wares")
    var shelf = ToOne<Shelf>(inverse: "wares")
    var favouriteOf = ToOne<Basket>(inverse: "favourite")

    init() {}

    init(id: RecordName, name: String, in basket: Basket? = nil) {
        self.id = id
        self.name = name
        if let basket { self.basket = ToOne(basket) }
    }
}

/// A mirror that joins shares of one record with its children, which apps using CloudKit directly create.
@Suite(.timeLimit(.minutes(15))) struct HierarchyTests {
    let relay: TestRelay
    let owner: CKDatabase
    let zone = CKRecordZone.ID(zoneName: "Baskets")

    init() throws {
        relay = try TestRelay()
        owner = relay.device(of: "alice@example.org", named: "owner").privateDatabase
    }

    /// Bob's mirror with two baskets that Alice shares with him separately from one zone.
    private func bob(
        keepsCopies: Bool = false
    ) async throws -> (container: MirroredContainer, folder: TemporaryFolder) {
        try await owner.save(CKRecordZone(zoneID: zone))
        var shares: [CKShare] = []
        for name in ["party", "picnic"] {
            let root = CKRecord(recordType: "Basket", recordID: .init(recordName: name, zoneID: zone))
            root["name"] = name
            let share = CKShare(rootRecord: root)
            share.publicPermission = .readWrite
            _ = try await owner.modifyRecords(saving: [root, share], deleting: [])
            shares.append(try #require(try await owner.record(for: share.recordID) as? CKShare))
        }
        let device = relay.device(of: "bob@example.org", named: "bob")
        let folder = try TemporaryFolder()
        var cloud = CloudOptions(container: device.container)
        cloud.usesPrefix = false
        let mine = StoreDescription(url: folder.url.appendingPathComponent("private.sqlite"), cloud: cloud)
        var theirs = mine
        theirs.url = folder.url.appendingPathComponent("shared.sqlite")
        theirs.cloud?.scope = .shared
        if keepsCopies { theirs.cloud?.losingAccess = .keepCopy(in: mine.url) }
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let model = MirrorModel(Basket.self, Shelf.self, Ware.self)
        let container = MirroredContainer(model: model, stores: [mine, theirs], conditions: conditions)
        try await container.loadStores()
        let links = shares.compactMap(\.url)
        try await container.acceptShareInvitations(from: links, into: container.store(at: theirs.url))
        return (container, folder)
    }

    private func parent(of name: String) async throws -> String? {
        try await owner.record(for: CKRecord.ID(recordName: name, zoneID: zone)).parent?.recordID.recordName
    }

    @Test func newObjectsJoinTheHierarchyTheyAreLinkedTo() async throws {
        let (container, folder) = try await bob()
        defer { withExtendedLifetime(folder) {} }
        let context = container.newBackgroundContext()
        let baskets = try context.fetch(Basket.self, sortedBy: .ascending(\.name))
        #expect(baskets.map(\.name) == ["party", "picnic"])
        // By a link to a shared or to a new object; children are inserted before their parents.
        var shelf = Shelf()
        (shelf.id, shelf.basket) = ("shelf", ToOne(baskets[1]))
        var deep = Ware(id: "a deep one", name: "plums")
        deep.shelf = ToOne(shelf)
        try context.insert(deep)
        try context.insert(shelf)
        try context.insert(Ware(id: "flat", name: "cheese", in: baskets[0]))
        // By a link from an object of the hierarchy.
        try context.insert(Ware(id: "favourite", name: "cake"))
        try context.edit(Basket.self, "party") { $0.favourite = ToOne<Ware>("favourite") }
        // By explicit assignment.
        let loose = Ware(id: "loose", name: "bread")
        try context.insert(loose)
        let shared = container.store(at: folder.url.appendingPathComponent("shared.sqlite"))
        let picnic = ObjectID(store: shared, entity: "Basket", name: "picnic")
        let share = try #require(try await container.fetchShares(matching: [picnic])[picnic])
        try context.assign(loose, to: share)
        try context.save()
        try await container.sendChanges()
        #expect(try await parent(of: "flat") == "party")
        #expect(try await parent(of: "shelf") == "picnic")
        #expect(try await parent(of: "a deep one") == "shelf")
        #expect(try await parent(of: "favourite") == "party")
        #expect(try await parent(of: "loose") == "picnic")
        #expect(try await container.rejectedWrites(shared).isEmpty)
        #expect(try await container.pendingExportCount(shared) == 0)
        // An edit does not change the parent.
        try context.edit(Ware.self, "flat") { $0.name = "more cheese" }
        try context.save()
        try await container.sendChanges()
        #expect(try await parent(of: "flat") == "party")
    }

    /// A model with a parent relationship creates hierarchies, which an app using CloudKit directly can share.
    @Test func aModelCanDeclareTheParentRelationship() async throws {
        var ware = MirrorModel(Ware.self, Basket.self, Shelf.self).entities["Ware"] ?? Entity("Ware")
        ware.relationship("basket") { $0.isParent = true }
        let plain = MirrorModel(Basket.self, Shelf.self)
        let model = MirrorModel(entities: [ware] + plain.names.compactMap { plain.entities[$0] })
        let device = relay.device(of: "alice@example.org", named: "phone")
        let phone = try await Mirrored(device, model: model) {
            $0.cloud?.usesPrefix = false
            $0.cloud?.zoneName = "Baskets"
        }
        let context = phone.context()
        let (one, two) = (Basket(id: "one", name: "1"), Basket(id: "two", name: "2"))
        try context.insert(Ware(id: "ware", name: "cheese", in: one))
        try context.insert(one)
        try context.insert(two)
        try context.save()
        try await phone.sync()
        #expect(try await parent(of: "ware") == "one")
        try context.edit(Ware.self, "ware") { $0.basket = ToOne(two) }
        try context.save()
        try await phone.sync()
        #expect(try await parent(of: "ware") == "two")
        try context.edit(Ware.self, "ware") { $0.basket.target = nil }
        try context.save()
        try await phone.sync()
        #expect(try await parent(of: "ware") == nil)
        #expect(try await phone.container.pendingExportCount(phone.store) == 0)
    }

    /// Ending the share of one record affects no other records in its zone, shared or not.
    @Test func endingOneShareKeepsTheRestOfTheZone() async throws {
        let (container, folder) = try await bob()
        defer { withExtendedLifetime(folder) {} }
        let own = relay.device(of: "alice@example.org", named: "mirror")
        let home = try TemporaryFolder()
        var cloud = CloudOptions(container: own.container)
        (cloud.usesPrefix, cloud.zoneName) = (false, zone.zoneName)
        let description = StoreDescription(url: home.url.appendingPathComponent("private.sqlite"), cloud: cloud)
        var conditions = MirrorConditions()
        conditions.isAutomatic = false
        let model = MirrorModel(Basket.self, Shelf.self, Ware.self)
        let alice = MirroredContainer(model: model, stores: [description], conditions: conditions)
        try await alice.loadStores()
        let store = alice.store(at: description.url)
        try await alice.fetchChanges()
        let party = ObjectID(store: store, entity: "Basket", name: "party")
        let share = try #require(try await alice.fetchShares(matching: [party])[party])
        try await alice.stopSharing(share, in: store)
        #expect(try await alice.fetchShares(in: store).map(\.title).count == 1)
        let names = try alice.newBackgroundContext().fetch(Basket.self, sortedBy: .ascending(\.name)).map(\.name)
        #expect(names == ["party", "picnic"])
        let page = try await owner.recordZoneChanges(inZoneWith: zone, since: nil)
        let left = page.modificationResultsByID.keys.map(\.recordName)
        #expect(left.filter { !$0.hasPrefix("Share-") }.sorted() == names)
        try await container.fetchChanges()
        #expect(try container.newBackgroundContext().fetch(Basket.self).map(\.name) == ["picnic"])
    }

    // MARK: Copies after losing access

    private func save(_ name: String, below parent: String?) async throws {
        let record = CKRecord(recordType: "Ware", recordID: .init(recordName: name, zoneID: zone))
        record["name"] = name
        record["basket"] = parent
        if let parent { record.parent = .init(recordID: .init(recordName: parent, zoneID: zone), action: .none) }
        _ = try await owner.modifyRecords(saving: [record], deleting: [])
    }

    private func names(_ container: MirroredContainer) throws -> [String] {
        let context = container.newBackgroundContext()
        return try (context.fetch(Basket.self).map(\.name) + context.fetch(Ware.self).map(\.name)).sorted()
    }

    @Test("when one of two shared hierarchies ends, its objects are kept as copies")
    func oneOfTwoEnds() async throws {
        let (container, folder) = try await bob(keepsCopies: true)
        defer { withExtendedLifetime(folder) {} }
        try await save("plums", below: "party")
        try await container.fetchChanges()
        #expect(try names(container) == ["party", "picnic", "plums"])
        let root = try await owner.record(for: CKRecord.ID(recordName: "party", zoneID: zone))
        try await owner.deleteRecord(withID: try #require(root.share?.recordID))
        for _ in 0..<2 { try await container.fetchChanges() }
        #expect(try names(container) == ["party", "picnic", "plums"])
        let context = container.newBackgroundContext()
        let copy = try #require(try context.fetch(Ware.self).first)
        let basket = try #require(try context.fetch(Basket.self).first { $0.name == "party" })
        #expect(copy.id != "plums" && basket.id != "party" && copy.basket.target == basket.id)
        let mine = container.store(at: folder.url.appendingPathComponent("private.sqlite"))
        #expect(try context.store(of: basket) == mine)
        #expect(try context.object(Basket.self, "picnic") != nil)
    }

    @Test("a record removed from a shared hierarchy is kept as a copy, and a deleted one is not")
    func removedOrDeleted() async throws {
        let (container, folder) = try await bob(keepsCopies: true)
        defer { withExtendedLifetime(folder) {} }
        for name in ["plums", "cake"] { try await save(name, below: "party") }
        try await container.fetchChanges()
        let plums = try await owner.record(for: CKRecord.ID(recordName: "plums", zoneID: zone))
        plums.parent = nil
        try await owner.save(plums)
        try await owner.deleteRecord(withID: .init(recordName: "cake", zoneID: zone))
        try await container.fetchChanges()
        #expect(try names(container) == ["party", "picnic", "plums"])
        #expect(try container.newBackgroundContext().object(Ware.self, "plums") == nil)
    }
}
