import Records
import RelayCore

/// Visits records by distance from a place, ascending or descending.
///
/// Divides the globe into squares and those into quarters, always continuing with the square that may contain the next
/// record: a square with few entries is read, one with many is divided. A page therefore costs about the same wherever
/// its places are, and nothing before its start or after its end is read.
extension QueryRun {
    /// A square to visit, and the first rank that a place in it can have.
    private struct Waiting {
        var square: GeoSquare
        /// The distance; negative for a descending order.
        var rank: Double
    }

    /// The number of entries up to which a square is read at once.
    private static let fewInSquare = 16

    func visitByDistance(_ target: IndexTarget) throws {
        guard let place = place(of: target), let sort = order.sorts.first, let center = sort.relativeLocation else {
            return
        }
        let check = CandidateCheck(query.filters, run: self, through: nil)
        // A record without a place is farther than any other: see `QueryOrder`.
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
                // The square that comes first is last in the array, from which it is taken.
                let index = waiting.firstIndex { $0.rank <= first } ?? waiting.endIndex
                waiting.insert(Waiting(square: quarter, rank: first), at: index)
            }
        }
    }

    /// Returns whether the square overlaps all circles of the filters.
    private func mayMatch(_ square: GeoSquare) -> Bool {
        query.filters.allSatisfy { filter in
            guard filter.comparator == .near, filter.field == order.sorts.first?.field,
                case .location(let center)? = filter.values.first, let distance = filter.distance
            else { return true }
            return Distance.least(from: center, to: square) <= distance + Distance.slack
        }
    }

    /// Visits records without a place, which all have the same distance.
    ///
    /// - Returns: whether the page may have room for records after them.
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
