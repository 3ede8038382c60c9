import Records
import RelayCore

/// Visits records in the order of the results.
extension QueryRun {
    /// A key that all records of a part of the order share in an earlier sort, and the index that contains it.
    private struct Shared {
        var index: Int64
        var key: QueryKey
    }

    /// Visits the entries of the first sort's index, or of the names, in the order of the results until the page is
    /// full.
    func visitInOrder(_ target: IndexTarget, _ range: KeyRange, _ check: CandidateCheck) throws {
        guard let place = place(of: target) else { return }
        try walk(place, range, sharing: [], check)
    }

    /// Visits the records that have the keys `shared` in the earlier sorts, through the index of the next sort.
    ///
    /// If many records have the same key and another sort follows, these are visited through that sort's index. A page
    /// sorted by a field with few different values and then by another field thus does not read all records with one
    /// value.
    private func walk(_ place: IndexPlace, _ range: KeyRange, sharing shared: [Shared], _ check: CandidateCheck) throws
    {
        let level = shared.count
        let isAscending = order.sorts.isEmpty ? order.namesAscend : order.sorts[level].isAscending
        // Entries of one key come in the order of names, in the direction of the scan. That is not the order of the
        // results if another sort follows or names are sorted the other way.
        let isLast = level + 1 >= order.sorts.count
        let isExact = isLast && order.namesAscend == isAscending
        var cursor = IndexCursor(
            place,
            zone: zoneNumber,
            range: range,
            ascending: isAscending,
            start: first(sharing: shared, isAscending, isExact),
            in: reader.database
        )
        var key: QueryKey?
        while let entry = try cursor.advance() {
            if isBeyond(entry, sharing: shared, isExact) { return }
            if !isLast, entry.key != key {
                key = entry.key
                if let (next, known) = try nextIndex(after: place, sharing: shared, entry.key) {
                    try walk(next, .everything, sharing: known, check)
                    let rest = range.intersection(.after(entry.key, ascending: isAscending))
                    cursor = IndexCursor(
                        place,
                        zone: zoneNumber,
                        range: rest,
                        ascending: isAscending,
                        in: reader.database
                    )
                    continue
                }
            }
            guard try hasShared(shared, entry.name) else {
                try countOne()
                continue
            }
            try offer(entry, check)
        }
    }

    /// Returns the entry to start at; `nil` for the beginning of the range.
    private func first(sharing shared: [Shared], _ isAscending: Bool, _ isExact: Bool) -> IndexEntry? {
        guard let start, start.keys.prefix(shared.count).elementsEqual(shared.map(\.key)) else { return nil }
        if order.sorts.isEmpty { return IndexEntry(key: .text(start.recordName), name: start.recordName) }
        guard shared.count < start.keys.count else { return nil }
        // Sorts before or after every record name.
        let edge = isAscending ? "" : "\u{7F}"
        return IndexEntry(key: start.keys[shared.count], name: isExact ? start.recordName : edge)
    }

    /// Returns whether the entry, and therefore all after it, come after the last record of a full page.
    private func isBeyond(_ entry: IndexEntry, sharing shared: [Shared], _ isExact: Bool) -> Bool {
        guard page.isFull, let last = page.entries.last?.position else { return false }
        let keys = order.sorts.isEmpty ? [] : shared.map(\.key) + [entry.key]
        for ((key, bar), sort) in zip(zip(keys, last.keys), order.sorts) where key != bar {
            return (key > bar) == sort.isAscending
        }
        return isExact && !page.takes(Query.Position(keys: keys, recordName: entry.name, zone: zone.id))
    }

    /// Returns the index of the next sort, if so many records share this key that it is worth using.
    private func nextIndex(
        after place: IndexPlace,
        sharing shared: [Shared],
        _ key: QueryKey
    ) throws -> (IndexPlace, [Shared])? {
        guard case .entries(let index) = place, order.sorts[shared.count + 1].relativeLocation == nil else {
            return nil
        }
        let scan = IndexScan(place, zone: zoneNumber, range: .only(key))
        guard try scan.count(upTo: tuning.manyEntries, in: reader.database) == tuning.manyEntries else {
            return nil
        }
        let target = IndexTarget.value(order.sorts[shared.count + 1].field)
        guard let next = self.place(of: target) else {
            missing.insert(target)
            return nil
        }
        return (next, shared + [Shared(index: index, key: key)])
    }

    private func hasShared(_ shared: [Shared], _ name: String) throws -> Bool {
        for one in shared
        where try !reader.hasEntry(index: one.index, zone: zoneNumber, key: one.key, name: name) {
            return false
        }
        return true
    }
}

extension KeyRange {
    /// Returns the keys after a given one, in ascending or descending order.
    fileprivate static func after(_ key: QueryKey, ascending: Bool) -> KeyRange {
        ascending ? KeyRange(lower: .excluding(key), upper: nil) : KeyRange(lower: nil, upper: .excluding(key))
    }
}
