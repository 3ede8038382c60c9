import GRDB
import Records
import RelayCore

/// Reads the feeds of zones.
extension SQLiteReader {
    /// Selects a zone's live or deleted records run by run, through the index for that state.
    private static func feedArm(_ index: String, deleted: Int, _ more: String = "") -> String {
        """
        SELECT \(columns(deleted: "\(deleted)"))\(more) FROM zone_run z CROSS JOIN record r INDEXED BY \(index)
        ON r.run = z.run AND r.zone = ?1 AND r.deleted = \(deleted)
        WHERE z.zone = ?1 AND z.run BETWEEN ?2 >> 11 AND ?3 >> 11 AND r.change BETWEEN ?2 AND ?3
        """
    }

    private static func liveFeed(_ direction: String) -> String {
        feedArm("live_by_run", deleted: 0) + " ORDER BY z.run \(direction), r.change \(direction) LIMIT ?4"
    }

    /// Selects live and deleted records.
    ///
    /// Both parts are in order already, and SQLite merges them by run and change, which are columns 14 and 1.
    private static func wholeFeed(_ direction: String) -> String {
        feedArm("live_by_run", deleted: 0, ", z.run") + " UNION ALL " + feedArm("dead_by_run", deleted: 1, ", z.run")
            + " ORDER BY 14 \(direction), 1 \(direction) LIMIT ?4"
    }

    static let forwardFeed = wholeFeed("ASC")
    private static let backwardFeed = wholeFeed("DESC")
    static let forwardLiveFeed = liveFeed("ASC")
    private static let backwardLiveFeed = liveFeed("DESC")

    private static func feed(_ states: FeedFilter, backwards: Bool) -> String {
        switch states {
        case .all: backwards ? backwardFeed : forwardFeed
        case .living: backwards ? backwardLiveFeed : forwardLiveFeed
        }
    }

    /// Visits a range of changes without an index, skipping records of other zones.
    ///
    /// Costs less than an index if most changes in the range belong to the zone.
    private static func narrowFeed(_ direction: String) -> String {
        """
        SELECT 1 FROM record r NOT INDEXED
        WHERE r.change BETWEEN ?2 AND ?3 AND CASE WHEN r.zone = ?1 THEN visit(\(recordColumns)) END
        ORDER BY r.change \(direction)
        """
    }

    private static func narrowLiveFeed(_ direction: String) -> String {
        """
        SELECT 1 FROM record r NOT INDEXED
        WHERE r.change BETWEEN ?2 AND ?3
            AND CASE WHEN r.zone = ?1 AND r.deleted = 0 THEN visit(\(columns(deleted: "0"))) END
        ORDER BY r.change \(direction)
        """
    }

    private static let narrowForwardFeed = narrowFeed("ASC")
    private static let narrowBackwardFeed = narrowFeed("DESC")
    private static let narrowForwardLiveFeed = narrowLiveFeed("ASC")
    private static let narrowBackwardLiveFeed = narrowLiveFeed("DESC")

    private static func narrowFeed(_ states: FeedFilter, backwards: Bool) -> String {
        switch states {
        case .all: backwards ? narrowBackwardFeed : narrowForwardFeed
        case .living: backwards ? narrowBackwardLiveFeed : narrowForwardLiveFeed
        }
    }

    /// The number of changes to read to find out whether the zone has most of them.
    private static let sample: UInt64 = 32

    func visitRecords(
        in zone: Zone,
        changes range: ClosedRange<UInt64>,
        states: FeedFilter,
        backwards: Bool,
        limit: Int,
        rowsExceptFor wholeTypes: Set<String>?,
        _ visit: (VisitedRecord, UInt64) -> Bool
    ) throws(RelayError) {
        try attempt {
            if let view = zone.view, view.isPartial {
                return try visitView(
                    view,
                    of: zone,
                    range,
                    backwards: backwards,
                    limit: limit,
                    rowsExceptFor: wholeTypes,
                    visit
                )
            }
            var reading = RowReading(wholeTypes: wholeTypes, showsLiveOnly: states == .living)
            var (rest, wanted, hasMore) = (range, UInt64(limit), true)
            func pass(_ row: some RowColumns) throws {
                let record = try visited(in: row, &reading)
                hasMore = visit(record, record.change)
                wanted -= 1
            }
            func statement(_ feed: String, _ part: ClosedRange<UInt64>) throws -> SQL {
                let statement = try SQL(feed, in: database)
                statement.bind(1, zone.number)
                statement.bind(2, part.lowerBound)
                statement.bind(3, part.upperBound)
                return statement
            }

            let narrow = Self.narrowFeed(states, backwards: backwards)
            func isNarrow() -> Bool { (rest.upperBound - rest.lowerBound) / 2 < wanted }
            func visitNarrow(_ part: ClosedRange<UInt64>) throws {
                let visitor =
                    try connection?.recordVisitor(database)
                    ?? RowVisitor(database, columns: Self.recordColumnCount)
                try visitor.visit(statement(narrow, part)) { row in
                    try pass(row)
                    return hasMore && wanted > 0
                }
            }
            func visitNext(_ changes: UInt64) throws -> UInt64 {
                let part = rest.lowerBound...rest.lowerBound + changes - 1
                let before = wanted
                try visitNarrow(part)
                rest = part.upperBound + 1...rest.upperBound
                return before - wanted
            }
            if !backwards, wanted >= Self.sample, !isNarrow() {
                let isDense = try visitNext(Self.sample) >= Self.sample / 2
                if isDense, hasMore, wanted > 0, !isNarrow() { _ = try visitNext(wanted * 2) }
                if wanted == 0 || !hasMore { return }
            }
            if isNarrow() { return try visitNarrow(rest) }
            let usual = try statement(Self.feed(states, backwards: backwards), rest)
            defer { usual.reset() }
            usual.bind(4, wanted)
            while hasMore, try usual.step() { try pass(usual) }
        }
    }

