#if canImport(CoreLocation)
    @_exported public import CoreLocation
#else
    public import Foundation

    /// Degrees of latitude or longitude.
    public typealias CLLocationDegrees = Double
    /// Metres.
    public typealias CLLocationDistance = Double
    /// Metres; negative: not known.
    public typealias CLLocationAccuracy = Double
    /// Metres a second; negative: not known.
    public typealias CLLocationSpeed = Double
    /// Degrees clockwise from north; negative: not known.
    public typealias CLLocationDirection = Double

    /// A point on Earth.
    public struct CLLocationCoordinate2D: Sendable {
        /// Degrees north, -90 to 90.
        public var latitude: CLLocationDegrees
        /// Degrees east, -180 to 180.
        public var longitude: CLLocationDegrees

        /// The point at 0, 0.
        public init() { self.init(latitude: 0, longitude: 0) }

        /// A point by degrees.
        public init(latitude: CLLocationDegrees, longitude: CLLocationDegrees) {
            self.latitude = latitude
            self.longitude = longitude
        }
    }

    /// What stands for no point.
    public let kCLLocationCoordinate2DInvalid = CLLocationCoordinate2D(latitude: -180, longitude: -180)

    /// A point by degrees.
    public func CLLocationCoordinate2DMake(
        _ latitude: CLLocationDegrees,
        _ longitude: CLLocationDegrees
    ) -> CLLocationCoordinate2D {
        CLLocationCoordinate2D(latitude: latitude, longitude: longitude)
    }

    /// Whether there is such a point.
    public func CLLocationCoordinate2DIsValid(_ coord: CLLocationCoordinate2D) -> Bool {
        abs(coord.latitude) <= 90 && abs(coord.longitude) <= 180
    }

    /// A place as a record's field holds it, in the shape of Core Location, which Linux does not have.
    ///
    /// Immutable. What is not known is negative, as there.
    public final class CLLocation: NSObject, NSSecureCoding, NSCopying, Sendable {
        /// Where.
        public let coordinate: CLLocationCoordinate2D
        /// Metres above sea level.
        public let altitude: CLLocationDistance
        /// How far off the point may be.
        public let horizontalAccuracy: CLLocationAccuracy
        /// How far off the altitude may be.
        public let verticalAccuracy: CLLocationAccuracy
        /// Where it was moving.
        public let course: CLLocationDirection
        /// How fast it was moving.
        public let speed: CLLocationSpeed
        /// When.
        public let timestamp: Date

        /// A place of which only the point is known, now.
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

        /// A place of which the movement is not known.
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

        /// A place of which all is known.
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

        /// Reads what `encode(with:)` wrote.
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

        /// Secure coding is supported.
        public static var supportsSecureCoding: Bool { true }

        /// Writes all that is known.
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

        /// The same object: it cannot change.
        public func copy(with zone: NSZone? = nil) -> Any { self }

        /// Metres along the Earth's surface, taken as a sphere.
        public func distance(from location: CLLocation) -> CLLocationDistance {
            let radians = Double.pi / 180
            let (a, b) = (coordinate, location.coordinate)
            let north = sin((b.latitude - a.latitude) * radians / 2)
            let east = sin((b.longitude - a.longitude) * radians / 2)
            let h = north * north + cos(a.latitude * radians) * cos(b.latitude * radians) * east * east
            return 2 * 6_371_009 * asin(min(1, h.squareRoot()))
        }

        /// Equal when all that is known is.
        public override func isEqual(_ object: Any?) -> Bool {
            guard let other = object as? CLLocation else { return false }
            return coordinate.latitude == other.coordinate.latitude
                && coordinate.longitude == other.coordinate.longitude
                && altitude == other.altitude && horizontalAccuracy == other.horizontalAccuracy
                && verticalAccuracy == other.verticalAccuracy && course == other.course && speed == other.speed
                && timestamp == other.timestamp
        }

        /// Agrees with `isEqual(_:)`.
        public override var hash: Int { coordinate.latitude.hashValue ^ coordinate.longitude.hashValue }
    }
#endif
