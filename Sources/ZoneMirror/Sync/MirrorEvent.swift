public import Foundation
import GRDB
import Synchronization
public import ZoneKit

/// A change of a share.
public enum ShareChange: Hashable, Sendable, Codable {
    /// Why the objects of a share are no longer here.
    public enum Loss: String, Hashable, Sendable, Codable {
        /// The owner ended the share.
        case stopped
        /// The owner removed this user from it.
        case removed
        /// This user left it.
        case left
        /// The relay did not say.
        case unknown
    }

    /// The current user created it.
    case created
    /// Its title, public permission or link changed.
    case updated
    /// Participants were added or removed, or their permissions changed.
    case participantsChanged
    /// The current user accepted it.
    case accepted
    /// The current user is no longer a participant, and its objects were removed from the store.
    case accessLost(Loss)
    /// The current user ended it.
    case ended
}

/// Something that a mirrored container did or is doing.
public struct MirrorEvent: Hashable, Sendable, Identifiable {
    /// The kinds of events.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A store began to sync.
        case setup
        /// An import from a private or shared database.
        case `import`
        /// An export to the store's database.
        case export
        /// An import from a public database.
        case poll
        /// A change of shares.
        case share
        /// A change of the account.
        case account
        /// Something that the application should know, such as a refused change.
        case notice
    }

    /// A detail that a program may act on.
    public enum Detail: Hashable, Sendable, Codable {
        /// These changes were refused permanently; see `rejectedWrites`.
        case refused([String])
        /// A zone was fetched again from its beginning.
        case zoneResynced(zone: String, reason: String)
        /// A zone and its objects are gone.
        case zoneLost(zone: String, reason: String)
        /// The public database lacks an index; this record type is skipped until the index exists.
        case indexMissing(recordType: String, field: String)
        /// The quota is exceeded: the bytes used, allowed, and waiting to be sent, if known.
        ///
        /// For other users' databases they are unknown.
        case quotaExceeded(used: Int64? = nil, limit: Int64? = nil, needed: Int64? = nil)
        /// There is space again for saves.
        case quotaRecovered
        /// Many changes wait to be sent.
        case outboxIsLarge(Int)
        /// The store has no file, because the current user's file could not be opened; the value is the reason.
        ///
        /// Load the stores again to retry.
        case storeClosed(String)
        /// Changes that were not sent and will never be.
        case droppedChanges([String])
        /// The user changed, or signed out.
        case account(previous: String?, current: String?)
        /// The number of objects from before a user signed in, or from before the store was mirrored.
        ///
        /// In an event of the kind `account`, they belong to no user; `adoptLocalData` takes them over. In one of the
        /// kind `setup`, the store held them when it got its cloud options, and they are being sent.
        case localData(Int)
        /// The number of objects of an ended share that were copied to another store before they were removed.
        case keptCopy(Int)
        /// A share began, changed or ended.
        case share(ShareChange, zone: String)
        /// Encrypted values of this zone cannot be read here: the user's key differs or was not received yet.
        case keyMissing(zone: String)
        /// New objects of a shared store without a link to a share, as plain SQL can create them; they wait until they
        /// have one.
        case shareMissing([String])
        /// These objects have a value that the property's type cannot read, written by another version of the app or
        /// by another program.
        ///
        /// They show the property's default and keep the value; at most 100 objects are listed.
        case unreadable(entity: String, property: String, objects: [String])
        /// A pinned view was brought up to date because it grew too old or too large.
        case pinAdvanced
    }

    /// Increases with each event of a store.
    public var id: Int64
    /// The store of the event.
    public var store: StoreID
    /// The kind of the event.
    public var kind: Kind
    /// When the work began.
    public var began: Date
    /// When the work ended; `nil` while it continues.
    public var ended: Date?
    /// Whether the work succeeded.
    public var succeeded: Bool
    /// CloudKit's error code.
    public var errorCode: CKError.Code?
    /// The error as one sentence.
    public var message: String?
    /// The number of records so far.
    public var done: Int
    /// The total number of records, if known.
    public var total: Int?
    /// The bytes of records transferred, without assets.
    public var bytes = 0
    /// Details that a program may act on.
    public var details: [Detail]
}

