import Foundation
package import Records

#if canImport(CoreLocation)
    package import CoreLocation
#endif

extension CLLocation {
    /// The location in its wire form.
    package var value: Location {
        var place = Location(latitude: coordinate.latitude, longitude: coordinate.longitude)
        place.horizontalAccuracy = horizontalAccuracy
        place.verticalAccuracy = verticalAccuracy
        place.altitude = altitude
        place.course = course
        place.speed = speed
        place.timestamp = Timestamp(timestamp)
        return place
    }

    package convenience init(_ place: Location) {
        self.init(
            coordinate: CLLocationCoordinate2D(latitude: place.latitude, longitude: place.longitude),
            altitude: place.altitude ?? 0,
            horizontalAccuracy: place.horizontalAccuracy ?? 0,
            verticalAccuracy: place.verticalAccuracy ?? -1,
            course: place.course ?? -1,
            speed: place.speed ?? -1,
            timestamp: place.timestamp.map { Date($0) } ?? Date(timeIntervalSince1970: 0)
        )
    }
}
