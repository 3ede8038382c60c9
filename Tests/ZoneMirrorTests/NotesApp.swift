import Foundation
import Testing
import ZoneKit
import ZoneMirror
import ZoneTesting

/// The sample of the articles: notes with memos, which can be shared.
struct SharedNote: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var memos = ToMany<Memo>(inverse: "note", deleteRule: .cascade)

    init() {}

    init(id: RecordName = RecordName(), title: String) {
        self.id = id
        self.title = title
    }

    static func describe(_ entity: inout Entity) { entity.displayAttribute = "title" }
}

/// A memo of a note.
struct Memo: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""
    var note = ToOne<SharedNote>(inverse: "memos")

    init() {}

    init(text: String, note: SharedNote) {
        self.text = text
        self.note = ToOne(note)
    }
}

/// A device with the sample app: a private store, and a shared store with the same options.
final class NotesApp: Sendable {
    let device: TestDevice
    let container: MirroredContainer
    let mine: StoreID
    let others: StoreID
    /// Deleted with the app, unless the test provides a folder.
    private let folder: TemporaryFolder?

    init(
        _ device: TestDevice,
        _ folder: URL? = nil,
        _ conditions: MirrorConditions? = nil,
        keepsCopies: Bool = false,
        policy: MergePolicy = .mergeByPropertyObjectTrump
    ) async throws {
        self.device = device
        let own = try folder == nil ? TemporaryFolder() : nil
        self.folder = own
        let home = folder ?? own?.url ?? URL(fileURLWithPath: "/")
        var mine = StoreDescription(
            url: home.appendingPathComponent("private.sqlite"),
            cloud: CloudOptions(container: device.container)
        )
        mine.cloud?.mergePolicy = policy
        var others = mine
        others.url = home.appendingPathComponent("shared.sqlite")
        others.cloud?.scope = .shared
        if keepsCopies { others.cloud?.losingAccess = .keepCopy(in: mine.url) }
        var given = conditions ?? MirrorConditions()
        given.isAutomatic = false
        let model = MirrorModel(SharedNote.self, Memo.self)
        container = MirroredContainer(model: model, stores: [mine, others], conditions: given)
        self.mine = container.store(at: mine.url)
        self.others = container.store(at: others.url)
        try await container.loadStores()
    }

    func context() -> MirrorContext {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        return context
    }

    func sync() async throws {
        try await container.sendChanges()
        try await container.fetchChanges()
    }

    var note: SharedNote? { get throws { try context().fetch(SharedNote.self).first } }

    var memos: [String] {
        get throws {
            let context = context()
            guard let note = try context.fetch(SharedNote.self).first else { return [] }
            return try context.related(to: note, \.memos, sortedBy: .ascending(\.text)).map(\.text)
        }
    }

    func id(_ note: SharedNote) throws -> ObjectID { try context().objectID(of: note) }

    func addMemo(_ text: String) throws {
        let context = context()
        let note = try #require(try context.fetch(SharedNote.self).first)
        try context.insert(Memo(text: text, note: note))
        try context.save()
    }

    /// The badges that the app shows next to a note.
    func badges(_ note: SharedNote) async throws -> (isShared: Bool, isOwner: Bool, canEdit: Bool) {
        let id = try id(note)
        let share = try await container.fetchShares(matching: [id])[id]
        return (share != nil, share?.isOwner ?? true, container.canUpdateRecord(for: id))
    }
}

/// An owner with two devices, and a participant with one.
struct Household {
    let relay: TestRelay
    let phone: NotesApp
    let laptop: NotesApp
    let bob: NotesApp

    /// Creates an unshared note with a memo on the owner's devices.
    init(note: RecordName = "trip", memo: String) async throws {
        relay = try TestRelay()
        phone = try await NotesApp(relay.device(of: "alice@example.org", named: "phone"))
        laptop = try await NotesApp(relay.device(of: "alice@example.org", named: "laptop"))
        bob = try await NotesApp(relay.device(of: "bob@example.org", named: "tablet"))
        try makeNote(note, memo: memo)
        for app in [phone, laptop] { try await app.sync() }
    }

    func makeNote(_ name: RecordName, memo: String) throws {
        let context = phone.context()
        let note = SharedNote(id: name, title: name.text)
        try context.insert(note)
        try context.insert(Memo(text: memo, note: note))
        try context.save()
    }

    /// Shares a note by a public link on the owner's phone, and joins as the participant.
    @discardableResult
    func share(_ name: RecordName = "trip") async throws -> CKShare {
        let note = ObjectID(store: phone.mine, entity: "SharedNote", name: name)
        let (_, share, _) = try await phone.container.share([note], publicPermission: .readWrite)
        try await bob.container.acceptShareInvitations(from: [try #require(share.url)], into: bob.others)
        return share
    }
}
