import CloudKit
import Testing
import ZoneTesting

// The thin layer that nearly every program has between its models and its records: keys as an enumeration, names as
// constants, a protocol with a few generic calls, and archives in the format of the first years.

extension CKRecord.RecordType { fileprivate static let recipe = "Recipe" }
extension CKRecordZone.ID { fileprivate static let kitchen = CKRecordZone.ID(zoneName: "Kitchen") }
extension CKRecordZone { fileprivate static let kitchen = CKRecordZone(zoneID: .kitchen) }
extension CKQuery {
    fileprivate static func newest(_ type: CKRecord.RecordType, since date: Date = .distantPast) -> CKQuery {
        let query = CKQuery(recordType: type, predicate: NSPredicate(format: "modificationDate > %@", date as CVarArg))
        query.sortDescriptors = [NSSortDescriptor(key: "modificationDate", ascending: false)]
        return query
    }
}

private protocol RecordModel: Identifiable, Hashable, Sendable where ID == String {
    associatedtype Key: RawRepresentable, CaseIterable where Key.RawValue == String
    static var recordType: CKRecord.RecordType { get }
    init(record: CKRecord) throws
    func write(to record: CKRecord)
}

private struct MissingField: Error, Equatable { var name: String }

extension CKRecord {
    fileprivate subscript<Key: RawRepresentable>(key: Key) -> (any CKRecordValueProtocol)? where Key.RawValue == String
    {
        get { self[key.rawValue] }
        set { self[key.rawValue] = newValue }
    }

    fileprivate subscript<Key: RawRepresentable, Value: CKRecordValueProtocol>(key: Key) -> Value?
    where Key.RawValue == String {
        self[key.rawValue] as? Value
    }

    fileprivate func required<Value: CKRecordValueProtocol>(_ key: String) throws -> Value {
        guard let value: Value = self[key] else { throw MissingField(name: key) }
        return value
    }

    /// Encodes as programs did before iOS 12.
    fileprivate var systemFields: Data {
        let data = NSMutableData()
        let archiver = NSKeyedArchiver(forWritingWith: data)
        archiver.requiresSecureCoding = true
        encodeSystemFields(with: archiver)
        archiver.finishEncoding()
        return data as Data
    }

    fileprivate static func read(_ systemFields: Data) throws -> CKRecord? {
        let unarchiver = try NSKeyedUnarchiver(forReadingFrom: systemFields)
        unarchiver.requiresSecureCoding = true
        defer { unarchiver.finishDecoding() }
        return CKRecord(coder: unarchiver)
    }
}

extension RecordModel {
    fileprivate var recordID: CKRecord.ID { CKRecord.ID(recordName: id, zoneID: .kitchen) }
    fileprivate var record: CKRecord {
        let record = CKRecord(recordType: Self.recordType, recordID: recordID)
        write(to: record)
        return record
    }
}

extension CKDatabase {
    fileprivate func all<Model: RecordModel>(_ type: Model.Type, page: Int = 3) async throws -> [Model] {
        var models: [Model] = []
        var cursor: CKQueryOperation.Cursor?
        repeat {
            let results: [(CKRecord.ID, Result<CKRecord, Error>)]
            if let current = cursor {
                (results, cursor) = try await records(continuingMatchFrom: current, resultsLimit: page)
            } else {
                (results, cursor) = try await records(
                    matching: .newest(Model.recordType),
                    inZoneWith: .kitchen,
                    resultsLimit: page
                )
            }
            models += try results.map { try Model(record: $0.1.get()) }
        } while cursor != nil
        return models
    }

    fileprivate func upsert<Model: RecordModel>(_ models: some Sequence<Model>) async throws {
        let found = try await records(for: models.map(\.recordID))
        let records = models.map { model in
            guard let existing = try? found[model.recordID]?.get() else { return model.record }
            model.write(to: existing)
            return existing
        }
        let (saved, _) = try await modifyRecords(saving: records, deleting: [])
        for case .failure(let error) in saved.values { throw error }
    }

    /// Changes a record and retries on conflicts with other devices.
    fileprivate func update(_ id: CKRecord.ID, tries: Int = 50, _ change: (CKRecord) -> Void) async throws {
        var record = try await record(for: id)
        for _ in 0..<tries {
            change(record)
            do {
                return _ = try await save(record)
            } catch let error as CKError where error.code == .serverRecordChanged {
                guard let server = error.serverRecord, let client = error.clientRecord, error.ancestorRecord != nil
                else {
                    throw error
                }
                #expect(client === record && server !== record)
                record = server
            }
        }
        throw CKError(.serverRecordChanged)
    }
}

private struct Recipe: RecordModel {
    enum Key: String, CaseIterable { case title, minutes, tags, rating, cooked }
    static let recordType = CKRecord.RecordType.recipe

    var id = UUID().uuidString
    var title: String
    var minutes: Int
    var tags: [String] = []
    var rating: Double?
    var cooked: Date?

    init(title: String, minutes: Int) { (self.title, self.minutes) = (title, minutes) }

    init(record: CKRecord) throws {
        id = record.recordID.recordName
        title = try record.required("title")
        minutes = try record.required("minutes")
        tags = record[Key.tags] ?? []
        rating = record[Key.rating]
        cooked = record[Key.cooked] as? Date
    }

    func write(to record: CKRecord) {
        record[Key.title] = title
        record[Key.minutes] = minutes
        record[Key.tags] = tags.isEmpty ? nil : tags
        record[Key.rating] = rating
        record[Key.cooked] = cooked
    }
}

/// The model of a view.
///
/// Its handlers run elsewhere and hop to the main actor.
@MainActor private final class RecipeList {
    private(set) var titles: [String] = []
    private(set) var message: String?

