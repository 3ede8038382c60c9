import Foundation
import ZoneKit
import ZoneMirror

/// The app without its screen: notes with memos, one's own and those that others share.
///
/// Reads and writes are local and return at once; what others do arrives by itself. Only sharing waits for the relay.
final class NotesApp: Sendable {
    /// What is shown beside a note.
    struct Badges: Equatable, Sendable {
        var isShared: Bool
        var isOwner: Bool
        var canEdit: Bool
    }

    private let container: MirroredContainer
    private let own: StoreID
    private let others: StoreID

    /// Opens the two files in a folder, and begins to sync them.
    init(_ cloud: CKContainer, folder: URL) async throws {
        let mine = StoreDescription(
            url: folder.appendingPathComponent("private.sqlite"),
            cloud: CloudOptions(container: cloud)
        )
        var theirs = mine
        theirs.url = folder.appendingPathComponent("shared.sqlite")
        theirs.cloud?.scope = .shared
        container = MirroredContainer(model: MirrorModel(Note.self, Memo.self), stores: [mine, theirs])
        own = container.store(at: mine.url)
        others = container.store(at: theirs.url)
        try await container.loadStores()
    }

    func close() async { await container.close() }

    // MARK: Notes and memos

    func notes() throws -> [Note] { try context().fetch(Note.self, sortedBy: .ascending(\.title)) }

    func note(_ title: String) throws -> Note? { try context().fetch(Note.self, \.title == title).first }

    func memos(of note: Note) throws -> [String] {
        try context().related(to: note, \.memos, sortedBy: .ascending(\.text)).map(\.text)
    }

    /// What the notes are, now and after each change, whoever made it.
    func changes() -> AsyncStream<[Note]> { context().objects(Note.self, sortedBy: .ascending(\.title)) }

    func addNote(_ title: String) throws {
        let context = context()
        try context.insert(Note(title: title))
        try context.save()
    }

    /// Writes a memo on a note: on a shared one it goes into the share, whoever's it is.
    ///
    /// Throws where the note can only be read.
    func addMemo(_ text: String, to note: Note) throws {
        guard canEdit(note) else {
            throw NotesFailure("\"\(note.title)\" can only be read. Ask its owner for the right to write.")
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
    ///   - note: One's own note; shared already, one more person is let in.
    ///   - email: Who is invited; `nil`: whoever has the link.
    ///   - permission: What they may do.
    /// - Returns: The link to hand out.
    /// - Throws: What the relay says against it.
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
        return try await container.persistUpdatedShare(share, in: own).url
    }

    /// Opens a link that somebody handed out; the note is there when this returns.
    func accept(_ link: URL) async throws {
        try await container.acceptShareInvitations(from: [link], into: others)
    }

    /// Ends a share of one's own, whose note stays here; leaves somebody else's, whose note goes.
    func stopSharing(_ note: Note) async throws {
        guard let share = try await share(of: note) else {
            throw NotesFailure("\"\(note.title)\" is not shared.")
        }
        if share.isOwner {
            try await container.stopSharing(share, in: own)
        } else {
            try await container.leaveShare(share, in: others)
        }
    }

    /// Returns when everything written here is on the relay, and everything there is here.
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

/// Something that the app cannot do, in one sentence for the person at it.
struct NotesFailure: LocalizedError, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    var errorDescription: String? { description }
}
