package import Records

/// One page of a zone's change feed: the records whose latest change came after a token.
///
/// A record appears in the feed once, in its newest state, at the position of its latest change. A client that applies
/// each page and stores its token misses nothing, however long it was offline. See Wire.md, "Change feeds" and
/// "changes/zone".
package struct ZoneChanges: Sendable {
    package var database: DatabaseAddress
    package var zone: ZoneID
    /// The client's token; `nil` starts from the beginning and then returns live records only.
    package var token: String?
    package var limit: Int
    /// Whether the page starts with the newest records.
    package var isReversed: Bool
    /// The record types to return; `nil` returns all.
    package var recordTypes: Set<String>?
    /// The maximum number of records to count for `Page.remaining`; `nil` if the client did not request the count.
    package var remainingCountLimit: Int?
    /// The maximum bytes of records to read; a page that reaches it ends, with more to come.
    package var maxBytes: Int

    package init(
        zone: ZoneID,
        of database: DatabaseAddress,
        token: String? = nil,
        limit: Int,
        isReversed: Bool = false,
        recordTypes: Set<String>? = nil,
        remainingCountLimit: Int? = nil,
        maxBytes: Int = .max
    ) {
        self.zone = zone
        self.database = database
        self.token = token
        self.limit = limit
        self.isReversed = isReversed
        self.recordTypes = recordTypes
        self.remainingCountLimit = remainingCountLimit
        self.maxBytes = maxBytes
    }

    /// A page's metadata.
    package struct Page: Hashable, Sendable {
        package var zone: Zone
        package var token: ChangeToken
        package var moreComing: Bool
        /// The number of live records after the page; `nil` if not requested or not known.
        package var remaining: Int?
        /// The number of records that were read to compute `remaining`.
        package var counted = 0
        /// The bytes of records that were read for the page.
        package var bytes = 0
    }

    /// Passes the page's records to `visit` in their order.
    ///
    /// If `wholeTypes` is given, records of other types are passed as rows if possible; see `StoreReader.visitRecords`.
    /// The page ends with the record for which `visit` returns `false`, because the response has no room for more.
    /// Without `hasRoom`, the page is empty.
    ///
    /// Throws `zoneNotFound`, `badRequest` for a default zone, and `changeTokenExpired` for a token of another zone, of
    /// a history that the store has lost, of the future, or from before the tombstone horizon.
    package func read(
        from reader: any StoreReader,
        epochs: Epochs,
        rowsExceptFor wholeTypes: Set<String>?,
        hasRoom: Bool = true,
        visit: (VisitedRecord) -> Bool
    ) throws(RelayError) -> Page {
        guard !zone.isDefault else { throw .badRequest("cannot get changes in default zone") }
        guard let zone = try reader.zone(zone, in: database) else { throw .zoneNotFound }
        guard let start = Start(token, of: zone, epochs) else { throw try refusal(in: zone, reader) }
        if let known = start.knownEnd,
            Self.misses(try reader.horizon(of: zone), from: max(known, zone.view?.since ?? 0))
        {
            throw .changeTokenExpired
        }
        // When reading backwards, records written in the meantime come after what was the first page.
        let top = start.top ?? zone.lastChange
        var end = ChangeToken(kind: .zone, log: zone.identity, epoch: epochs.current, position: top)
        guard let range = start.range(upTo: Self.lastShown(zone.lastChange)) else {
            return Page(zone: zone, token: end, moreComing: false)
        }
        guard hasRoom, maxBytes > 0 else {
            end.position = 0
            return Page(zone: zone, token: token.flatMap { ChangeToken(encoded: $0) } ?? end, moreComing: true)
        }

        // A participant receives no tombstones from before the zone was shared with them, whatever token they send.
        let listed = max(start.listsUpTo(zone.lastChange), zone.view?.since ?? 0)
        var scan = Scan(range, after: start.position, listed: listed)
        // The initial listing skips pages of tombstones within one response.
        for _ in 0..<(isReversed ? 1 : Self.maxPasses) where scan.moreComing && !scan.isFull && scan.live < limit {
            try pass(&scan, in: zone, from: reader, rowsExceptFor: wholeTypes, visit: visit)
        }
        if scan.moreComing, isReversed {
            end = end.reversed(below: scan.last, above: start.position)
        } else if scan.moreComing {
            end.position = Self.end(ofPageAt: scan.last)
            if scan.last < listed { end.floor = listed }
        }
        var page = Page(zone: zone, token: end, moreComing: scan.moreComing)
        page.bytes = scan.bytes
        if let remainingCountLimit, !isReversed {
            page.remaining =
                scan.moreComing ? try reader.countLive(in: zone, after: scan.last, atMost: remainingCountLimit) : 0
            page.counted = page.remaining ?? (zone.view?.isPartial == true ? 0 : remainingCountLimit)
        }
        return page
    }

    /// Reads the rest of the feed until the page is full, or to the end of the initial listing.
    private func pass(
        _ scan: inout Scan,
        in zone: Zone,
        from reader: any StoreReader,
        rowsExceptFor wholeTypes: Set<String>?,
        visit: (VisitedRecord) -> Bool
    ) throws(RelayError) {
        let (wanted, left, listed, aliases) = (limit - scan.live, scan.left, scan.listed, zone.aliases)
        let isListing = (isReversed ? left.upperBound : left.lowerBound) <= listed
        let part = isListing ? left.lowerBound...min(listed, left.upperBound) : left
        var count = 0
        try reader.visitRecords(
            in: zone,
            changes: part,
            states: isListing ? .living : .all,
            backwards: isReversed,
            limit: wanted,
            rowsExceptFor: aliases.isEmpty ? wholeTypes : nil
        ) { record, position in
            count += 1
            scan.meet(record, at: position, maxBytes)
            if record.isDeleted, position <= listed { return !scan.isFull }
            scan.live += 1
            if let recordTypes, !recordTypes.contains(record.type) { return !scan.isFull }
            let hasRoom =
                if !aliases.isEmpty, case .whole(let whole) = record {
                    visit(.whole(aliases.viewed(whole)))
                } else {
                    visit(record)
                }
            scan.isFull = scan.isFull || !hasRoom
            return !scan.isFull
        }
        scan.endPass(over: part, isCut: count == wanted || scan.isFull, isReversed)
    }

    /// Reads a page with every record as a `StoredRecord`.
    package func read(
        from reader: any StoreReader,
        epochs: Epochs,
        visit: (StoredRecord) -> Void
    ) throws(RelayError) -> Page {
        try read(from: reader, epochs: epochs, rowsExceptFor: nil) {
            if case .whole(let record) = $0 { visit(record) }
            return true
        }
    }

    /// Returns the error for a rejected token; for a token of an earlier zone of this name, it says how that zone
    /// ended.
    private func refusal(in zone: Zone, _ reader: any StoreReader) throws(RelayError) -> RelayError {
        var error = RelayError.changeTokenExpired
        if zone.view == nil, let token = token.flatMap({ ChangeToken(encoded: $0) }), token.kind != .database {
            error.formerZone = try reader.deletionReason(of: zone.id, identity: token.log)
        }
        return error
    }

    /// The maximum number of passes over tombstones in one response.
    private static let maxPasses = 50

    /// The progress of a page through the feed.
    private struct Scan {
        let range: ClosedRange<UInt64>
        /// Tombstones up to this position are not sent to this client.
        let listed: UInt64
        /// The part of the feed that no pass has read yet.
        var left: ClosedRange<UInt64>
        /// The position of the last record visited, or the end of the range that needs no visit.
        var last: UInt64
        var moreComing = true
        var isFull = false
        /// The number of records counted against the page's limit.
        var live = 0
        var bytes = 0

        init(_ range: ClosedRange<UInt64>, after position: UInt64, listed: UInt64) {
            (self.range, left, last, self.listed) = (range, range, position, listed)
        }

        mutating func meet(_ record: VisitedRecord, at position: UInt64, _ maxBytes: Int) {
            last = position
            bytes += record.bytes
            isFull = bytes >= maxBytes
        }

        /// Ends a pass; after the initial listing, the page continues with the changes made since the listing began.
        mutating func endPass(over part: ClosedRange<UInt64>, isCut: Bool, _ isReversed: Bool) {
            if !isCut, part.upperBound < left.upperBound {
                last = part.upperBound
            } else {
                moreComing = isCut && (isReversed ? last > range.lowerBound : last < range.upperBound)
            }
            if moreComing, !isReversed { left = last + 1...range.upperBound }
        }
    }

    /// The position at which a token continues.
    private struct Start {
        var position: UInt64 = 0
        /// When reading backwards: the position below which to continue.
        var ceiling: UInt64?
        /// When reading backwards: the end of the log at the first page.
        var top: UInt64?
        /// In the middle of an initial listing: the position at which the listing ends.
        private var listingEnd: UInt64 = 0

        /// Returns `nil` if the token is not valid in this zone.
        init?(_ text: String?, of zone: Zone, _ epochs: Epochs) {
            guard let text else { return }
            guard let token = ChangeToken(encoded: text), token.kind != .database, token.log == zone.identity,
                epochs.admit(token), max(token.position, token.top) <= zone.lastChange
            else { return nil }
            if token.kind == .reverse { (ceiling, top) = (token.position, token.top) }
            position = token.kind == .reverse ? token.floor : token.position
            if token.kind == .zone { listingEnd = token.floor }
        }

        /// The position up to which the client has received all tombstones that concern it; `nil` for a client without
        /// data.
        var knownEnd: UInt64? {
            if position == 0, listingEnd == 0 { return top }
            return max(position, listingEnd)
        }

        /// Returns the position up to which tombstones mean nothing to a client that started without data.
        func listsUpTo(_ lastChange: UInt64) -> UInt64 { position == 0 ? lastChange : listingEnd }

        /// Returns the positions to read; `nil` if nothing can have changed since.
        func range(upTo lastChange: UInt64) -> ClosedRange<UInt64>? {
            let upper = ceiling.map { $0 &- 1 } ?? lastChange
            return position < upper ? position + 1...upper : nil
        }
    }
}
