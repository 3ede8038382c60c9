import Foundation
import GRDB
import Synchronization
import ZoneKit

/// Delivers the events of all stores to all listeners; a new listener first receives the current state.
final class EventBoard: Sendable {
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
