import GRDB
import Records
import RelayCore
import StoreKit
import Wire

/// Reads zones of which a participant sees only hierarchies.
extension SQLiteReader {
    /// Selects the shares that a user has joined in a zone, whose entries the user's view shows.
    ///
    /// `?1` is the user's number, `?2` the zone's.
    private static let joined = """
        SELECT s.id FROM participant p JOIN share s ON s.id = p.share
        WHERE p.user = ?1 AND s.zone = ?2 AND p.accepted = 1 AND p.permission > 1
        """

    private static let visibleByName = """
        SELECT \(recordColumns) FROM record r WHERE r.zone = ?2 AND r.name = ?3 AND EXISTS (
            SELECT 1 FROM share_entry e
            WHERE e.name = ?3 AND e.zone = ?2 AND e.gone = 0 AND e.share IN (\(joined)))
        """

    /// Returns only records that the view shows, and no tombstones.
    func records(
        named wanted: [String],
        in zone: Zone,
        through view: ZoneView,
        withFields: Bool = true
    ) throws -> [String: StoredRecord] {
        guard let user = try number(of: view.user) else { return [:] }
        var found: [String: StoredRecord] = [:]
        let statement = try SQL(Self.visibleByName, in: database)
        for name in wanted {
            statement.bind(1, user)
            statement.bind(2, zone.number)
            statement.bind(3, name)
            let record = try statement.step() ? try record(in: statement, withFields: withFields) : nil
            statement.reset()
            if let record { found[name] = record }
        }
        return found
    }

    /// Joins the record of an entry that is not gone, by its change number.
    private static func recordOf(_ entry: String) -> String {
        """
        LEFT JOIN record r NOT INDEXED
        ON r.change = CASE \(entry).gone WHEN 0 THEN coalesce(\(entry).record, \(entry).change) END
            AND r.zone = ?2 AND r.name = \(entry).name
        """
    }

    /// Selects a page of the feed of several hierarchies together.
    ///
    /// A record that left one hierarchy but is in another is present; one that left several is reported where it left
    /// last.
    private static func feed(_ direction: String) -> String {
        """
        SELECT \(recordColumns), t.change, t.gone, t.name, t.type FROM (
            SELECT e.name, e.change, e.gone, e.record, e.type FROM share_entry e
            WHERE e.share IN (\(joined)) AND e.change BETWEEN ?3 AND ?4
                AND (e.gone = 0 OR NOT EXISTS (
                    SELECT 1 FROM share_entry o WHERE o.name = e.name AND o.share IN (\(joined))
                        AND (o.gone = 0 OR (o.change, o.share) > (e.change, e.share))))
            ORDER BY e.change \(direction) LIMIT ?5) t
        \(recordOf("t")) ORDER BY t.change \(direction)
        """
    }

    /// Selects the same for one hierarchy, `?6`, whose index provides the order.
    private static func feedOfOne(_ direction: String) -> String {
        """
        SELECT \(recordColumns), e.change, e.gone, e.name, e.type
        FROM share_entry e INDEXED BY share_entry_by_change
        \(recordOf("e"))
        WHERE e.share = ?6 AND e.change BETWEEN ?3 AND ?4 AND ?1 = ?1
        ORDER BY e.change \(direction) LIMIT ?5
        """
    }

    func visitView(
        _ view: ZoneView,
        of zone: Zone,
        _ range: ClosedRange<UInt64>,
        backwards: Bool,
        limit: Int,
        rowsExceptFor wholeTypes: Set<String>?,
        _ visit: (VisitedRecord, UInt64) -> Bool
    ) throws {
        guard let user = try number(of: view.user), let first = view.shares.first else { return }
        let direction = backwards ? "DESC" : "ASC"
        let isOne = view.shares.count == 1
        let statement = try SQL(isOne ? Self.feedOfOne(direction) : Self.feed(direction), in: database)
        defer { statement.reset() }
        statement.bind(1, user)
        statement.bind(2, zone.number)
        statement.bind(3, range.lowerBound)
        statement.bind(4, range.upperBound)
        statement.bind(5, Int64(limit))
        if isOne { statement.bind(6, first.share) }
        var reading = RowReading(wholeTypes: wholeTypes)
        var hasMore = true
        while hasMore, try statement.step() {
            let position = statement.unsigned(13)
            let state = HierarchyEntry.State(rawValue: statement.int(14))
            if state != .present {
                let type = try type(statement.int(16))
                var last = StoredRecord.lastSeen(as: statement.text(15), type, at: position, by: view.user)
                if state == .outOfSight { last.fields = StoredRecord.fieldsOutOfSight }
                hasMore = visit(.whole(last), position)
            } else if !statement.isNull(0) {
                hasMore = visit(try visited(in: statement, &reading), position)
            }
        }
    }
}
