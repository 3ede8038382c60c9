#if Postgres
    import Records
    import RelayCore
    import StoreKit

    /// Entries of indexes that a transaction has yet to remove and to enter, with a statement for each.
    ///
    /// Of two changes of the same entry, the last one counts.
    struct PostgresIndexEntries {
        private struct Entry: Hashable {
            var index: Int64
            var zone: Int64
            var key: [UInt8]
            var name: [UInt8]
        }

        private var isEntered: [Entry: Bool] = [:]

        mutating func enter(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) {
            isEntered[Entry(index: index, zone: zone, key: key.ordered, name: Array(name.utf8))] = true
        }

        mutating func remove(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) {
            isEntered[Entry(index: index, zone: zone, key: key.ordered, name: Array(name.utf8))] = false
        }

        mutating func flush(into pipeline: inout PostgresPipeline) {
            guard !isEntered.isEmpty else { return }
            add(
                """
                DELETE FROM field_value v
                USING unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::text[]) AS n (field, zone, value, name)
                WHERE v.field = n.field AND v.zone = n.zone AND v.value = n.value AND v.name = n.name
                """,
                isEntered.filter { !$0.value }.keys,
                to: &pipeline
            )
            add(
                """
                INSERT INTO field_value (field, zone, value, name)
                SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::text[]) ON CONFLICT DO NOTHING
                """,
                isEntered.filter(\.value).keys,
                to: &pipeline
            )
            isEntered = [:]
        }

        private func add(_ sql: String, _ entries: some Collection<Entry>, to pipeline: inout PostgresPipeline) {
            guard !entries.isEmpty else { return }
            pipeline.add(
                sql,
                .ints(entries.map(\.index)),
                .ints(entries.map(\.zone)),
                .blobs(entries.map(\.key)),
                .texts(entries.map { String(decoding: $0.name, as: UTF8.self) })
            )
        }
    }
#endif
