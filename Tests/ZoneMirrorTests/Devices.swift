import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// A note in a folder, with tags.
struct Note: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var body: String?
    var done = false
    var stars = 0
    var weight = 0.0
    var at: Date?
    var photo: Data?
    var link: URL?
    var labels: [String] = []
    var folder = ToOne<Folder>(inverse: "notes")
    var tags = ToMany<Tag>(inverse: "notes")

    init() {}

    init(id: RecordName = RecordName(), title: String, done: Bool = false) {
        self.id = id
        self.title = title
        self.done = done
    }

    static func describe(_ entity: inout Entity) {
        entity.attribute("title") { $0.preservesValueOnDeletion = true }
    }
}

struct Folder: SyncedRecord, Equatable {
    var id = RecordName()
    var name = ""
    var notes = ToMany<Note>(inverse: "folder")

    init() {}

    init(id: RecordName = RecordName(), name: String) {
        self.id = id
        self.name = name
    }
}

struct Tag: SyncedRecord, Equatable {
    var id = RecordName()
    var word = ""
    var notes = ToMany<Note>(inverse: "tags")

    init() {}

    init(word: String) { self.word = word }
    init(id: RecordName) { self.id = id }
}

let notesModel = MirrorModel(Note.self, Folder.self, Tag.self)

/// A temporary folder, which is deleted with the object.
final class TemporaryFolder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appendingPathComponent("mirror-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }
}

/// A device with a mirrored container, by default without automatic sync.
final class Mirrored: Sendable {
    let device: TestDevice
    let folder: TemporaryFolder
    let container: MirroredContainer
    let store: StoreID

    init(
        _ device: TestDevice,
        model: MirrorModel = notesModel,
        scope: CKDatabase.Scope = .private,
        folder: TemporaryFolder? = nil,
        isAutomatic: Bool = false,
        conditions: MirrorConditions = MirrorConditions(),
        _ change: (inout StoreDescription) -> Void = { _ in }
    ) async throws {
        self.device = device
        let home = try folder ?? TemporaryFolder()
        self.folder = home
        var description = StoreDescription(
            url: home.url.appendingPathComponent("\(scope).sqlite"),
            cloud: CloudOptions(container: device.container, scope: scope)
        )
        change(&description)
        var conditions = conditions
        conditions.isAutomatic = isAutomatic
        container = MirroredContainer(model: model, stores: [description], conditions: conditions)
        store = container.store(at: description.url)
        try await container.loadStores()
    }

    /// A context that by default merges with unknown changes rather than overwriting them.
    func context(_ policy: MergePolicy = .mergeByPropertyObjectTrump) -> MirrorContext {
        let context = container.newBackgroundContext()
        context.mergePolicy = policy
        return context
    }

    func save(_ notes: Note...) throws {
        let context = context()
        for note in notes { try context.insert(note) }
        try context.save()
    }

    var titles: [String: String] {
        get throws {
            let notes = try context().fetch(Note.self)
            return Dictionary(uniqueKeysWithValues: notes.map { ($0.id.text, $0.title) })
        }
    }

    /// Sends, then fetches.
    func sync() async throws {
        try await container.sendChanges()
        try await container.fetchChanges()
    }
}
