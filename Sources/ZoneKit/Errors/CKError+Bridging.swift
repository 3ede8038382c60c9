#if !canImport(ObjectiveC)
    public import Foundation

    /// Casts between `CKError` and `NSError` that are decided while the program runs, such as
    /// `userInfo[CKPartialErrorsByItemIDKey] as? [CKRecord.ID: NSError]`, or `as? CKError` on what a queue hands out.
    ///
    /// Where there is Objective-C the system does this for its own errors; elsewhere the compiler asks for these functions.
    extension CKError: _ObjectiveCBridgeable {
        /// The error in Foundation's form.
        public func _bridgeToObjectiveC() -> NSError { _nsError }

        /// Takes an error of any domain; see `init(_nsError:)`.
        public static func _forceBridgeFromObjectiveC(_ source: NSError, result: inout CKError?) {
            result = CKError(_nsError: source)
        }

        /// Takes an error of `CKErrorDomain`, and no other: an error of another kind is not a `CKError`.
        @discardableResult
        public static func _conditionallyBridgeFromObjectiveC(_ source: NSError, result: inout CKError?) -> Bool {
            guard source.domain == CKErrorDomain else { return false }
            result = CKError(_nsError: source)
            return true
        }

        /// Takes an error of any domain; an `internalError` where there is none.
        public static func _unconditionallyBridgeFromObjectiveC(_ source: NSError?) -> CKError {
            source.map { CKError(_nsError: $0) } ?? CKError(.internalError)
        }
    }
#endif