/// Delivers the events of all stores to all listeners; a new listener first receives the current state.
final class EventBroadcaster: Sendable {
    private struct Contents {
        var listeners: [UUID: AsyncStream<MirrorEvent>.Continuation] = [:]
        /// The latest event of each store and kind.
        var latest: [StoreID: [MirrorEvent.Kind: MirrorEvent]] = [:]
    }

    private let contents = Mutex(Contents())

    /// The maximum number of events buffered for a slow listener; older ones are dropped.
    private static let depth = 1_000

    func listen() -> AsyncStream<MirrorEvent> {
        let id = UUID()
        let (stream, continuation) = AsyncStream.makeStream(
            of: MirrorEvent.self,
            bufferingPolicy: .bufferingNewest(Self.depth)
        )
        continuation.onTermination = { [weak self] _ in self?.contents.withLock { $0.listeners[id] = nil } }
        contents.withLock { contents in
            let known = contents.latest.values.flatMap(\.values).sorted { ($0.began, $0.id) < ($1.began, $1.id) }
            known.forEach { continuation.yield($0) }
            contents.listeners[id] = continuation
        }
        return stream
    }

    func post(_ event: MirrorEvent) {
        NotificationCenter.default.post(
            name: MirroredContainer.eventChangedNotification,
            object: nil,
            userInfo: [MirroredContainer.eventNotificationUserInfoKey: event]
        )
        contents.withLock { contents in
            contents.latest[event.store, default: [:]][event.kind] = event
            contents.listeners.values.forEach { $0.yield(event) }
        }
    }

    func finish() {
        let listeners = contents.withLock { contents in
            defer { contents.listeners = [:] }
            return contents.listeners
        }
        listeners.values.forEach { $0.finish() }
    }
}

/// The events of one store, stored in its file.
enum EventLog {
    /// The number of newest events to keep.
    private static let kept = 1_000

    static func write(_ db: Database, _ event: inout MirrorEvent) throws {
        let details = event.details.isEmpty ? nil : try JSONEncoder().encode(event.details)
        try db.execute(
            sql: """
                INSERT INTO mirror_event(kind, began, ended, succeeded, code, message, records, total, details, bytes)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            arguments: [
                event.kind.rawValue, event.began.timeIntervalSince1970, event.ended?.timeIntervalSince1970,
                event.succeeded, event.errorCode?.rawValue, event.message, event.done, event.total,
                details.map { String(decoding: $0, as: UTF8.self) }, event.bytes,
            ]
        )
        event.id = db.lastInsertedRowID
        try db.execute(sql: "DELETE FROM mirror_event WHERE id <= ?", arguments: [event.id - Int64(kept)])
    }

    static func fetch(_ db: Database, store: StoreID, after id: Int64, since date: Date?) throws -> [MirrorEvent] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, kind, began, ended, succeeded, code, message, records, total, details, bytes FROM mirror_event
                WHERE id > ? AND began >= ? ORDER BY id
                """,
            arguments: [id, date?.timeIntervalSince1970 ?? -.greatestFiniteMagnitude]
        )
        return rows.map { row in
            let details = (row[9] as String?).flatMap {
                try? JSONDecoder().decode([MirrorEvent.Detail].self, from: Data($0.utf8))
            }
            return MirrorEvent(
                id: row[0],
                store: store,
                kind: MirrorEvent.Kind(rawValue: row[1]) ?? .notice,
                began: Date(timeIntervalSince1970: row[2]),
                ended: (row[3] as Double?).map { Date(timeIntervalSince1970: $0) },
                succeeded: row[4] ?? false,
                errorCode: (row[5] as Int?).flatMap { CKError.Code(rawValue: $0) },
                message: row[6],
                done: row[7],
                total: row[8],
                bytes: row[10],
                details: details ?? []
            )
        }
    }
}