    func load(_ database: CKDatabase) async {
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            database.fetch(withQuery: .newest(.recipe), inZoneWith: .kitchen) { result in
                Task { @MainActor in
                    switch result {
                    case .success(let page): self.titles = page.matchResults.compactMap { try? $0.1.get()["title"] }
                    case .failure(let error): self.message = error.localizedDescription
                    }
                    done.resume()
                }
            }
        }
    }
}

@Suite(.timeLimit(.minutes(15))) struct ModelLayerTests {
    private let relay: TestRelay
    private let database: CKDatabase

    init() async throws {
        relay = try TestRelay()
        database = relay.device(of: "alice").privateDatabase
        _ = try await database.save(CKRecordZone.kitchen)
    }

    @Test func modelsAreSavedAndFetched() async throws {
        var recipes = (1...7).map { Recipe(title: "Soup \($0)", minutes: $0 * 10) }
        try await database.upsert(recipes)
        #expect(try await Set(database.all(Recipe.self)) == Set(recipes))
        recipes[0].rating = 4.5
        recipes[0].tags = ["hot"]
        recipes[1].cooked = Date(timeIntervalSince1970: 1_000)
        try await database.upsert(recipes)
        #expect(try await Set(database.all(Recipe.self)) == Set(recipes))
        recipes[0].rating = nil
        recipes[0].tags = []
        try await database.upsert(recipes.prefix(1))
        let read = try await database.record(for: recipes[0].recordID)
        #expect(try Recipe(record: read) == recipes[0] && read[Recipe.Key.tags] == nil)
        #expect(throws: MissingField(name: "title")) { try Recipe(record: CKRecord(recordType: .recipe)) }
        let list = await RecipeList()
        await list.load(database)
        #expect(await list.titles.count == 7)
        #expect(await list.message == nil)
        let quick = NSPredicate(format: "minutes <= %d", 20)
        let records = recipes.map(\.record)
        #expect((records as NSArray).filtered(using: quick).count == 2)
        #expect(records.filter(quick.evaluate(with:)).count == 2)
    }

    @Test func concurrentUpdatesFromManyDevicesAllCount() async throws {
        let recipe = Recipe(title: "Soup", minutes: 0)
        try await database.save(recipe.record)
        let id = recipe.recordID
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                let database = relay.device(of: "alice", named: "device\(number)").privateDatabase
                group.addTask {
                    for _ in 0..<5 {
                        try await database.update(id) { $0["minutes"] = ($0["minutes"] as? Int ?? 0) + 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(try await database.record(for: id)["minutes"] as? Int == 20)
    }

    @Test func archivesInTheOldFormatAreRead() async throws {
        let recipe = Recipe(title: "Soup", minutes: 5)
        let saved = try await database.save(recipe.record)
        let again = try #require(try CKRecord.read(saved.systemFields))
        #expect(again.recordID == saved.recordID && again.recordChangeTag == saved.recordChangeTag)
        #expect(again.allKeys().isEmpty && again.changedKeys().isEmpty && again.creationDate == saved.creationDate)
        #expect(again.modificationDate == saved.modificationDate && again.recordType == .recipe)
        again["minutes"] = 6
        try await database.save(again)
        let read = try await database.record(for: recipe.recordID)
        #expect(read["title"] as? String == "Soup" && read["minutes"] as? Int == 6)
        // Without secure coding, with all values, and for a record that was never saved.
        let whole = try NSKeyedArchiver.archivedData(withRootObject: read, requiringSecureCoding: false)
        let copy = try NSKeyedUnarchiver.unarchivedObject(ofClass: CKRecord.self, from: whole)
        #expect(copy?["title"] as? String == "Soup" && copy?.changedKeys().isEmpty == true)
        let fresh = try #require(try CKRecord.read(recipe.record.systemFields))
        #expect(fresh.recordChangeTag == nil && fresh.creationDate == nil)
    }

    @Test func anEngineStateSurvivesAnyCodableFormat() async throws {
        final class Quiet: CKSyncEngineDelegate, @unchecked Sendable {
            var state: CKSyncEngine.State.Serialization?
            func handleEvent(_ event: CKSyncEngine.Event, syncEngine: CKSyncEngine) async {
                if case .stateUpdate(let update) = event { state = update.stateSerialization }
            }
            func nextRecordZoneChangeBatch(
                _ context: CKSyncEngine.SendChangesContext,
                syncEngine: CKSyncEngine
            ) async -> CKSyncEngine.RecordZoneChangeBatch? { nil }
        }
        struct Kept: Codable { var version = 1, state: CKSyncEngine.State.Serialization? }
        let delegate = Quiet()
        func engine(_ state: CKSyncEngine.State.Serialization?) -> CKSyncEngine {
            var configuration = CKSyncEngine.Configuration(
                database: database,
                stateSerialization: state,
                delegate: delegate
            )
            configuration.automaticallySync = false
            return CKSyncEngine(configuration)
        }
        let first = engine(nil)
        first.state.add(pendingRecordZoneChanges: [.saveRecord(Recipe(title: "a", minutes: 1).recordID)])
        first.state.add(pendingDatabaseChanges: [.saveZone(CKRecordZone(zoneName: "More"))])
        try await first.fetchChanges()
        let told: CKSyncEngine.State.Serialization = try #require(delegate.state)
        let kept = Kept(state: told)
        let list = try PropertyListDecoder().decode(Kept.self, from: PropertyListEncoder().encode(kept))
        let json = try JSONDecoder().decode(Kept.self, from: JSONEncoder().encode(kept))
        for state in [list.state, json.state] {
            let next = engine(state)
            #expect(next.state.pendingRecordZoneChanges == first.state.pendingRecordZoneChanges)
            #expect(next.state.pendingDatabaseChanges.map(\.zoneID.zoneName) == ["More"])
        }
    }
}
