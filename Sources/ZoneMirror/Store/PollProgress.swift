import Foundation
import GRDB
import Records
import SyncCore

/// The progress of the polls of a public database, in `mirror_poll`.
enum PollProgress {
    private struct Seen: Codable {
        var name: String
        var tag: String
        var time: Int64
    }

    static func load(_ db: Database) throws -> [String: PublicPoll.Mark] {
        var marks: [String: PublicPoll.Mark] = [:]
        for row in try Row.fetchAll(db, sql: "SELECT type, watermark, recent FROM mirror_poll") {
            var mark = PublicPoll.Mark()
            mark.watermark = (row[1] as Int64?).map { Timestamp(milliseconds: $0) }
            let recent = (row[2] as String?).flatMap { try? JSONDecoder().decode([Seen].self, from: Data($0.utf8)) }
            for seen in recent ?? [] {
                mark.recent[seen.name] = seen.tag
                mark.recentTimes[seen.name] = Timestamp(milliseconds: seen.time)
            }
            marks[row[0]] = mark
        }
        return marks
    }

    static func store(_ db: Database, _ type: String, _ mark: PublicPoll.Mark) throws {
        let recent = mark.recent.map { name, tag in
            Seen(name: name, tag: tag, time: mark.recentTimes[name]?.milliseconds ?? 0)
        }
        try db.execute(
            sql: """
                INSERT INTO mirror_poll(type, watermark, recent) VALUES (?, ?, ?)
                ON CONFLICT(type) DO UPDATE SET watermark = excluded.watermark, recent = excluded.recent
                """,
            arguments: [
                type, mark.watermark?.milliseconds,
                String(decoding: try JSONEncoder().encode(recent), as: UTF8.self),
            ]
        )
    }

    /// Forgets the polls' progress if the extents have changed, because the store may now lack records of them.
    static func resetIfExtentsChanged(_ db: Database, _ extents: [String: WireExtent]) throws {
        let wanted =
            extents.isEmpty
            ? nil : extents.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: "\n")
        let before = try State.text(db, .extents)
        guard before != wanted else { return }
        try State.set(db, .extents, wanted)
        try forgetAll(db)
        try RecordTable(db).allSuperseded()
    }

    /// Makes the next poll fetch all records of all types.
    static func forgetAll(_ db: Database) throws { try db.execute(sql: "DELETE FROM mirror_poll") }

    /// Makes the next poll fetch all records of a type.
    static func forget(_ db: Database, _ type: String) throws {
        try db.execute(sql: "DELETE FROM mirror_poll WHERE type = ?", arguments: [type])
    }
}
