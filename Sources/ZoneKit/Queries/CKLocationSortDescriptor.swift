public import Foundation
import Records

#if canImport(CoreLocation)
    public import CoreLocation
#endif

/// Sorts a query's results by how far a place of theirs is from another, the nearest first.
public final class CKLocationSortDescriptor: NSSortDescriptor {
    /// Where distances are taken from.
    public let relativeLocation: CLLocation

    /// Sorts by the distance of a location field.
    ///
    /// - Parameters:
    ///   - key: The field.
    ///   - relativeLocation: Where distances are taken from.
    public init(key: String, relativeLocation: CLLocation) {
        self.relativeLocation = relativeLocation
        #if canImport(Darwin)
            super.init(key: key, ascending: true, selector: nil)
        #else
            super.init(keyPath: \NSObject[sortedBy: key], ascending: true)
        #endif
    }

    /// Which of two records is nearer; one without a place comes last.
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
        /// Reads what `encode(with:)` wrote.
        public required init?(coder: NSCoder) {
            guard let place = coder.object(CLLocation.self, "RelativeLocation") else { return nil }
            relativeLocation = place
            super.init(coder: coder)
        }

        /// Writes the field and the place.
        public override func encode(with coder: NSCoder) {
            super.encode(with: coder)
            coder.encode(relativeLocation, forKey: "RelativeLocation")
        }
    #endif
}
