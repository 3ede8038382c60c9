#if Postgres
    import Records
    import RelayCore
    import StoreKit
    import Wire

    /// Reads zones of which a participant sees only hierarchies.
    extension PostgresReader {
        /// Returns only records that the view shows, and no tombstones.
        func records(
            named wanted: [String],
            in zone: Zone,
            through view: ZoneView,
            withFields: Bool
        ) throws -> [String: StoredRecord] {
            guard !wanted.isEmpty else { return [:] }
            let rows = try transaction.query(
                """
                SELECT \(Self.recordColumns) FROM unnest($2::text[]) AS n (name)
                CROSS JOIN \(PostgresSharingRows.cover(of: "n.name")) e
                CROSS JOIN \(PostgresSharingRows.record(named: "e.name")) r WHERE e.share = ANY($3)
                """,
                .int(zone.number),
                .texts(Array(Set(wanted))),
                .ints(view.shares.map(\.share))
            )
            var found: [String: StoredRecord] = [:]
            for var record in try records(in: rows) {
                if !withFields, !record.isShare { record.fields = FieldsJSON.empty }
                found[record.name] = record
            }
            return found
        }

        /// How many entries, and how many bytes of fields, are read in one round trip; at least one entry.
        private static let entriesAtOnce = 500
        private static let entryBytesAtOnce: Int64 = 4 << 20

        private static let entryColumns = "e.share, e.name, e.change, e.gone, e.record, e.type"

        /// Selects the entries of the shares `$2` between two changes.
        ///
        /// A record that left one hierarchy but is in another is present; one that left several is reported where it left
        /// last. Reads each share in the order of its index, and no more entries than wanted of each.
        private static func entries(_ direction: String) -> String {
            """
            SELECT t.* FROM unnest($2::bigint[]) AS k (share) CROSS JOIN LATERAL (
                SELECT \(entryColumns) FROM share_entry e
                WHERE e.share = k.share AND e.change BETWEEN $3 AND $4
                    AND (e.gone = 0 OR cardinality($2::bigint[]) = 1 OR NOT EXISTS (
                        SELECT 1 FROM share_entry o WHERE o.share = ANY($2) AND o.name = e.name
                            AND (o.gone = 0 OR (o.change, o.share) > (e.change, e.share))))
                ORDER BY e.change \(direction) LIMIT $5) t
            ORDER BY t.change \(direction) LIMIT $5
            """
        }

        /// The record of an entry `e` that is not gone.
        private static let present = LookUp.rows(of: "record", where: "zone = $1 AND name = e.name AND e.gone = 0")

        /// Selects a page of the feed of several hierarchies together.
        private static func feed(_ direction: String) -> String {
            """
            SELECT \(recordColumns), e.change, e.gone, e.name, t.name FROM (
                SELECT e.*, sum(coalesce(octet_length(r.fields), 0)) OVER (ORDER BY e.change \(direction), e.name)
                    - coalesce(octet_length(r.fields), 0) AS before
                FROM (\(entries(direction))) e
                LEFT JOIN \(present) r ON true) e
            LEFT JOIN \(present) r ON r.change = coalesce(e.record, e.change)
            LEFT JOIN \(LookUp.rows(of: "record_type", where: "id = e.type")) t ON true
            WHERE e.before < $6 ORDER BY e.change \(direction)
            """
        }

        private static let forwardView = feed("ASC")
        private static let backwardView = feed("DESC")

        func visitView(
            _ view: ZoneView,
            of zone: Zone,
            _ range: ClosedRange<UInt64>,
            backwards: Bool,
            limit: Int,
            rowsExceptFor wholeTypes: Set<String>?,
            _ visit: (VisitedRecord, UInt64) -> Bool
        ) throws {
            guard !view.shares.isEmpty else { return }
            let position = Self.recordColumnCount
            var (rest, wanted) = (range, limit)
            while wanted > 0 {
                let rows = try transaction.query(
                    backwards ? Self.backwardView : Self.forwardView,
                    .int(zone.number),
                    .ints(view.shares.map(\.share)),
                    .int(Int64(clamping: rest.lowerBound)),
                    .int(Int64(clamping: rest.upperBound)),
                    .int(Int64(min(wanted, Self.entriesAtOnce))),
                    .int(Self.entryBytesAtOnce)
                )
                try learnNames(in: rows)
                var records = try rows.map { row in row.isNull(0) ? nil : try record(in: row) }
                var found = records.compactMap(\.self)
                try addShares(to: &found)
                var next = found.makeIterator()
                records = records.map { $0 == nil ? nil : next.next() }
                for (row, record) in zip(rows, records) {
                    let change = row.unsigned(position)
                    let state = HierarchyEntry.State(rawValue: row.int(position + 1))
                    if state != .present {
                        let (name, type) = (row.text(position + 2), row.text(position + 3))
                        var last = StoredRecord.lastSeen(as: name, type, at: change, by: view.user)
                        if state == .outOfSight { last.fields = StoredRecord.fieldsOutOfSight }
                        guard visit(.whole(last), change) else { return }
                    } else if let record {
                        guard visit(.whole(record), change) else { return }
                    }
                }
                wanted -= rows.count
                guard let last = rows.last?.unsigned(position) else { return }
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
#endif
