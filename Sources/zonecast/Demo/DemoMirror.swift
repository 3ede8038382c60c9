import Foundation
import Records
import ZoneKit
import ZoneMirror

/// One client's mirrors: one SQLite file each for its private, shared and public database.
///
/// The client shows and changes only these files; only sharing calls wait for the network.
final class DemoMirror: Sendable {
    static let model = MirrorModel(
        DemoNote.self,
        DemoPost.self,
        configurations: ["notes": [DemoNote.entityName], "board": [DemoPost.entityName]]
    )

    let container: MirroredContainer
    let own: StoreID
    let others: StoreID
    let board: StoreID
    private let settings: DemoSettings

    /// `path` is the common prefix of the files' paths.
    init(_ cloud: CKContainer, path: String, _ settings: DemoSettings) {
        self.settings = settings
        var own = StoreDescription(
            url: URL(fileURLWithPath: path + "-private.sqlite"),
            configuration: "notes",
            cloud: CloudOptions(container: cloud)
        )
        own.cloud?.usesPrefix = false
        own.cloud?.zoneName = settings.zoneName
        var others = own
        others.url = URL(fileURLWithPath: path + "-shared.sqlite")
        others.cloud?.scope = .shared
        // The demo shows how the relay refuses writes without permission.
        others.unpermittedWrites = .allow
        var board = StoreDescription(
            url: URL(fileURLWithPath: path + "-public.sqlite"),
            configuration: "board",
            cloud: CloudOptions(container: cloud, scope: .public)
        )
        board.cloud?.usesPrefix = false
        board.cloud?.pollInterval = settings.boardInterval
        var conditions = MirrorConditions()
        conditions.shortestPoll = .seconds(1)
        container = MirroredContainer(model: Self.model, stores: [own, others, board], conditions: conditions)
        self.own = container.store(at: own.url)
        self.others = container.store(at: others.url)
        self.board = container.store(at: board.url)
    }

    // MARK: Contents

    func notes(in store: StoreID) throws -> [DemoNote] {
        var request = FetchRequest(DemoNote.self)
        request.affectedStores = [store]
        return try container.newBackgroundContext().fetch(request).filter { settings.belongsToRun($0.name) }
            .sorted { $0.name < $1.name }
    }

    func posts() throws -> [DemoPost] {
        try container.newBackgroundContext().fetch(DemoPost.self).filter { settings.belongsToRun($0.id.text) }
            .sorted { $0.id < $1.id }
    }

    func pending() async throws -> Int {
        var count = 0
        for store in [own, others, board] { count += try await container.pendingExportCount(store) }
        return count
    }

    /// Returns everything that a pane shows.
    func contents() async throws -> DemoContents {
        var contents = DemoContents()
        let zones = try await container.zones(in: own)
        contents.lists = try await lists(in: own, zones)
        let shared = Set(contents.lists.flatMap(\.notes).map(\.name))
        contents.notes = try notes(in: own).filter { !shared.contains($0.name) }
        contents.lists += try await lists(in: others, container.zones(in: others))
        contents.posts = try posts().map(\.text)
        contents.pending = try await pending()
        let home = zones.first { $0.name == settings.zoneName }
        if let token = home?.token.flatMap({ ChangeToken(encoded: $0) }) { contents.token = "\(token.position)" }
        return contents
    }

    /// Returns the shared lists, without their notes.
    func lists() async throws -> [DemoList] { try await lists(in: own, []) + lists(in: others, []) }

    private func lists(in store: StoreID, _ zones: [MirroredZone]) async throws -> [DemoList] {
        let notes = zones.isEmpty ? [] : try notes(in: store)
        return try await container.fetchShares(in: store).map { share in
            let objects = zones.first { $0.name == share.recordID.zoneID.zoneName }?.objects ?? []
            return list(share, notes.filter { objects.contains($0.name) })
        }
    }

    private func list(_ share: CKShare, _ notes: [DemoNote]) -> DemoList {
        let partners = share.participants.filter { $0.role != .owner }
        let names = partners.map { name(of: $0) + ($0.acceptanceStatus == .accepted ? "" : "?") }
        let right = share.isOwner ? partners.first?.permission ?? .none : share.currentUserPermission
        return DemoList(
            title: share.title ?? "untitled",
            isMine: share.isOwner,
            people: share.isOwner ? names : [name(of: share.owner)],
            right: DemoRight(right),
            notes: notes
        )
    }

    private func name(of participant: CKShare.Participant) -> String {
        settings.people.name(of: participant.userIdentity.userRecordID?.recordName) ?? "unknown"
    }

    // MARK: Changes

    /// Saves a note in its zone; a new one goes into the user's own zone, or into `share`.
    func save(_ note: DemoNote, in share: CKShare? = nil) throws {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        if try context.object(DemoNote.self, note.id) != nil {
            try context.edit(DemoNote.self, note.id) {
                $0.title = note.title
                $0.done = note.done
            }
        } else {
            try context.insert(note)
            if let share { try context.assign(note, to: share) }
        }
        try context.save()
    }

    func delete(_ note: String) throws {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        try context.delete(DemoNote.self, id: RecordName(note))
        try context.save()
    }

    func post(_ post: DemoPost) throws {
        let context = container.newBackgroundContext()
        try context.insert(post)
        try context.save()
    }

    func hide(_ post: String) throws {
        let context = container.newBackgroundContext()
        context.mergePolicy = .mergeByPropertyObjectTrump
        guard let known = try context.object(DemoPost.self, RecordName(post)) else {
            throw CommandFailure(.failed, "There is no post \(post) on the board.")
        }
        try context.softDelete(known)
        try context.save()
    }
}
