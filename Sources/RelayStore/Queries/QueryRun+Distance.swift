import Records
import RelayCore

/// Walking in the order of distance from a place, near to far or far to near.
///
/// The globe is cut into squares, and those into quarters, always taking the one next that may hold what comes first: a
/// square with few entries is looked at, one with many is cut again. So a page costs about the same wherever its places
/// lie, and what comes before its beginning or beyond its end is never read.
extension QueryRun {
    /// A square that has not been looked at, and where in the order its first place can be.
    private struct Waiting {
        var square: GeoSquare
        /// A distance, counted downwards where the order is.
        var rank: Double
    }

    /// Entries of a square that are looked at together.
    private static let fewInSquare = 16

    func visitByDistance(_ target: IndexTarget) throws {
        guard let place = place(of: target), let sort = order.sorts.first, let center = sort.relativeLocation else {
            return
        }
        let check = CandidateCheck(query.filters, run: self, through: nil)
        // Without a place is farther than any: `QueryOrder`.
        guard sort.isAscending else {
            if try visitPlaceless(place, check) { try visitSquares(place, center, isAscending: false, check) }
            return
        }
        if start?.keys.first != .real(.infinity) { try visitSquares(place, center, isAscending: true, check) }
        if !page.isFull || page.entries.last?.position.keys.first == .real(.infinity) {
            _ = try visitPlaceless(place, check)
        }
    }

    private func visitSquares(
        _ place: IndexPlace,
        _ center: Location,
        isAscending: Bool,
        _ check: CandidateCheck
    ) throws {
        func rank(of distance: Double) -> Double { isAscending ? distance : -distance }
        var from = -Double.infinity
        if case .real(let distance)? = start?.keys.first, distance.isFinite {
            from = rank(of: distance) - Distance.slack
        }
        var waiting = [Waiting(square: .globe, rank: rank(of: isAscending ? 0 : Distance.longest))]
        while let next = waiting.popLast() {
            if let bar = page.entries.last?.position.keys.first, page.isFull, case .real(let distance) = bar,
                next.rank > rank(of: distance) + Distance.slack
            {
                return
            }
            let range = KeyRange(cells: next.square.cells)
            let count = try IndexScan(place, zone: zoneNumber, range: range)
                .count(upTo: Self.fewInSquare, in: reader.database)
            guard count == Self.fewInSquare, !next.square.quarters.isEmpty else {
                var cursor = IndexCursor(place, zone: zoneNumber, range: range, in: reader.database)
                while let entry = try cursor.advance() { try offer(entry, check) }
                continue
            }
            for quarter in next.square.quarters where mayMatch(quarter) {
                let ends = (Distance.least(from: center, to: quarter), Distance.most(from: center, to: quarter))
                let (first, last) = isAscending ? ends : (-ends.1, -ends.0)
                guard last >= from else { continue }
                // The one that comes first is at the end, where it is taken.
                let index = waiting.firstIndex { $0.rank <= first } ?? waiting.endIndex
                waiting.insert(Waiting(square: quarter, rank: first), at: index)
            }
        }
    }

    /// Whether the square reaches into all the circles that filters draw.
    private func mayMatch(_ square: GeoSquare) -> Bool {
        query.filters.allSatisfy { filter in
            guard filter.comparator == .near, filter.field == order.sorts.first?.field,
                case .location(let center)? = filter.values.first, let distance = filter.distance
            else { return true }
            return Distance.least(from: center, to: square) <= distance + Distance.slack
        }
    }

    /// Visits records without a place, which are all as far; says whether there may be room for others behind them.
    private func visitPlaceless(_ place: IndexPlace, _ check: CandidateCheck) throws -> Bool {
        let isLast = order.sorts.count == 1
        if let start, start.keys.first != .real(.infinity), !order.sorts[0].isAscending { return true }
        let begin = isLast && start?.keys.first == .real(.infinity) ? start?.recordName : nil
        var cursor = IndexCursor(
            place,
            zone: zoneNumber,
            range: .only(.absent),
            ascending: order.namesAscend,
            start: begin.map { IndexEntry(key: .absent, name: $0) },
            in: reader.database
        )
        while let entry = try cursor.advance() {
            let position = Query.Position(keys: [.real(.infinity)], recordName: entry.name, zone: zone.id)
            if isLast, !page.takes(position) { break }
            try offer(entry, check)
        }
        return !page.isFull || page.entries.last?.position.keys.first != .real(.infinity)
    }
}
