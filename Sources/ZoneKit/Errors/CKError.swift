public import Foundation

/// The domain of every error that this module throws.
public let CKErrorDomain = "CKErrorDomain"
/// In `userInfo` of a `partialFailure`: the errors by item ID, as a dictionary.
public let CKPartialErrorsByItemIDKey = "CKPartialErrors"
/// In `userInfo`: how many seconds to wait before trying again, as a number.
public let CKErrorRetryAfterKey = "CKRetryAfter"
/// In `userInfo` of a `serverRecordChanged`: the record that the saved one was made from.
public let CKRecordChangedErrorAncestorRecordKey = "AncestorRecord"
/// In `userInfo` of a `serverRecordChanged`: the record that the relay has.
public let CKRecordChangedErrorServerRecordKey = "ServerRecord"
/// In `userInfo` of a `serverRecordChanged`: the record that could not be saved.
public let CKRecordChangedErrorClientRecordKey = "ClientRecord"
/// In `userInfo` of a `zoneNotFound`: whether the user has reset the key of their encrypted data.
public let CKErrorUserDidResetEncryptedDataKey = "CKErrorUserDidResetEncryptedData"

/// Why a call failed: CloudKit's own codes, with what each needs to be handled.
///
///     do { try await database.save(record) } catch let error as CKError where error.code == .serverRecordChanged {
///         let merged = merge(error.clientRecord, into: error.serverRecord)
///     }
///
/// `localizedDescription` says in one sentence what a person can do; it holds no field values.
public struct CKError: CustomNSError, LocalizedError, Hashable, @unchecked Sendable {
    // Unchecked for the dictionary inside: it is never changed, and holds only strings, numbers and this module's types.

    /// The same error in Foundation's form.
    public let _nsError: NSError

    /// Takes an error in Foundation's form; one of another domain becomes an `internalError` that has it as its cause.
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

    /// Makes an error of a code; without a description of its own it explains the code.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
        var userInfo = userInfo
        // A program may give a whole number, and read seconds.
        if let wait = userInfo[CKErrorRetryAfterKey] as? NSNumber { userInfo[CKErrorRetryAfterKey] = wait }
        if userInfo[NSLocalizedDescriptionKey] == nil { userInfo[NSLocalizedDescriptionKey] = code.explanation }
        _nsError = NSError(domain: CKErrorDomain, code: code.rawValue, userInfo: userInfo)
    }

    /// `CKErrorDomain`.
    public static var errorDomain: String { CKErrorDomain }

    /// What went wrong; the part to switch over.
    public var code: Code { Code(rawValue: _nsError.code) ?? .internalError }
    /// The code's number.
    public var errorCode: Int { _nsError.code }
    /// Facts about the error, under the keys of this module and of Foundation.
    public var userInfo: [String: Any] { _nsError.userInfo }
    /// The same as `userInfo`.
    public var errorUserInfo: [String: Any] { _nsError.userInfo }

    /// What happened and what can be done about it.
    public var errorDescription: String? {
        (_nsError.userInfo[NSLocalizedDescriptionKey] as? String) ?? code.explanation
    }

    /// With `partialFailure`: each failed item's own error, by its ID.
    public var partialErrorsByItemID: [AnyHashable: any Error]? {
        _nsError.userInfo[CKPartialErrorsByItemIDKey] as? [AnyHashable: any Error]
    }

    /// With `serverRecordChanged`: the record as it was before the changes that could not be saved.
    public var ancestorRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorAncestorRecordKey] as? CKRecord }
    /// With `serverRecordChanged`: the record that the relay has.
    public var serverRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorServerRecordKey] as? CKRecord }
    /// With `serverRecordChanged`: the record that could not be saved.
    public var clientRecord: CKRecord? { _nsError.userInfo[CKRecordChangedErrorClientRecordKey] as? CKRecord }

    /// How many seconds to wait before trying again; `nil` where the relay named no time.
    public var retryAfterSeconds: Double? {
        (_nsError.userInfo[CKErrorRetryAfterKey] as? NSNumber)?.doubleValue
    }

    /// Equal when code and facts are.
    public static func == (a: CKError, b: CKError) -> Bool { a._nsError.isEqual(b._nsError) }

    /// Agrees with `==`.
    public func hash(into hasher: inout Hasher) { hasher.combine(_nsError.code) }
}

extension CKError {
    /// An error of one sentence; `explanation` must say what a person can do.
    package init(_ code: Code, _ explanation: String, underlying: (any Error)? = nil) {
        var info: [String: Any] = [NSLocalizedDescriptionKey: explanation]
        if let underlying { info[NSUnderlyingErrorKey] = underlying as NSError }
        self.init(code, userInfo: info)
    }

    /// The error of a call in which some items failed.
    package static func partialFailure(_ errors: [AnyHashable: any Error]) -> CKError {
        CKError(
            .partialFailure,
            userInfo: [
                CKPartialErrorsByItemIDKey: errors,
                NSLocalizedDescriptionKey:
                    "\(errors.count) items failed; each one's error is in partialErrorsByItemID.",
            ]
        )
    }

    /// The same error with one more fact.
    package func adding(_ key: String, _ value: Any?) -> CKError {
        guard let value else { return self }
        var info = userInfo
        info[key] = value
        return CKError(code, userInfo: info)
    }
}
