#if !canImport(Darwin)
    public import Foundation

    /// On Apple's systems a `CGFloat` is an `NSNumber` wherever an object is asked for, and a number of a record is cast to it
    /// as to any other; Foundation on Linux does so for all numbers but this one.
    extension CGFloat: @retroactive _ObjectiveCBridgeable {
        /// The number as an object.
        public func _bridgeToObjectiveC() -> NSNumber { NSNumber(value: native) }

        /// Takes the value of a number.
        public static func _forceBridgeFromObjectiveC(_ source: NSNumber, result: inout CGFloat?) {
            result = CGFloat(source.doubleValue)
        }

        /// Takes the value of a number, which it always can.
        public static func _conditionallyBridgeFromObjectiveC(_ source: NSNumber, result: inout CGFloat?) -> Bool {
            result = CGFloat(source.doubleValue)
            return true
        }

        /// The value of a number; zero for none.
        public static func _unconditionallyBridgeFromObjectiveC(_ source: NSNumber?) -> CGFloat {
            CGFloat(source?.doubleValue ?? 0)
        }
    }
#endif
