public import Foundation

/// The domain of all errors that this module throws.
public let CKErrorDomain = "CKErrorDomain"
/// The key in `userInfo` of a `partialFailure` for the errors by item ID, a dictionary.
public let CKPartialErrorsByItemIDKey = "CKPartialErrors"
/// The key in `userInfo` for the number of seconds to wait before a retry.
public let CKErrorRetryAfterKey = "CKRetryAfter"
/// The key in `userInfo` of a `serverRecordChanged` for the record on which the failed save was based.
public let CKRecordChangedErrorAncestorRecordKey = "AncestorRecord"
/// The key in `userInfo` of a `serverRecordChanged` for the relay's version of the record.
public let CKRecordChangedErrorServerRecordKey = "ServerRecord"
/// The key in `userInfo` of a `serverRecordChanged` for the record that could not be saved.
public let CKRecordChangedErrorClientRecordKey = "ClientRecord"
/// The key in `userInfo` of a `zoneNotFound` that tells whether the user has reset the encrypted data.
public let CKErrorUserDidResetEncryptedDataKey = "CKErrorUserDidResetEncryptedData"

/// An error of a call, with CloudKit's error codes and the details for handling it.
///
///     do { try await database.save(record) } catch let error as CKError where error.code == .serverRecordChanged {
///         let merged = merge(error.clientRecord, into: error.serverRecord)
///     }
///
/// `localizedDescription` says in one sentence what a person can do about the error. It contains no field values.
public struct CKError: CustomNSError, LocalizedError, Hashable, @unchecked Sendable {
    // Unchecked for the dictionary inside: it never changes, and contains only strings, numbers and this module's
    // types.

    /// The error as an `NSError`.
    public let _nsError: NSError

    /// Creates an error from an `NSError`.
    ///
    /// An error of another domain becomes the underlying error of an `internalError`.
    public init(_nsError error: NSError) {
        if error.domain == CKErrorDomain {
            _nsError = error
        } else {
            _nsError = NSError(
                domain: CKErrorDomain,
                code: Code.internalError.rawValue,
                userInfo: [NSUnderlyingErrorKey: error]
            )
        }
    }

    /// Creates an error with a code.
    ///
    /// If `userInfo` contains no description, the error explains the code.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
        var userInfo = userInfo
        // The app may pass an integer and read a `Double`.
        if let wait = userInfo[CKErrorRetryAfterKey] as? NSNumber { userInfo[CKErrorRetryAfterKey] = wait }
        if userInfo[NSLocalizedDescriptionKey] == nil { userInfo[NSLocalizedDescriptionKey] = code.explanation }
        _nsError = NSError(domain: CKErrorDomain, code: code.rawValue, userInfo: userInfo)
    }

    /// The same as `CKErrorDomain`.
    public static var errorDomain: String { CKErrorDomain }

    /// The error code.
    public var code: Code { Code(rawValue: _nsError.code) ?? .internalError }
    /// The number of the error code.
    public var errorCode: Int { _nsError.code }
    /// Details about the error, under the keys of this module and of Foundation.
    public var userInfo: [String: Any] { _nsError.userInfo }
    /// The same as `userInfo`.
    public var errorUserInfo: [String: Any] { _nsError.userInfo }

    /// What happened, and what a person can do about it.
    public var errorDescription: String? {
        (_nsError.userInfo[NSLocalizedDescriptionKey] as? String) ?? code.explanation
    }

    /// With `partialFailure`, the error of each failed item, by its ID.
    public var partialErrorsByItemID: [AnyHashable: any Error]? {
        _nsError.userInfo[CKPartialErrorsByItemIDKey] as? [AnyHashable: any Error]
    }

    /// With `serverRecordChanged`, the record before the changes that could not be saved.
    public var ancestorRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorAncestorRecordKey] as? CKRecord }
    /// With `serverRecordChanged`, the relay's version of the record.
    public var serverRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorServerRecordKey] as? CKRecord }
    /// With `serverRecordChanged`, the record that could not be saved.
    public var clientRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorClientRecordKey] as? CKRecord }

    /// The number of seconds to wait before a retry; `nil` if the relay has not specified it.
    public var retryAfterSeconds: Double? {
        (_nsError.userInfo[CKErrorRetryAfterKey] as? NSNumber)?.doubleValue
    }

    /// Returns whether code and details of two errors are equal.
    public static func == (a: CKError, b: CKError) -> Bool { a._nsError.isEqual(b._nsError) }

    /// A hash that is consistent with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(_nsError.code) }
}

extension CKError {
    /// Creates an error with a description, one sentence that says what a person can do.
    package init(_ code: Code, _ explanation: String, underlying: (any Error)? = nil) {
        var info: [String: Any] = [NSLocalizedDescriptionKey: explanation]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        self.init(code, userInfo: info)
    }

    /// Creates the error of a call in which some items failed.
    package static func partialFailure(_ errors: [AnyHashable: any Error]) -> CKError {
        CKError(
            .partialFailure,
            userInfo: [
                CKPartialErrorsByItemIDKey: errors,
                NSLocalizedDescriptionKey:
                    "\(errors.count) items failed. Their errors are in partialErrorsByItemID.",
            ]
        )
    }

    /// Returns the error with an additional detail.
    package func adding(_ key: String, _ value: Any?) -> CKError {
        guard let value else { return self }
        var info = userInfo
        info[key] = value
        return CKError(code, userInfo: info)
    }
}
