#if !canImport(Darwin)
    public import Foundation

    /// Bridges `CGFloat` to `NSNumber`, as on Apple platforms.
    ///
    /// Apple's Foundation converts a `CGFloat` to an `NSNumber` wherever an object is required, and casts a record's
    /// number back. Foundation on Linux does so for all number types except this one.
    extension CGFloat: @retroactive _ObjectiveCBridgeable {
        /// Returns the number as an object.
        public func _bridgeToObjectiveC() -> NSNumber { NSNumber(value: native) }

        /// Sets `result` to the value of a number.
        public static func _forceBridgeFromObjectiveC(_ source: NSNumber, result: inout CGFloat?) {
            result = CGFloat(source.doubleValue)
        }

        /// Sets `result` to the value of a number.
        ///
        /// Always succeeds.
        public static func _conditionallyBridgeFromObjectiveC(_ source: NSNumber, result: inout CGFloat?) -> Bool {
            result = CGFloat(source.doubleValue)
            return true
        }

        /// Returns the value of a number, or zero for `nil`.
        public static func _unconditionallyBridgeFromObjectiveC(_ source: NSNumber?) -> CGFloat {
            CGFloat(source?.doubleValue ?? 0)
        }
    }
#endif