    /// How the rows of one statement are read, with values that the next row probably shares.
    struct RowReading: ~Copyable {
        /// Records of all other types are lent; `nil` means that none are lent.
        let wholeTypes: Set<String>?
        /// Whether the statement returns no tombstones.
        let showsLiveOnly: Bool
        /// The row that is lent, filled in place for one record after the other.
        fileprivate let row = UnsafeMutablePointer<RecordRow>.allocate(capacity: 1)
        /// The latest type, and whether its records are needed whole; `row` has its name if they are not.
        fileprivate var type: (number: Int64, isWhole: Bool)?
        /// The numbers of the authors that `row` has.
        fileprivate var authors: AuthorColumns?

        init(wholeTypes: Set<String>?, showsLiveOnly: Bool = false) {
            self.wholeTypes = wholeTypes
            self.showsLiveOnly = showsLiveOnly
            row.initialize(to: RecordRow())
        }

        deinit {
            row.deinitialize(count: 1)
            row.deallocate()
        }
    }

    /// Returns the record in a row of `recordColumns`; lends it if it is plain and need not be whole.
    func visited(in row: some RowColumns, _ reading: inout RowReading) throws -> VisitedRecord {
        if try fill(from: row, &reading) { return .lent(UnsafePointer(reading.row)) }
        return .whole(try record(in: row))
    }

    /// The numbers of the two users and two devices in a row.
    fileprivate struct AuthorColumns: Equatable {
        var creator: Int64
        var creatingDevice: UInt64
        var modifier: Int64
        var modifyingDevice: UInt64
    }

    /// Fills the row that is lent from a row of `recordColumns` without copying texts.
    ///
    /// Valid until the statement's next step. Returns `false` if the record is a share, shared, deleted or needed
    /// whole.
    private func fill(from row: some RowColumns, _ reading: inout RowReading) throws -> Bool {
        guard reading.wholeTypes != nil, reading.showsLiveOnly || !row.bool(3), row.isNull(11),
            try isLent(row.int(2), &reading)
        else { return false }
        try setAuthors(from: row, &reading)
        let lent = reading.row
        lent.pointee.name = row.borrowedText(1)
        lent.pointee.fields = row.borrowedBlob(12)
        lent.pointee.change = row.unsigned(0)
        lent.pointee.created = Timestamp(milliseconds: row.int(4))
        lent.pointee.modified = Timestamp(milliseconds: row.int(7))
        lent.pointee.parent = row.isNull(10) ? nil : row.borrowedText(10)
        return true
    }

    /// Returns whether records of a type are lent, and sets the type of the lent row.
    private func isLent(_ number: Int64, _ reading: inout RowReading) throws -> Bool {
        if let type = reading.type, type.number == number { return !type.isWhole }
        let type = try type(number)
        let isWhole = type == Share.recordType || reading.wholeTypes?.contains(type) ?? true
        reading.type = (number, isWhole)
        reading.row.pointee.type = type
        return !isWhole
    }

    private func setAuthors(from row: some RowColumns, _ reading: inout RowReading) throws {
        let columns = AuthorColumns(
            creator: row.int(5),
            creatingDevice: row.unsigned(6),
            modifier: row.int(8),
            modifyingDevice: row.unsigned(9)
        )
        guard columns != reading.authors else { return }
        reading.row.pointee.authors = RecordRow.Authors(
            creator: try user(columns.creator),
            creatingDevice: DeviceFingerprint(bits: columns.creatingDevice),
            modifier: try user(columns.modifier),
            modifyingDevice: DeviceFingerprint(bits: columns.modifyingDevice)
        )
        reading.authors = columns
    }

    func countLive(in zone: Zone, after change: UInt64, atMost limit: Int) throws(RelayError) -> Int? {
        if let view = zone.view, view.isPartial { return nil }
        return try attempt {
            let statement = try SQL(
                """
                SELECT count(*) FROM (
                    SELECT 1 FROM zone_run z CROSS JOIN record r INDEXED BY live_by_run
                    ON r.run = z.run AND r.zone = ?1 AND r.deleted = 0
                    WHERE z.zone = ?1 AND z.run >= ?2 >> 11 AND r.change > ?2 LIMIT ?3 + 1)
                """,
                in: database
            )
            defer { statement.reset() }
            statement.bind(1, zone.number)
            statement.bind(2, change)
            statement.bind(3, Int64(limit))
            let count = try statement.step() ? Int(statement.int(0)) : 0
            return count <= limit ? count : nil
        }
    }
}
