public import Foundation
import Records

#if canImport(CoreLocation)
    public import CoreLocation
#endif

/// Sorts a query's results by the distance of their location from another location, nearest first.
public final class CKLocationSortDescriptor: NSSortDescriptor {
    /// The location from which distances are measured.
    public let relativeLocation: CLLocation

    /// Creates a sort descriptor for a location field.
    ///
    /// - Parameters:
    ///   - key: The name of the field.
    ///   - relativeLocation: The location from which distances are measured.
    public init(key: String, relativeLocation: CLLocation) {
        self.relativeLocation = relativeLocation
        #if canImport(Darwin)
            super.init(key: key, ascending: true, selector: nil)
        #else
            super.init(keyPath: \NSObject[sortedBy: key], ascending: true)
        #endif
    }

    /// Compares the distances of two records.
    ///
    /// A record without a location comes last.
    public override func compare(_ object1: Any, to object2: Any) -> ComparisonResult {
        let (one, other) = (distance(of: object1), distance(of: object2))
        return one < other ? .orderedAscending : one > other ? .orderedDescending : .orderedSame
    }

    private func distance(of object: Any) -> Double {
        guard let name = fieldName, case .location(let place)? = (object as? NSObject)?[sortedBy: name].value else {
            return .infinity
        }
        return relativeLocation.distance(from: CLLocation(place))
    }

    #if canImport(Darwin)
        /// Creates a sort descriptor from the output of `encode(with:)`.
        public required init?(coder: NSCoder) {
            guard let place = coder.object(CLLocation.self, "RelativeLocation") else { return nil }
            relativeLocation = place
            super.init(coder: coder)
        }

        /// Encodes the field and the location.
        public override func encode(with coder: NSCoder) {
            super.encode(with: coder)
            coder.encode(relativeLocation, forKey: "RelativeLocation")
        }
    #endif
}
