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

    /// How far rounding, above all near the opposite place, may take a distance from the truth, in metres.
    package static let slack = 10.0

    /// Metres to the nearest point of a square; zero inside.
    package static func least(from place: Location, to square: GeoSquare) -> Double {
        let (south, north, west, east) = square.edges
        if place.longitude >= west, place.longitude <= east {
            let nearest = min(max(place.latitude, south), north)
            return earthRadius * radians(abs(place.latitude - nearest))
        }
        // Then it is on one of the two meridians: where a great circle from the place meets it at a right angle, or, since
        // from there on distance only grows either way, at an end.
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

    /// Metres to the farthest point of a square.
    package static func most(from place: Location, to square: GeoSquare) -> Double {
        longest - least(from: opposite(place), to: square)
    }

    /// The other end of the Earth.
    package static func opposite(_ place: Location) -> Location {
        Location(
            latitude: -place.latitude,
            longitude: place.longitude > 0 ? place.longitude - 180 : place.longitude + 180
        )
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
