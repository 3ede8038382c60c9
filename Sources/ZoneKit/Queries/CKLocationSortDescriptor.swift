public import Foundation

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
            super.init(keyPath: \FieldNames[key], ascending: true)
        #endif
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
