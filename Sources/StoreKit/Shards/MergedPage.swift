package import Records
package import RelayCore

/// One page of a query's results from the pages that several shards have returned, each in the query's order.
package struct MergedPage {
    private let order: QueryOrder
    private let limit: Int
    private let bytes: Int

    package init(of query: Query, limit: Int, bytes: Int) {
        order = QueryOrder(query)
        self.limit = limit
        self.bytes = bytes
    }

    private struct Entry {
        var position: Query.Position
        var zone: ZoneID
        var record: StoredRecord
    }

    /// - Throws: `internalError` if a record's fields are damaged.
    package func merge(_ pages: [QueryPage]) throws(RelayError) -> QueryPage {
        guard pages.count > 1 else { return pages.first ?? QueryPage(records: [], next: nil) }
        var rests: [ArraySlice<Entry>] = []
        for page in pages {
            var entries: [Entry] = []
            for (zone, record) in page.records {
                entries.append(Entry(position: try position(of: record, in: zone), zone: zone, record: record))
            }
            rests.append(entries[...])
        }
        var merged: [Entry] = []
        var room = bytes
        var isCut = false
        while let place = first(of: rests), let entry = rests[place].first {
            guard merged.count < limit, merged.isEmpty || room > 0 else {
                isCut = true
                break
            }
            merged.append(entry)
            room -= entry.record.fields.count
            rests[place].removeFirst()
            // What follows on this shard may come before what the others have.
            if rests[place].isEmpty, pages[place].next != nil {
                isCut = true
                break
            }
        }
        let hasMore = isCut || pages.contains { $0.next != nil }
        return QueryPage(
            records: merged.map { ($0.zone, $0.record) },
            next: hasMore ? merged.last?.position ?? pages.compactMap(\.next).first : nil
        )
    }

    private func position(of record: StoredRecord, in zone: ZoneID) throws(RelayError) -> Query.Position {
        let values = try QueryValues(record, fields: order.fieldNames)
        return Query.Position(keys: order.keys(of: values), recordName: record.name, zone: zone)
    }

    /// Returns the place of the list whose first entry is the next one.
    private func first(of rests: [ArraySlice<Entry>]) -> Int? {
        rests.indices.filter { !rests[$0].isEmpty }.min { a, b in
            guard let x = rests[a].first, let y = rests[b].first else { return false }
            return order.areInOrder(x.position, y.position)
        }
    }
}
