package import Records
package import RelayCore

/// What the query engine reads of one committed state of a store.
///
/// A call returns many entries where the engine needs many. It asks for records one at a time, because most queries stop
/// at the end of a page; a store on another machine reads them ahead in `prefetch`.
package protocol IndexReader: AnyObject {
    /// Returns the type's indexes that have not been dropped.
    func indexes(ofType type: Int64) throws -> [IndexTarget: FieldIndex]

    /// Returns whether the zone's records themselves are ordered by these values, so that no index needs them as
    /// entries: `IndexSource.records`.
    func isServedByRecords(_ target: IndexTarget, in zone: Int64) -> Bool

    /// Counts the entries of a scan, up to `limit`.
    func count(_ scan: IndexScan, upTo limit: Int) throws -> Int

    /// Counts the entries of several scans together; may stop once there are `limit`.
    func count(_ scans: [IndexScan], upTo limit: Int) throws -> Int

    /// Announces scans of which the engine will read the first portion at once.
    func prefetch(_ scans: [IndexScan]) throws

    /// Appends the next entries of a scan, at most `limit`; fewer mean that there are no more.
    func portion(of scan: IndexScan, limit: Int, into portion: inout [IndexEntry]) throws

    /// Announces entries whose names the engine is likely to look up next: first with `contains`, in these indexes, and
    /// then with `liveRecord`.
    func prefetch(_ entries: [IndexEntry], in zone: Zone, probing probes: [IndexProbe]) throws

    /// Returns whether an index contains this key for the record with this name.
    func contains(_ key: QueryKey, of name: String, index: Int64, in zone: Int64) throws -> Bool

    /// Returns the live record with this name, as the zone's view shows it.
    func liveRecord(named name: String, in zone: Zone) throws -> StoredRecord?

    /// Calls `visit` with the name of each live record of a type, and possibly with `nil` for records of other types.
    func names(ofType type: Int64, in zone: Zone, _ visit: (String?) throws -> Void) throws
}

extension IndexReader {
    /// Does nothing, as a store does whose look-ups take microseconds.
    package func prefetch(_ entries: [IndexEntry], in zone: Zone, probing probes: [IndexProbe]) throws {}

    /// Does nothing, as a store does whose scans take microseconds.
    package func prefetch(_ scans: [IndexScan]) throws {}

    package func count(_ scans: [IndexScan], upTo limit: Int) throws -> Int {
        var count = 0
        for scan in scans where count < limit { count += try self.count(scan, upTo: limit - count) }
        return count
    }
}

/// Where the entries of an index are.
package enum IndexSource: Hashable, Sendable {
    /// Among the entries of all indexes, under this number.
    case entries(Int64)
    /// In the records of this type, which the store has in the order of the values.
    case records(ofType: Int64)
}

/// An entry of an index: a key and the name of a record.
package struct IndexEntry: Hashable, Sendable {
    package var key: QueryKey
    package var name: String

    @inlinable package init(key: QueryKey, name: String) {
        self.key = key
        self.name = name
    }
}

/// The keys that an index must have, or must not have, for a record.
package struct IndexProbe: Hashable, Sendable {
    package var index: Int64
    package var probe: KeyProbe
}

/// A range of an index, to be visited in the order of keys and then names, forwards or backwards.
package struct IndexScan: Sendable {
    package let source: IndexSource
    package let zone: Int64
    /// The whole range, whatever part of it has been visited.
    package let range: KeyRange
    /// The entry to continue from, which is inside the range but need not exist; `nil` for the first one.
    package var from: (entry: IndexEntry, isIncluded: Bool)?
    package let isAscending: Bool

    package init(
        _ source: IndexSource,
        zone: Int64,
        range: KeyRange,
        from: (entry: IndexEntry, isIncluded: Bool)? = nil,
        _ isAscending: Bool = true
    ) {
        self.source = source
        self.zone = zone
        self.range = range
        self.from = from
        self.isAscending = isAscending
    }

    // The entry to continue from is inside the range, so the bound on its side is redundant. With two bounds on one
    // side, a database might start from the wrong one.

    /// The bound below, unless `from` takes its place.
    @inlinable package var lower: KeyRange.Bound? { from != nil && isAscending ? nil : range.lower }
    /// The bound above, unless `from` takes its place.
    @inlinable package var upper: KeyRange.Bound? { from != nil && !isAscending ? nil : range.upper }
}
