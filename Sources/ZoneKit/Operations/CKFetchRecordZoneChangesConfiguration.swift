public import Foundation

/// How to fetch one zone; programs say `CKFetchRecordZoneChangesOperation.ZoneConfiguration`.
///
/// On its own, not inside the operation: Foundation on Linux archives no class that has another one around it.
open class CKFetchRecordZoneChangesConfiguration: NSObject, NSSecureCoding, NSCopying, @unchecked Sendable {
    // Unchecked as the operation: set up by one thread before it begins.

    /// How far the caller has come in the zone; `nil`: from the start.
    open var previousServerChangeToken: CKServerChangeToken?
    /// At most so many records in one answer; 0: as many as the relay gives.
    open var resultsLimit: Int
    /// The fields wanted; `nil`: all.
    open var desiredKeys: [CKRecord.FieldKey]?

    /// From the start, all fields.
    public override convenience init() { self.init(previousServerChangeToken: nil, resultsLimit: nil) }

    /// Says how to fetch a zone.
    ///
    /// - Parameters:
    ///   - previousServerChangeToken: How far the caller has come.
    ///   - resultsLimit: At most so many records in one answer.
    ///   - desiredKeys: The fields wanted; left out, all.
    public init(
        previousServerChangeToken: CKServerChangeToken? = nil,
        resultsLimit: Int? = nil,
        desiredKeys: [CKRecord.FieldKey]? = nil
    ) {
        self.previousServerChangeToken = previousServerChangeToken
        self.resultsLimit = resultsLimit ?? 0
        self.desiredKeys = desiredKeys
    }

    /// Reads what `encode(with:)` wrote.
    public required init?(coder: NSCoder) {
        previousServerChangeToken = coder.object(CKServerChangeToken.self, "Token")
        resultsLimit = coder.number("Limit")
        desiredKeys = coder.text("Keys").map { $0.split(separator: "\n").map(String.init) }
    }

    /// Secure coding is supported.
    open class var supportsSecureCoding: Bool { true }

    /// Writes token, limit and fields.
    open func encode(with coder: NSCoder) {
        if let previousServerChangeToken { coder.encode(previousServerChangeToken, forKey: "Token") }
        coder.encode(resultsLimit, forKey: "Limit")
        if let desiredKeys { coder.encode(desiredKeys.joined(separator: "\n") as NSString, forKey: "Keys") }
    }

    /// An independent copy.
    open func copy(with zone: NSZone? = nil) -> Any {
        CKFetchRecordZoneChangesConfiguration(
            previousServerChangeToken: previousServerChangeToken,
            resultsLimit: resultsLimit,
            desiredKeys: desiredKeys
        )
    }
}

/// The name that it had before Swift 4.2.
public typealias CKFetchRecordZoneChangesOptions = CKFetchRecordZoneChangesConfiguration
