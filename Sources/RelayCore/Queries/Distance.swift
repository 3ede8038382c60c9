import Foundation
package import Records

/// Places on the globe, taken as a sphere of the Earth's mean radius: within half a percent of the ellipsoid.
package enum Distance {
    /// Metres.
    static let earthRadius = 6_371_008.8
    /// Metres between a place and the opposite one.
    package static let longest = earthRadius * .pi

    /// Metres along the great circle.
    package static func between(_ a: Location, _ b: Location) -> Double {
        let (latitudeA, latitudeB) = (radians(a.latitude), radians(b.latitude))
        let north = sin((latitudeB - latitudeA) / 2)
        let east = sin(radians(b.longitude - a.longitude) / 2)
        let chord = north * north + cos(latitudeA) * cos(latitudeB) * east * east
        return 2 * earthRadius * asin(min(1, chord.squareRoot()))
    }

    /// Ranges of grid cells that hold every place within `radius` metres of `center`.
    package static func cells(within radius: Double, of center: Location) -> [ClosedRange<UInt64>] {
        // A little more than asked, so that rounding loses nobody.
        let angle = radius / earthRadius * 1.000_001 + 1e-9
        guard angle < .pi else { return GeoGrid.ranges(south: -90, north: 90, west: -180, east: 180) }
        let reach = angle * 180 / .pi
        let (south, north) = (center.latitude - reach, center.latitude + reach)
        guard south > -90, north < 90 else {
            // A pole is inside: then every longitude is.
            return GeoGrid.ranges(south: max(-90, south), north: min(90, north), west: -180, east: 180)
        }
        let sideways = asin(min(1, sin(angle) / cos(radians(center.latitude)))) * 180 / .pi
        return GeoGrid.ranges(
            south: south,
            north: north,
            west: wrapped(center.longitude - sideways),
            east: wrapped(center.longitude + sideways)
        )
    }

    private static func radians(_ degrees: Double) -> Double { degrees * .pi / 180 }

    private static func wrapped(_ longitude: Double) -> Double {
        longitude < -180 ? longitude + 360 : longitude > 180 ? longitude - 360 : longitude
    }
}
