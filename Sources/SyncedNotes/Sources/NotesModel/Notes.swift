public import Foundation
public import ZoneKit
public import ZoneMirror

/// A note.
public struct Note: SyncedRecord, Equatable {
    /// The name of the note's record.
    public var id = RecordName()
    /// What to do.
    public var title = ""
    /// Whether it is done.
    public var done = false

    /// Creates an empty note.
    public init() {}

    /// Creates a note that is to be done.
    public init(title: String) { self.title = title }
}

/// The user's notes on this device.
public final class Notes: Sendable {
    /// The mirror: a SQLite file that is kept in sync with the relay.
    public let container: MirroredContainer

    /// Opens the notes in a folder, and starts to sync them with the relay.
    public init(_ cloud: CKContainer, folder: URL) async throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let store = StoreDescription(
            url: folder.appendingPathComponent("notes.sqlite"),
            cloud: CloudOptions(container: cloud)
        )
        container = MirroredContainer(model: MirrorModel(Note.self), stores: [store])
        try await container.loadStores()
    }

    /// Adds a note.
    public func add(_ title: String) throws {
        let context = container.newBackgroundContext()
        try context.insert(Note(title: title))
        try context.save()
    }

    /// Marks a note as done, or no longer done.
    public func toggle(_ note: Note) throws {
        let context = container.newBackgroundContext()
        try context.edit(Note.self, note.id) { $0.done.toggle() }
        try context.save()
    }

    /// Deletes a note.
    public func delete(_ note: Note) throws {
        let context = container.newBackgroundContext()
        try context.delete(note)
        try context.save()
    }

    /// Returns all notes, by title.
    public func all() throws -> [Note] {
        try container.newBackgroundContext().fetch(Note.self, sortedBy: .ascending(\.title))
    }

    /// Returns the notes now and after each change, made here or on another device.
    public func changes() -> AsyncStream<[Note]> {
        container.newBackgroundContext().objects(Note.self, sortedBy: .ascending(\.title))
    }

    /// Waits until this device and the relay have the same notes.
    public func update() async throws { try await container.waitUntilUpToDate(timeout: .seconds(10)) }

    /// Ends syncing, and closes the file.
    public func close() async { await container.close() }
}
