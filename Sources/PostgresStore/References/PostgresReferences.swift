#if Postgres
    import Records
    package import RelayCore
    package import StoreKit

    /// The tables of references by target and of asset uses, updated in the transaction that changes a record.
    extension PostgresSharingRows {
        package func insert(_ references: [StoredReference], in zone: Int64) throws {
            guard !references.isEmpty else { return }
            transaction.later(
                """
                INSERT INTO reference (zone, target, kind, source, field)
                SELECT $1, n.* FROM unnest($2::text[], $3::bigint[], $4::text[], $5::text[]) AS n
                ON CONFLICT DO NOTHING
                """,
                .int(zone),
                .texts(references.map(\.target)),
                .ints(references.map { Int64($0.kind.rawValue) }),
                .texts(references.map(\.source)),
                .texts(references.map(\.field))
            )
        }

        private static let writtenReferences = LookUp.parameters(
            "$1::bigint AS zone",
            "$2::text[], $3::bigint[], $4::text[], $5::text[]",
            as: "target, kind, source, field"
        )

        package func delete(_ references: [StoredReference], in zone: Int64) throws {
            guard !references.isEmpty else { return }
            transaction.later(
                """
                DELETE FROM reference f USING \(Self.writtenReferences) n
                WHERE f.zone = n.zone AND f.target = n.target AND f.kind = n.kind AND f.source = n.source
                AND f.field = n.field
                """,
                .int(zone),
                .texts(references.map(\.target)),
                .ints(references.map { Int64($0.kind.rawValue) }),
                .texts(references.map(\.source)),
                .texts(references.map(\.field))
            )
        }

        package func used(among hashes: [AssetHash], in zone: Int64) throws -> Set<AssetHash> {
            guard !hashes.isEmpty else { return [] }
            let rows = try transaction.query(
                """
                SELECT h.hash FROM unnest($2::bytea[]) AS h (hash)
                WHERE EXISTS (SELECT FROM asset_use a WHERE a.zone = $1 AND a.hash = h.hash OFFSET 0)
                """,
                .int(zone),
                .blobs(hashes.map(\.bytes))
            )
            return Set(rows.compactMap { AssetHash($0.bytes(0)) })
        }

        package func insert(_ uses: [AssetUse], in zone: Int64) throws {
            let uses = uses.latest { Use(hash: $0.hash, name: $0.name) }
            guard !uses.isEmpty else { return }
            transaction.later(
                """
                INSERT INTO asset_use (zone, hash, name, size)
                SELECT $1, n.* FROM unnest($2::bytea[], $3::text[], $4::bigint[]) AS n
                ON CONFLICT (zone, hash, name) DO UPDATE SET size = excluded.size
                """,
                .int(zone),
                .blobs(uses.map(\.hash.bytes)),
                .texts(uses.map(\.name)),
                .ints(uses.map(\.size))
            )
        }

        package func delete(_ uses: [AssetUse], in zone: Int64) throws {
            guard !uses.isEmpty else { return }
            transaction.later(
                """
                DELETE FROM asset_use a
                USING \(LookUp.parameters("$1::bigint AS zone", "$2::bytea[], $3::text[]", as: "hash, name")) n
                WHERE a.zone = n.zone AND a.hash = n.hash AND a.name = n.name
                """,
                .int(zone),
                .blobs(uses.map(\.hash.bytes)),
                .texts(uses.map(\.name))
            )
        }

        private struct Use: Hashable {
            var hash: AssetHash
            var name: String
        }

        /// Returns how many of a zone's records use each of these assets; more than two count as two.
        package func assetUses(of hashes: Set<AssetHash>, in zone: Int64) throws(PostgresError) -> [AssetHash: Int] {
            guard !hashes.isEmpty else { return [:] }
            let rows = try transaction.query(
                """
                SELECT h.hash, (SELECT count(*) FROM (
                    SELECT 1 FROM asset_use a WHERE a.zone = $1 AND a.hash = h.hash LIMIT 2) u)
                FROM unnest($2::bytea[]) AS h (hash)
                """,
                .int(zone),
                .blobs(hashes.map(\.bytes))
            )
            return Dictionary(rows.compactMap { row in AssetHash(row.bytes(0)).map { ($0, Int(row.int(1))) } }) { $1 }
        }
    }

    extension PostgresSharingRows {
        /// The number of references that are read together.
        private static let portion: Int64 = 1_000

        /// Visits references as `StoreReader.visitReferences` does.
        ///
        /// Reads those of all targets together, portion by portion.
        package func visitReferences(
            to targets: [String],
            in zone: Int64,
            _ visit: (StoredReference) -> ReferenceVisit
        ) throws(PostgresError) {
            var rest = targets[...]
            // The reference to continue after, which points to the first target.
            var last: StoredReference?
            while let first = rest.first {
                let rows = try transaction.query(
                    """
                    SELECT t.place, f.kind, f.source, f.field
                    FROM unnest($2::text[]) WITH ORDINALITY AS t (name, place)
                    CROSS JOIN LATERAL (
                        SELECT f.kind, f.source, f.field FROM reference f WHERE f.zone = $1 AND f.target = t.name
                        AND (t.place > 1 OR (f.kind, f.source, f.field) > ($3, $4, $5))
                        ORDER BY f.kind, f.source, f.field LIMIT $6) f
                    ORDER BY t.place, f.kind, f.source, f.field LIMIT $6
                    """,
                    .int(zone),
                    .texts(Array(rest.prefix(Int(Self.portion)))),
                    .int(last.map { Int64($0.kind.rawValue) } ?? 0),
                    .text(last?.source ?? ""),
                    .text(last?.field ?? ""),
                    .int(Self.portion)
                )
                var skipped: Int64?
                for row in rows where row.int(0) != skipped {
                    let target = rest[rest.startIndex + Int(row.int(0)) - 1]
                    guard let kind = StoredReference.Kind(rawValue: Int(row.int(1))) else {
                        throw PostgresError(.damaged, "A reference has an unknown kind.")
                    }
                    let found = StoredReference(kind, to: target, from: row.text(2), field: row.text(3))
                    switch visit(found) {
                    case .next: continue
                    case .nextTarget: skipped = row.int(0)
                    case .stop: return
                    }
                }
                guard rows.count == Self.portion, let end = rows.last else {
                    rest = rest.dropFirst(Int(Self.portion))
                    last = nil
                    continue
                }
                // The last target may have more.
                rest = rest.dropFirst(Int(end.int(0)) - 1)
                if skipped == end.int(0) {
                    rest = rest.dropFirst()
                    last = nil
                } else if let kind = StoredReference.Kind(rawValue: Int(end.int(1))) {
                    last = StoredReference(kind, to: rest.first ?? first, from: end.text(2), field: end.text(3))
                }
            }
        }

        /// Counts the references with `DELETE_SELF` that point to each of these records, up to `limit` each.
        package func countDeleteSelf(
            to targets: [String],
            in zone: Int64,
            atMost limit: Int
        ) throws(PostgresError) -> [String: Int] {
            guard !targets.isEmpty else { return [:] }
            let rows = try transaction.query(
                """
                SELECT t.name, (SELECT count(*) FROM (
                    SELECT 1 FROM reference f WHERE f.zone = $1 AND f.target = t.name AND f.kind = 1 LIMIT $3) r)
                FROM unnest($2::text[]) AS t (name)
                """,
                .int(zone),
                .texts(targets),
                .int(Int64(limit))
            )
            return Dictionary(rows.map { ($0.text(0), Int($0.int(1))) }) { $1 }
        }
    }
#endif
