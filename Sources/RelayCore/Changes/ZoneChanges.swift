package import Records

/// One page of a zone's change feed: the records whose latest change came after a token.
///
/// See Wire.md, "Change feeds" and "changes/zone".
///
/// A record stands in the feed once, in its newest state, at the place of its latest change. So whoever applies a page
/// and keeps its token misses nothing, however long they were away.
package struct ZoneChanges: Sendable {
    package var database: DatabaseAddress
    package var zone: ZoneID
    /// As the client sent it; `nil` starts from nothing and then gets live records only.
    package var token: String?
    package var limit: Int
    /// Newest first.
    package var isReversed: Bool
    /// `nil`: all of them.
    package var recordTypes: Set<String>?
    /// How many records may be looked at to say how much there is after the page; `nil` where nobody asks.
    package var countsRest: Int?
    /// How many bytes of records may be looked at: a page that has so many ends, with more to come.
    package var mostBytes: Int

    package init(
        zone: ZoneID,
        of database: DatabaseAddress,
        token: String? = nil,
        limit: Int,
        isReversed: Bool = false,
        recordTypes: Set<String>? = nil,
        countsRest: Int? = nil,
        mostBytes: Int = .max
    ) {
        self.zone = zone
        self.database = database
        self.token = token
        self.limit = limit
        self.isReversed = isReversed
        self.recordTypes = recordTypes
        self.countsRest = countsRest
        self.mostBytes = mostBytes
    }

    /// What a page says of itself beside its records.
    package struct Page: Hashable, Sendable {
        package var zone: Zone
        package var token: ChangeToken
        package var moreComing: Bool
        /// How many live records follow; `nil` where nobody asked, or it cannot be told.
        package var remaining: Int?
        /// How many records were looked at for that.
        package var counted = 0
        /// Bytes of records that were looked at for the page.
        package var bytes = 0
    }

    /// Hands the page's records to `visit` in their order; where `wholeTypes` is given, those of other types as they
    /// lie in the store, if they can.
    ///
    /// The page ends with the record for which `visit` says that there is no room for another, and has none where there was no
    /// room from the start.
    ///
    /// Throws `zoneNotFound`, `badRequest` for a default zone, and `changeTokenExpired` for a token of another zone or another
    /// past of the store, for one of the future, and for one that is older than the tombstone horizon.
    package func read(
        from reader: any StoreReader,
        epochs: Epochs,
        lendingAllBut wholeTypes: Set<String>?,
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
        // Read backwards, what is written meanwhile comes after the page that was the first.
        let top = start.top ?? zone.lastChange
        var end = ChangeToken(kind: .zone, log: zone.identity, epoch: epochs.current, position: top)
        guard let range = start.range(upTo: zone.lastChange) else {
            return Page(zone: zone, token: end, moreComing: false)
        }
        guard hasRoom, mostBytes > 0 else {
            end.position = 0
            return Page(zone: zone, token: token.flatMap { ChangeToken(encoded: $0) } ?? end, moreComing: true)
        }

        // To whom the zone was given, nothing is told of what was gone by then, whatever token they have made up.
        let listed = max(start.listsUpTo(zone.lastChange), zone.view?.since ?? 0)
        var scan = Scan(range, after: start.position, listed: listed)
        // A listing passes over tombstones without an answer for every page of them.
        for _ in 0..<(isReversed ? 1 : Self.maxPasses) where scan.moreComing && !scan.isFull && scan.live < limit {
            try pass(&scan, in: zone, from: reader, lendingAllBut: wholeTypes, visit: visit)
        }
        if scan.moreComing, isReversed {
            end = end.reversed(below: scan.last, above: start.position)
        } else if scan.moreComing {
            end.position = Self.end(ofPageAt: scan.last)
            if scan.last < listed { end.floor = listed }
        }
        var page = Page(zone: zone, token: end, moreComing: scan.moreComing)
        page.bytes = scan.bytes
        if let countsRest, !isReversed {
            page.remaining = scan.moreComing ? try reader.countLive(in: zone, after: scan.last, atMost: countsRest) : 0
            page.counted = page.remaining ?? (zone.view?.isPartial == true ? 0 : countsRest)
        }
        return page
    }

    /// Goes through what is left of the feed, as far as the page has room, or to the end of a listing.
    private func pass(
        _ scan: inout Scan,
        in zone: Zone,
        from reader: any StoreReader,
        lendingAllBut wholeTypes: Set<String>?,
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
            lendingAllBut: aliases.isEmpty ? wholeTypes : nil
        ) { record, position in
            count += 1
            scan.meet(record, at: position, mostBytes)
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

    /// The same, with every record whole.
    package func read(
        from reader: any StoreReader,
        epochs: Epochs,
        visit: (StoredRecord) -> Void
    ) throws(RelayError) -> Page {
        try read(from: reader, epochs: epochs, lendingAllBut: nil) {
            if case .whole(let record) = $0 { visit(record) }
            return true
        }
    }

    /// Whoever comes with a token of an earlier zone of this name holds what was in that one, and is told how it ended.
    private func refusal(in zone: Zone, _ reader: any StoreReader) throws(RelayError) -> RelayError {
        var error = RelayError.changeTokenExpired
        if zone.view == nil, let token = token.flatMap({ ChangeToken(encoded: $0) }), token.kind != .database {
            error.formerZone = try reader.loss(of: zone.id, identity: token.log)
        }
        return error
    }

    /// How many pages of tombstones one answer may pass over.
    private static let maxPasses = 50

    /// How far a page has come.
    private struct Scan {
        let range: ClosedRange<UInt64>
        /// Tombstones up to here are nothing to whoever asks.
        let listed: UInt64
        /// What no pass has gone through.
        var left: ClosedRange<UInt64>
        /// Where the last record stood that was met, or what nobody has to look for ends.
        var last: UInt64
        var moreComing = true
        var isFull = false
        /// Records that the page's limit counts.
        var live = 0
        var bytes = 0

        init(_ range: ClosedRange<UInt64>, after position: UInt64, listed: UInt64) {
            (self.range, left, last, self.listed) = (range, range, position, listed)
        }

        mutating func meet(_ record: VisitedRecord, at position: UInt64, _ mostBytes: Int) {
            last = position
            bytes += record.bytes
            isFull = bytes >= mostBytes
        }

        /// What a listing ends with is followed by what has changed since it began.
        mutating func endPass(over part: ClosedRange<UInt64>, isCut: Bool, _ isReversed: Bool) {
            if !isCut, part.upperBound < left.upperBound {
                last = part.upperBound
            } else {
                moreComing = isCut && (isReversed ? last > range.lowerBound : last < range.upperBound)
            }
            if moreComing, !isReversed { left = last + 1...range.upperBound }
        }
    }

    /// Where a token says to go on.
    private struct Start {
        var position: UInt64 = 0
        /// Going backwards: below this one.
        var ceiling: UInt64?
        /// Likewise: where the log ended at first.
        var top: UInt64?
        /// In the middle of a listing from nothing: where it ends.
        private var listingEnd: UInt64 = 0

        /// `nil` for a token that leads nowhere in this zone.
        init?(_ text: String?, of zone: Zone, _ epochs: Epochs) {
            guard let text else { return }
            guard let token = ChangeToken(encoded: text), token.kind != .database, token.log == zone.identity,
                epochs.admit(token), max(token.position, token.top) <= zone.lastChange
            else { return nil }
            if token.kind == .reverse { (ceiling, top) = (token.position, token.top) }
            position = token.kind == .reverse ? token.floor : token.position
            if token.kind == .zone { listingEnd = token.floor }
        }

        /// Tombstones up to here are nothing to whoever comes with the token; `nil`: none is, to whoever comes with nothing.
        var knownEnd: UInt64? {
            if position == 0, listingEnd == 0 { return top }
            return max(position, listingEnd)
        }

        /// Tombstones up to here mean nothing to whoever began with nothing.
        func listsUpTo(_ lastChange: UInt64) -> UInt64 { position == 0 ? lastChange : listingEnd }

        /// `nil` when nothing can have come since.
        func range(upTo lastChange: UInt64) -> ClosedRange<UInt64>? {
            let upper = ceiling.map { $0 &- 1 } ?? lastChange
            return position < upper ? position + 1...upper : nil
        }
    }
}
