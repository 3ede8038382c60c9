/// A grid over the globe whose cells are numbered so that near places usually have near numbers.
///
/// Latitude and longitude are divided into 2^26 steps each (at most 0.6 m) and their bits interleaved (Morton order),
/// so that every aligned square with a power-of-two side is one range of numbers.
package enum GeoGrid {
    /// The number of bits per axis.
    static let bits = 26
    static let steps = UInt64(1) << UInt64(bits)

    /// Returns the step of `degrees` between `-half` and `half`; values outside are clamped.
    static func step(_ degrees: Double, half: Double) -> UInt64 {
        let scaled = ((degrees + half) / (2 * half) * Double(steps)).rounded(.down)
        return UInt64(max(0, min(scaled, Double(steps - 1))))
    }

    /// Interleaves the bits: latitude in the odd bits, longitude in the even ones.
    static func number(latitude: UInt64, longitude: UInt64) -> UInt64 { spread(latitude) << 1 | spread(longitude) }

    private static func spread(_ value: UInt64) -> UInt64 {
        var bits = value & 0xFFFF_FFFF
        bits = (bits | bits << 16) & 0x0000_FFFF_0000_FFFF
        bits = (bits | bits << 8) & 0x00FF_00FF_00FF_00FF
        bits = (bits | bits << 4) & 0x0F0F_0F0F_0F0F_0F0F
        bits = (bits | bits << 2) & 0x3333_3333_3333_3333
        return (bits | bits << 1) & 0x5555_5555_5555_5555
    }

    /// Returns the steps of a cell's latitude and longitude.
    static func steps(of number: UInt64) -> (latitude: UInt64, longitude: UInt64) {
        (gather(number >> 1), gather(number))
    }

    private static func gather(_ number: UInt64) -> UInt64 {
        var bits = number & 0x5555_5555_5555_5555
        bits = (bits | bits >> 1) & 0x3333_3333_3333_3333
        bits = (bits | bits >> 2) & 0x0F0F_0F0F_0F0F_0F0F
        bits = (bits | bits >> 4) & 0x00FF_00FF_00FF_00FF
        bits = (bits | bits >> 8) & 0x0000_FFFF_0000_FFFF
        return (bits | bits >> 16) & 0xFFFF_FFFF
    }

    /// Returns at most 18 ranges of cell numbers that cover every place between these edges, and some others.
    ///
    /// If `west` is greater than `east`, the box crosses the antimeridian.
    package static func ranges(
        south: Double,
        north: Double,
        west: Double,
        east: Double
    ) -> [ClosedRange<UInt64>] {
        if west > east {
            return merged(
                ranges(south: south, north: north, west: west, east: 180)
                    + ranges(south: south, north: north, west: -180, east: east)
            )
        }
        let rows = step(south, half: 90)...step(north, half: 90)
        let columns = step(west, half: 180)...step(east, half: 180)
        let widest = max(rows.upperBound - rows.lowerBound, columns.upperBound - columns.lowerBound)
        // Squares of at least half the width of the box: three per side cover it.
        let level = UInt64(max(0, UInt64.bitWidth - widest.leadingZeroBitCount - 1))
        var found: [ClosedRange<UInt64>] = []
        for row in rows.lowerBound >> level...rows.upperBound >> level {
            for column in columns.lowerBound >> level...columns.upperBound >> level {
                let first = number(latitude: row << level, longitude: column << level)
                found.append(first...first + (UInt64(1) << (2 * level)) - 1)
            }
        }
        return merged(found)
    }

    private static func merged(_ ranges: [ClosedRange<UInt64>]) -> [ClosedRange<UInt64>] {
        ranges.sorted { $0.lowerBound < $1.lowerBound }.reduce(into: []) { merged, next in
            if let last = merged.last, next.lowerBound <= last.upperBound + 1 {
                merged[merged.count - 1] = last.lowerBound...max(last.upperBound, next.upperBound)
            } else {
                merged.append(next)
            }
        }
    }
}

/// An aligned square of the grid with a power-of-two side: one range of cell numbers.
package struct GeoSquare: Hashable, Sendable {
    private let first: UInt64
    /// The side is 2^level steps.
    private let level: Int

    package static let globe = GeoSquare(first: 0, level: GeoGrid.bits)

    package var cells: ClosedRange<UInt64> { first...first + (UInt64(1) << UInt64(2 * level)) - 1 }

    /// The four squares of half the side; empty for a single cell.
    package var quarters: [GeoSquare] {
        guard level > 0 else { return [] }
        return (0..<4).map { GeoSquare(first: first + $0 << UInt64(2 * (level - 1)), level: level - 1) }
    }

    /// The edges in degrees.
    package var edges: (south: Double, north: Double, west: Double, east: Double) {
        let (row, column) = GeoGrid.steps(of: first)
        let side = UInt64(1) << UInt64(level)
        func degrees(_ step: UInt64, _ half: Double) -> Double {
            Double(step) / Double(GeoGrid.steps) * 2 * half - half
        }
        return (degrees(row, 90), degrees(row + side, 90), degrees(column, 180), degrees(column + side, 180))
    }
}

extension Location {
    /// The number of the grid cell; 52 bits.
    package var cell: UInt64 {
        GeoGrid.number(latitude: GeoGrid.step(latitude, half: 90), longitude: GeoGrid.step(longitude, half: 180))
    }
}
