#if Postgres
    package import Records
    package import RelayCore

    /// Reads the feeds of zones.
    extension PostgresReader {
        /// How many rows, and how many bytes of fields, are read in one round trip; at least one row.
        private static let rowsAtOnce = 1_000
        private static let bytesAtOnce = 4 << 20

        private static func feed(_ states: FeedFilter, backwards: Bool) -> String {
            let direction = backwards ? "DESC" : "ASC"
            func part(_ condition: String) -> String {
                """
                (SELECT \(recordColumns) FROM record r WHERE r.zone = $1 AND \(condition)
                AND r.change BETWEEN $2 AND $3 ORDER BY r.change \(direction) LIMIT $4)
                """
            }
            // Each part is in the order of its index, and the two are merged.
            let rows =
                states == .living
                ? part("NOT r.deleted")
                : "(\(part("NOT r.deleted")) UNION ALL \(part("r.deleted")) ORDER BY change \(direction) LIMIT $4)"
            return """
                SELECT \(recordColumns) FROM (
                    SELECT r.*, sum(octet_length(r.fields)) OVER (ORDER BY r.change \(direction)) - octet_length(r.fields) AS before
                    FROM \(rows) r) r
                WHERE r.before < $5 ORDER BY r.change \(direction)
                """
        }

        private static let forwardFeed = feed(.all, backwards: false)
        private static let backwardFeed = feed(.all, backwards: true)
        private static let forwardLiveFeed = feed(.living, backwards: false)
        private static let backwardLiveFeed = feed(.living, backwards: true)

        private static func statement(_ states: FeedFilter, backwards: Bool) -> String {
            switch states {
            case .all: backwards ? backwardFeed : forwardFeed
            case .living: backwards ? backwardLiveFeed : forwardLiveFeed
            }
        }

        package func visitRecords(
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
                let statement = Self.statement(states, backwards: backwards)
                var (rest, wanted) = (range, limit)
                while wanted > 0 {
                    let rows = try transaction.query(
                        statement,
                        .int(zone.number),
                        .int(Int64(clamping: rest.lowerBound)),
                        .int(Int64(clamping: rest.upperBound)),
                        .int(Int64(min(wanted, Self.rowsAtOnce))),
                        .int(Int64(Self.bytesAtOnce))
                    )
                    for record in try records(in: rows) {
                        guard visit(.whole(record), record.change) else { return }
                    }
                    wanted -= rows.count
                    guard let last = rows.last?.unsigned(0) else { return }
                    if backwards {
                        guard last > rest.lowerBound else { return }
                        rest = rest.lowerBound...last - 1
                    } else {
                        guard last < rest.upperBound else { return }
                        rest = last + 1...rest.upperBound
                    }
                }
            }
        }

        package func countLive(in zone: Zone, after change: UInt64, atMost limit: Int) throws(RelayError) -> Int? {
            if let view = zone.view, view.isPartial { return nil }
            return try attempt {
                let rows = try transaction.query(
                    """
                    SELECT count(*) FROM (
                        SELECT 1 FROM record WHERE zone = $1 AND NOT deleted AND change > $2 LIMIT $3) counted
                    """,
                    .int(zone.number),
                    .int(Int64(clamping: change)),
                    .int(Int64(limit) + 1)
                )
                let count = Int(rows.first?.int(0) ?? 0)
                return count <= limit ? count : nil
            }
        }

        package func horizon(of zone: Zone) throws(RelayError) -> UInt64 {
            try attempt {
                guard let view = zone.view, view.isPartial else {
                    let rows = try transaction.query("SELECT horizon FROM zone WHERE id = $1", .int(zone.number))
                    return rows.first?.unsigned(0) ?? 0
                }
                let rows = try transaction.query(
                    "SELECT coalesce(max(horizon), 0) FROM share WHERE id = ANY($1)",
                    .ints(view.shares.map(\.share))
                )
                return rows.first?.unsigned(0) ?? 0
            }
        }
    }
#endif
