#if canImport(CoreLocation)
    @_exported public import CoreLocation
#else
    public import Foundation

    /// A latitude or longitude in degrees.
    public typealias CLLocationDegrees = Double
    /// A distance in metres.
    public typealias CLLocationDistance = Double
    /// An accuracy in metres; negative if unknown.
    public typealias CLLocationAccuracy = Double
    /// A speed in metres per second; negative if unknown.
    public typealias CLLocationSpeed = Double
    /// A direction in degrees clockwise from north; negative if unknown.
    public typealias CLLocationDirection = Double

    /// A geographic coordinate.
    public struct CLLocationCoordinate2D: Sendable {
        /// The latitude in degrees north, from -90 to 90.
        public var latitude: CLLocationDegrees
        /// The longitude in degrees east, from -180 to 180.
        public var longitude: CLLocationDegrees

        /// Creates a coordinate at 0, 0.
        public init() { self.init(latitude: 0, longitude: 0) }

        /// Creates a coordinate.
        public init(latitude: CLLocationDegrees, longitude: CLLocationDegrees) {
            self.latitude = latitude
            self.longitude = longitude
        }
    }

    /// An invalid coordinate.
    public let kCLLocationCoordinate2DInvalid = CLLocationCoordinate2D(latitude: -180, longitude: -180)

    /// Returns a coordinate.
    public func CLLocationCoordinate2DMake(
        _ latitude: CLLocationDegrees,
        _ longitude: CLLocationDegrees
    ) -> CLLocationCoordinate2D {
        CLLocationCoordinate2D(latitude: latitude, longitude: longitude)
    }

    /// Returns whether a coordinate is valid.
    public func CLLocationCoordinate2DIsValid(_ coord: CLLocationCoordinate2D) -> Bool {
        abs(coord.latitude) <= 90 && abs(coord.longitude) <= 180
    }

    /// A location, as stored in a record's field; a replacement for Core Location, which Linux does not have.
    ///
    /// Locations are immutable. Unknown values are negative, as in Core Location.
    public final class CLLocation: NSObject, NSSecureCoding, NSCopying, Sendable {
        /// The coordinate.
        public let coordinate: CLLocationCoordinate2D
        /// The altitude in metres above sea level.
        public let altitude: CLLocationDistance
        /// The radius of uncertainty of the coordinate.
        public let horizontalAccuracy: CLLocationAccuracy
        /// The uncertainty of the altitude.
        public let verticalAccuracy: CLLocationAccuracy
        /// The direction of travel.
        public let course: CLLocationDirection
        /// The speed of travel.
        public let speed: CLLocationSpeed
        /// The time at which the location was determined.
        public let timestamp: Date

        /// Creates a location of which only the coordinate is known, at the current time.
        public convenience init(latitude: CLLocationDegrees, longitude: CLLocationDegrees) {
            self.init(
                coordinate: CLLocationCoordinate2D(latitude: latitude, longitude: longitude),
                altitude: 0,
                horizontalAccuracy: 0,
                verticalAccuracy: -1,
                course: -1,
                speed: -1,
                timestamp: Date()
            )
        }

        /// Creates a location without course and speed.
        public convenience init(
            coordinate: CLLocationCoordinate2D,
            altitude: CLLocationDistance,
            horizontalAccuracy: CLLocationAccuracy,
            verticalAccuracy: CLLocationAccuracy,
            timestamp: Date
        ) {
            self.init(
                coordinate: coordinate,
                altitude: altitude,
                horizontalAccuracy: horizontalAccuracy,
                verticalAccuracy: verticalAccuracy,
                course: -1,
                speed: -1,
                timestamp: timestamp
            )
        }

        /// Creates a location with all values.
        public init(
            coordinate: CLLocationCoordinate2D,
            altitude: CLLocationDistance,
            horizontalAccuracy: CLLocationAccuracy,
            verticalAccuracy: CLLocationAccuracy,
            course: CLLocationDirection,
            speed: CLLocationSpeed,
            timestamp: Date
        ) {
            self.coordinate = coordinate
            self.altitude = altitude
            self.horizontalAccuracy = horizontalAccuracy
            self.verticalAccuracy = verticalAccuracy
            self.course = course
            self.speed = speed
            self.timestamp = timestamp
        }

        /// Creates a location from the output of `encode(with:)`.
        public convenience init?(coder: NSCoder) {
            func number(_ key: String) -> Double {
                coder.containsValue(forKey: key) ? coder.decodeDouble(forKey: key) : 0
            }
            self.init(
                coordinate: CLLocationCoordinate2D(latitude: number("Latitude"), longitude: number("Longitude")),
                altitude: number("Altitude"),
                horizontalAccuracy: number("HorizontalAccuracy"),
                verticalAccuracy: number("VerticalAccuracy"),
                course: number("Course"),
                speed: number("Speed"),
                timestamp: Date(timeIntervalSinceReferenceDate: number("Timestamp"))
            )
        }

        /// Whether the class supports secure coding: always `true`.
        public static var supportsSecureCoding: Bool { true }

        /// Encodes all values.
        public func encode(with coder: NSCoder) {
            coder.encode(coordinate.latitude, forKey: "Latitude")
            coder.encode(coordinate.longitude, forKey: "Longitude")
            coder.encode(altitude, forKey: "Altitude")
            coder.encode(horizontalAccuracy, forKey: "HorizontalAccuracy")
            coder.encode(verticalAccuracy, forKey: "VerticalAccuracy")
            coder.encode(course, forKey: "Course")
            coder.encode(speed, forKey: "Speed")
            coder.encode(timestamp.timeIntervalSinceReferenceDate, forKey: "Timestamp")
        }

        /// Returns the same object, because it is immutable.
        public func copy(with zone: NSZone? = nil) -> Any { self }

        /// Returns the distance in metres along the Earth's surface, assuming a sphere.
        public func distance(from location: CLLocation) -> CLLocationDistance {
            let radians = Double.pi / 180
            let (a, b) = (coordinate, location.coordinate)
            let north = sin((b.latitude - a.latitude) * radians / 2)
            let east = sin((b.longitude - a.longitude) * radians / 2)
            let h = north * north + cos(a.latitude * radians) * cos(b.latitude * radians) * east * east
            return 2 * 6_371_009 * asin(min(1, h.squareRoot()))
        }

        /// Returns whether all values of two locations are equal.
        public override func isEqual(_ object: Any?) -> Bool {
            guard let other = object as? CLLocation else { return false }
            return coordinate.latitude == other.coordinate.latitude
                && coordinate.longitude == other.coordinate.longitude
                && altitude == other.altitude && horizontalAccuracy == other.horizontalAccuracy
                && verticalAccuracy == other.verticalAccuracy && course == other.course && speed == other.speed
                && timestamp == other.timestamp
        }

        /// A hash that is consistent with `isEqual(_:)`.
        public override var hash: Int { coordinate.latitude.hashValue ^ coordinate.longitude.hashValue }
    }
#endif
