#if !canImport(ObjectiveC)
    public import Foundation

    /// Casts between `CKError` and `NSError` at run time.
    ///
    /// Examples are `userInfo[CKPartialErrorsByItemIDKey] as? [CKRecord.ID: NSError]`, and `as? CKError` on any error.
    /// With an Objective-C runtime the system does this for its own errors; elsewhere the compiler calls these
    /// functions.
    extension CKError: _ObjectiveCBridgeable {
        /// Returns the error as an `NSError`.
        public func _bridgeToObjectiveC() -> NSError { _nsError }

        /// Converts an error of any domain; see `init(_nsError:)`.
        public static func _forceBridgeFromObjectiveC(_ source: NSError, result: inout CKError?) {
            result = CKError(_nsError: source)
        }

        /// Converts an error of `CKErrorDomain`.
        ///
        /// Returns `false` for other errors, which are not `CKError`s.
        @discardableResult
        public static func _conditionallyBridgeFromObjectiveC(_ source: NSError, result: inout CKError?) -> Bool {
            guard source.domain == CKErrorDomain else { return false }
            result = CKError(_nsError: source)
            return true
        }

        /// Converts an error of any domain; `nil` becomes an `internalError`.
        public static func _unconditionallyBridgeFromObjectiveC(_ source: NSError?) -> CKError {
            source.map { CKError(_nsError: $0) } ?? CKError(.internalError)
        }
    }
#endif
