import Foundation
import GRDB
import Records
import SyncCore
import Wire
import ZoneKit

/// A request to the relay, stored until it is answered.
///
/// After a lost response or a restart, the mirror sends it again unchanged. The relay recognizes it by its idempotency
/// key, executes it once and returns the result. Changes made meanwhile build on that result; without it, this
/// device's own earlier change would look like a conflict with somebody else. There is one for each zone.
struct SentRequest: SendRequest {
    /// The items with all their local values.
    var items: [Outgoing]
    /// The operations as they were sent, in the order of the items.
    var writes: [ClientRequest.Write]
    var body: [UInt8]
    var attempts = WriteAttempts()

    /// Leaves out changes that a fetch has withdrawn since they were read.
    init(
        stillDue request: [Outgoing],
        _ writes: [ClientRequest.Write],
        in zone: ZoneID,
        atomically isAtomic: Bool,
        _ db: Database
    ) throws {
        let due = try zip(request, writes).filter { try OutboxRow.find(db, $0.0.oid)?.operation == $0.0.operation }
        (items, self.writes) = (due.map(\.0), due.map(\.1))
        body = ClientRequest.modify(self.writes, in: zone, atomically: isAtomic, operationID: UUID().uuidString)
    }
}

extension SentRequest {
    /// The zones of the unanswered requests.
    static func zones(_ db: Database) throws -> [ZoneID] {
        let sql = "SELECT zone FROM mirror_sent ORDER BY zone"
        return try Int64.fetchAll(db.cachedStatement(sql: sql)).compactMap { try KnownZone.find(db, id: $0)?.zone }
    }

    static func find(_ db: Database, in zone: ZoneID) throws -> SentRequest? {
        let sql = """
            SELECT s.body, s.items, s.tries FROM mirror_sent s JOIN mirror_zone z ON z.id = s.zone
            WHERE z.name = ? AND z.owner = ?
            """
        let place: StatementArguments = [zone.zoneName, zone.owner.recordName]
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: place) else { return nil }
        return try SentRequest(row, in: zone)
    }

    private init(_ row: Row, in zone: ZoneID) throws {
        // A request that was interrupted by the end of the process counts as sent.
        (body, attempts) = ([UInt8](row[0] as Data), WriteAttempts(unanswered: max(row[2], 1)))
        writes = try ClientRequest.writes(body)
        let kept = try JSONDocument(parsing: [UInt8](row[1] as Data), limits: .response)
        items = []
        for item in try kept.root.elements() { items.append(try Outgoing(item, in: zone)) }
    }

    func keep(_ db: Database, in zone: ZoneID) throws {
        var writer = JSONWriter(reserving: body.count + 128 * items.count)
        writer.array(items) { $1.write(to: &$0) }
        let sql = "INSERT OR REPLACE INTO mirror_sent(zone, body, items, tries) VALUES (?, ?, ?, ?)"
        try db.cachedStatement(sql: sql)
            .execute(arguments: [try KnownZone.make(db, zone).id, Data(body), Data(writer.bytes), attempts.unanswered])
    }

    /// Removes a zone's request, which was answered or will not be.
    static func remove(_ db: Database, in zone: ZoneID) throws {
        let sql = "DELETE FROM mirror_sent WHERE zone = (SELECT id FROM mirror_zone WHERE name = ? AND owner = ?)"
        try db.cachedStatement(sql: sql).execute(arguments: [zone.zoneName, zone.owner.recordName])
    }

    static func removeAll(_ db: Database) throws { try db.execute(sql: "DELETE FROM mirror_sent") }
}

extension Outgoing {
    fileprivate init(_ json: JSONValue, in zone: ZoneID) throws {
        let write = try ClientRequest.write(try json.required("operation"))
        self.init(
            oid: try json.required("oid").string(),
            entity: try json.required("entity").string(),
            operation: write.type.isDelete ? .delete : .save,
            version: try json.required("version").int64(),
            tries: Int(try json.required("tries").int64()),
            place: try json.required("place").int64(),
            zone: zone,
            write: write,
            size: Int(try json.required("size").int64())
        )
        for (field, file) in try json.required("large").members() { large[field] = try file.string() }
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.object { item in
            item.member("oid", oid)
            item.member("entity", entity)
            item.member("version", version)
            item.member("tries", tries)
            item.member("place", place)
            item.member("size", size)
            item.key("large")
            item.object { names in
                for (field, file) in large {
                    names.key(field)
                    names.string(file)
                }
            }
            item.key("operation")
            ClientRequest.operation(write, to: &item)
        }
    }
}
