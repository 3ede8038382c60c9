import Foundation
package import Records

/// Distances on a sphere of the Earth's mean radius, which are within 0.5 % of those on the ellipsoid.
package enum Distance {
    /// In metres.
    static let earthRadius = 6_371_008.8
    /// The distance between antipodes, in metres.
    package static let longest = earthRadius * .pi

    /// Returns the great-circle distance in metres.
    package static func between(_ a: Location, _ b: Location) -> Double {
        let (latitudeA, latitudeB) = (radians(a.latitude), radians(b.latitude))
        let north = sin((latitudeB - latitudeA) / 2)
        let east = sin(radians(b.longitude - a.longitude) / 2)
        let chord = north * north + cos(latitudeA) * cos(latitudeB) * east * east
        return 2 * earthRadius * asin(min(1, chord.squareRoot()))
    }

    /// The maximum rounding error of a distance in metres, largest near the antipode.
    package static let slack = 10.0

    /// Returns the distance to the nearest point of a square in metres; 0 inside.
    package static func least(from place: Location, to square: GeoSquare) -> Double {
        let (south, north, west, east) = square.edges
        if place.longitude >= west, place.longitude <= east {
            let nearest = min(max(place.latitude, south), north)
            return earthRadius * radians(abs(place.latitude - nearest))
        }
        // The nearest point is on one of the two meridians: where a great circle from the place meets it at a right
        // angle, or at an end, since the distance grows in both directions from that point.
        let latitude = radians(place.latitude)
        var least = longest
        for meridian in [west, east] {
            let sideways = radians(meridian - place.longitude)
            let foot = atan2(sin(latitude), cos(latitude) * cos(sideways)) * 180 / .pi
            for nearest in [south, north, min(max(foot, south), north)] {
                least = min(least, between(place, Location(latitude: nearest, longitude: meridian)))
            }
        }
        return least
    }

    /// Returns the distance to the farthest point of a square in metres.
    package static func most(from place: Location, to square: GeoSquare) -> Double {
        longest - least(from: opposite(place), to: square)
    }

    /// Returns the antipode of a place.
    package static func opposite(_ place: Location) -> Location {
        Location(
            latitude: -place.latitude,
            longitude: place.longitude > 0 ? place.longitude - 180 : place.longitude + 180
        )
    }

    /// Returns ranges of grid cells that contain every place within `radius` metres of `center`.
    package static func cells(within radius: Double, of center: Location) -> [ClosedRange<UInt64>] {
        // Slightly enlarged, so that rounding excludes no place.
        let angle = radius / earthRadius * 1.000_001 + 1e-9
        guard angle < .pi else { return GeoGrid.ranges(south: -90, north: 90, west: -180, east: 180) }
        let reach = angle * 180 / .pi
        let (south, north) = (center.latitude - reach, center.latitude + reach)
        guard south > -90, north < 90 else {
            // If a pole is inside, so is every longitude.
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
