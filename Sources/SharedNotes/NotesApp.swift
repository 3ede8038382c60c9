import Foundation
import ZoneKit
import ZoneMirror

/// A note; sharing or deleting it includes its memos.
struct Note: SyncedRecord, Equatable {
    var id = RecordName()
    var title = ""
    var memos = ToMany<Memo>(inverse: "note", deleteRule: .cascade)

    init() {}

    init(title: String) { self.title = title }

    /// A share of a note has the note's title.
    static func describe(_ entity: inout Entity) { entity.displayAttribute = "title" }
}

/// A line on a note, written by any participant with write permission.
struct Memo: SyncedRecord, Equatable {
    var id = RecordName()
    var text = ""
    var note = ToOne<Note>(inverse: "memos")

    init() {}

    init(_ text: String, on note: Note) {
        self.text = text
        self.note = ToOne(note)
    }
}

/// The app's model: notes with memos, the user's own and those shared by others.
///
/// Reads and writes are local and return at once; changes of others arrive on their own. Only sharing waits for the
/// relay.
final class NotesApp: Sendable {
    /// The sharing state that is displayed with a note.
    struct Badges: Equatable, Sendable {
        var isShared: Bool
        var isOwner: Bool
        var canEdit: Bool
    }

    private let container: MirroredContainer
    private let privateStore: StoreID
    private let sharedStore: StoreID

    /// Opens the two stores in a folder and starts syncing them.
    init(_ cloud: CKContainer, folder: URL) async throws {
        let mine = StoreDescription(
            url: folder.appendingPathComponent("private.sqlite"),
            cloud: CloudOptions(container: cloud)
        )
        var theirs = mine
        theirs.url = folder.appendingPathComponent("shared.sqlite")
        theirs.cloud?.scope = .shared
        container = MirroredContainer(model: MirrorModel(Note.self, Memo.self), stores: [mine, theirs])
        privateStore = container.store(at: mine.url)
        sharedStore = container.store(at: theirs.url)
        try await container.loadStores()
    }

    func close() async { await container.close() }

    // MARK: Notes and memos

    func notes() throws -> [Note] { try context().fetch(Note.self, sortedBy: .ascending(\.title)) }

    func note(_ title: String) throws -> Note? { try context().fetch(Note.self, \.title == title).first }

    func memos(of note: Note) throws -> [String] {
        try context().related(to: note, \.memos, sortedBy: .ascending(\.text)).map(\.text)
    }

    /// Returns the notes now and after each change, local or remote.
    func changes() -> AsyncStream<[Note]> { context().objects(Note.self, sortedBy: .ascending(\.title)) }

    func addNote(_ title: String) throws {
        let context = context()
        try context.insert(Note(title: title))
        try context.save()
    }

    /// Adds a memo to a note; on a shared note, the memo becomes part of the share.
    ///
    /// - Throws: `NotesError` if the note is read-only.
    func addMemo(_ text: String, to note: Note) throws {
        guard canEdit(note) else {
            throw NotesError("\"\(note.title)\" is read-only. Ask its owner for write permission.")
        }
        let context = context()
        try context.insert(Memo(text, on: note))
        try context.save()
    }

    // MARK: Sharing

    func badges(of note: Note) async throws -> Badges {
        let share = try await share(of: note)
        return Badges(isShared: share != nil, isOwner: share?.isOwner ?? true, canEdit: canEdit(note))
    }

    func canEdit(_ note: Note) -> Bool {
        guard let id = try? context().objectID(of: note) else { return false }
        return container.canUpdateRecord(for: id)
    }

    /// Shares a note and its memos.
    ///
    /// - Parameters:
    ///   - note: One of the user's own notes; if it is shared already, adds a participant.
    ///   - email: The address to invite; `nil`: anyone with the link can join.
    ///   - permission: What the participants may do.
    /// - Returns: The link to hand out.
    /// - Throws: The relay's error.
    func share(_ note: Note, with email: String?, _ permission: CKShare.ParticipantPermission) async throws -> URL? {
        let share: CKShare
        if let known = try await self.share(of: note) {
            share = known
        } else {
            let id = try context().objectID(of: note)
            share = try await container.share([id], title: note.title).share
        }
        if let email {
            share.addParticipant(emailAddress: email, permission: permission)
        } else {
            share.publicPermission = permission
        }
        return try await container.persistUpdatedShare(share, in: privateStore).url
    }

    /// Accepts an invitation link; the note is in the store when this returns.
    func accept(_ link: URL) async throws {
        try await container.acceptShareInvitations(from: [link], into: sharedStore)
    }

    /// Ends the user's own share, whose note stays, or leaves another user's share, whose note is removed.
    func stopSharing(_ note: Note) async throws {
        guard let share = try await share(of: note) else {
            throw NotesError("\"\(note.title)\" is not shared.")
        }
        if share.isOwner {
            try await container.stopSharing(share, in: privateStore)
        } else {
            try await container.leaveShare(share, in: sharedStore)
        }
    }

    /// Waits until all local changes are on the relay and all remote changes are here.
    func update() async throws { try await container.waitUntilUpToDate(timeout: .seconds(5)) }

    private func share(of note: Note) async throws -> CKShare? {
        let id = try context().objectID(of: note)
        return try await container.fetchShares(matching: [id])[id]
    }

    private func context() -> MirrorContext {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        return context
    }
}

/// An error with a sentence for the user.
struct NotesError: LocalizedError, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    var errorDescription: String? { description }
}
